// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// One tensor to three processes at once, through a ring: all read the same
// memory.

#include <vector>

#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/child/main.h"
#include "tenon/spawn/process/start.h"

using namespace tenon;  // NOLINT: a program of one file.

Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

absl::Status Read(int index, UniqueFd socket) {
  TENON_ASSIGN_OR_RETURN(
      auto channel, Channel::Adopt(std::move(socket), {.allow_sockets = true}));
  TENON_ASSIGN_OR_RETURN(auto ring, JoinRing(channel, Soon()));
  TENON_ASSIGN_OR_RETURN(Message offer, channel.Receive(Soon()));
  ArenaTensorImporter importer;
  TENON_RETURN_IF_ERROR(importer.Accept(offer.bytes, std::move(offer.fds)));
  ArenaTensorHandle handle;  // Peek, claim, and only then acknowledge.
  const auto bytes = std::as_writable_bytes(std::span(&handle, 1));
  TENON_RETURN_IF_ERROR(ring->Peek(bytes, Soon()).status());
  TENON_ASSIGN_OR_RETURN(const Tensor tensor, importer.Claim(handle));
  TENON_RETURN_IF_ERROR(ring->Advance(1));
  TENON_ASSIGN_OR_RETURN(const float* last, tensor.at<const float>({999}));
  printf("reader %d: the last of 1000 numbers is %.1f\n", index, *last);
  return absl::OkStatus();
}
TENON_SPAWN_FUNCTION(Read);

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(auto arena, Arena::Create({}));
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         CreateTensor(*arena, kDtypeOf<float>, {1000}, Soon()));
  TENON_RETURN_IF_ERROR(tensor.Fill(0.5f));
  TENON_ASSIGN_OR_RETURN(ArenaTensorHandle handle, Describe(tensor));
  TENON_ASSIGN_OR_RETURN(ArenaOffer offer, Offer(tensor));
  TENON_ASSIGN_OR_RETURN(
      auto ring, RingProducer::Create({.record_bytes = sizeof(handle)}));
  std::vector<spawn::Process> readers;
  for (int i = 0; i < 3; ++i) {
    TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
    TENON_ASSIGN_OR_RETURN(
        auto reader,
        spawn::StartProcess("Read", {.index = i}, ends.second.Release()));
    readers.push_back(std::move(reader));
    TENON_RETURN_IF_ERROR(AddRingReader(*ring, ends.first, Soon()).status());
    TENON_RETURN_IF_ERROR(ends.first.Send(offer.bytes, offer.fds, Soon()));
  }
  const auto bytes = std::as_bytes(std::span(&handle, 1));
  TENON_RETURN_IF_ERROR(ring->Put(bytes, Soon()));
  for (auto& reader : readers) TENON_RETURN_IF_ERROR(reader.Join(Soon()));
  return absl::OkStatus();
}

// The readers are this program, too.
TENON_SPAWN_MAIN(Run);
