// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The client of two programs: connects to the name that unrelated_server has
// printed, claims its tensor, and reads it also after the server has released
// it.

#include <cstring>
#include <numeric>

#include "tenon/examples/example.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/arena/arena_tensor.h"

using namespace tenon;  // NOLINT: an example.

absl::Status Run(absl::string_view name) {
  TENON_ASSIGN_OR_RETURN(
      Channel channel,
      Connect(name, Soon(), {.channel = {.allow_sockets = true}}));
  TENON_ASSIGN_OR_RETURN(Message offer, channel.Receive(Soon()));
  ArenaTensorImporter importer;
  TENON_RETURN_IF_ERROR(importer.Accept(offer.bytes, std::move(offer.fds)));

  TENON_ASSIGN_OR_RETURN(const Message message, channel.Receive(Soon()));
  ArenaTensorHandle handle;
  if (message.bytes.size() != sizeof(handle)) {
    return absl::DataLossError("malformed tensor handle");
  }
  std::memcpy(static_cast<void*>(&handle), message.bytes.data(),
              sizeof(handle));
  TENON_ASSIGN_OR_RETURN(const Tensor tensor, importer.Claim(handle));
  TENON_RETURN_IF_ERROR(channel.Send("claimed", {}, Soon()));

  TENON_RETURN_IF_ERROR(channel.Receive(Soon()).status());  // Goodbye.
  TENON_ASSIGN_OR_RETURN(auto numbers, tensor.data<const float>());
  std::printf("sum %.0f\n",
              std::accumulate(numbers.begin(), numbers.end(), 0.0));
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  if (argc == 2) return Finish(Run(argv[1]));
  std::fprintf(stderr, "usage: unrelated_client NAME\n");
  return 2;
}
