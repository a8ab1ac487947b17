// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// One tensor to three processes at once: all read the same memory.

#include "tenon/examples/example.h"
#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"

using namespace tenon;  // NOLINT

absl::Status Read(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(
      auto channel, Channel::Adopt(child.TakeFd(0), {.allow_sockets = true}));
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
  std::printf("reader %d: %.1f\n", child.index(), *last);
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("read", Read);

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(auto arena, Arena::Create({}));
  auto tensor = CreateTensor(*arena, kDtypeOf<float>, {1000}, Soon());
  TENON_RETURN_IF_ERROR(tensor.status());
  TENON_RETURN_IF_ERROR(tensor->Fill(0.5f));
  TENON_ASSIGN_OR_RETURN(ArenaTensorHandle handle, Describe(*tensor));
  TENON_ASSIGN_OR_RETURN(ArenaOffer offer, Offer(*tensor));
  const RingOptions records = {.record_bytes = sizeof(handle)};
  TENON_ASSIGN_OR_RETURN(auto ring, RingProducer::Create(records));
  std::vector<spawn::Process> readers;
  for (int i = 0; i < 3; ++i) {
    TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
    spawn::ProcessOptions options{.entry = "read", .index = i};
    options.fds.push_back(ends.second.Release());
    TENON_ASSIGN_OR_RETURN(auto reader,
                           spawn::Process::Start(std::move(options)));
    readers.push_back(std::move(reader));
    TENON_RETURN_IF_ERROR(AddRingReader(*ring, ends.first, Soon()).status());
    TENON_RETURN_IF_ERROR(ends.first.Send(offer.bytes, offer.fds, Soon()));
  }
  const auto bytes = std::as_bytes(std::span(&handle, 1));
  TENON_RETURN_IF_ERROR(ring->Put(bytes, Soon()));
  for (auto& reader : readers) TENON_RETURN_IF_ERROR(reader.Join(Soon()));
  return absl::OkStatus();
}

int main(int argc, char** argv) { return RunExample(argc, argv, Run); }
