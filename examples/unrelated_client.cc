// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The client of two programs: connects to the name that unrelated_server has
// printed, claims its tensor, and reads it also after the server has released
// it.

#include <cstring>
#include <iostream>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/exit_code.h"
#include "tenon/shm/base/status_macros.h"

using namespace tenon;  // NOLINT: a program of one file.

Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

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

  // The end of the stream: the server has released the tensor. kUnavailable
  // would be its death.
  const absl::Status end = channel.Receive(Soon()).status();
  if (!absl::IsOutOfRange(end)) {
    return absl::UnavailableError(absl::StrCat("no end, but ", end.ToString()));
  }
  TENON_ASSIGN_OR_RETURN(auto numbers, tensor.data<const float>());
  std::cout << "float32[2, 3] of the server, which has released it: sum "
            << std::accumulate(numbers.begin(), numbers.end(), 0.0) << "\n";
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: unrelated_client NAME, as unrelated_server prints\n";
    return 2;
  }
  return ExitCode(Run(argv[1]));
}
