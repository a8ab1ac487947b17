// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/fork_server/fork_request.h"

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::spawn {

std::string EncodeForkRequest(const ForkRequest& request) {
  ArchiveWriter writer;
  writer.Put(request.hold_interrupt);
  writer.Put(request.ignored_signals);
  writer.Put(request.own_group);
  writer.Put(absl::ToInt64Nanoseconds(request.orphan_grace));
  writer.Put(static_cast<uint32_t>(request.environment.size()));
  for (const std::string& one : request.environment) writer.PutString(one);
  writer.Put(request.children);
  writer.Put(request.stop);
  return std::move(writer).bytes();
}

absl::StatusOr<ForkRequest> DecodeForkRequest(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  ForkRequest request;
  TENON_ASSIGN_OR_RETURN(request.hold_interrupt, reader.Get<bool>());
  TENON_ASSIGN_OR_RETURN(request.ignored_signals, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(request.own_group, reader.Get<bool>());
  TENON_ASSIGN_OR_RETURN(const auto grace, reader.Get<int64_t>());
  request.orphan_grace = absl::Nanoseconds(grace);
  TENON_ASSIGN_OR_RETURN(const auto count, reader.Get<uint32_t>());
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(std::string one, reader.GetString());
    request.environment.push_back(std::move(one));
  }
  TENON_ASSIGN_OR_RETURN(request.children, reader.Get<uint32_t>());
  TENON_ASSIGN_OR_RETURN(request.stop, reader.Get<bool>());
  TENON_RETURN_IF_ERROR(reader.Finish());
  return request;
}

std::string EncodeForkReply(const ForkReply& reply) {
  ArchiveWriter writer;
  writer.PutStatus(reply.status);
  writer.Put(static_cast<uint32_t>(reply.pids.size()));
  for (const pid_t pid : reply.pids) writer.Put(int32_t{pid});
  return std::move(writer).bytes();
}

absl::StatusOr<ForkReply> DecodeForkReply(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  ForkReply reply;
  TENON_RETURN_IF_ERROR(reader.GetStatus(&reply.status));
  TENON_ASSIGN_OR_RETURN(const auto count, reader.Get<uint32_t>());
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(const auto pid, reader.Get<int32_t>());
    reply.pids.push_back(pid);
  }
  TENON_RETURN_IF_ERROR(reader.Finish());
  return reply;
}

}  // namespace tenon::spawn
