// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/manager_message.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm_manager/manager_stats.h"

namespace tenon {
namespace {

// In the order of the wire.
constexpr uint64_t ManagerStats::*kCounts[] = {
    &ManagerStats::clients,       &ManagerStats::kept_names,
    &ManagerStats::attached,      &ManagerStats::refused,
    &ManagerStats::malformed,     &ManagerStats::sweeps,
    &ManagerStats::failed_sweeps, &ManagerStats::removed_names,
    &ManagerStats::removed_bytes};

absl::Status CheckSize(absl::string_view bytes) {
  if (bytes.size() <= kMaxManagerMessage) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("shm_manager: a message of ", bytes.size(),
                   " bytes exceeds the limit of ", kMaxManagerMessage));
}

bool HasName(ManagerRequestKind kind) {
  return kind == ManagerRequestKind::kKeepName ||
         kind == ManagerRequestKind::kReleaseName;
}

absl::Status CheckRequest(const ManagerRequest& request) {
  if (request.kind < ManagerRequestKind::kAttach ||
      request.kind > ManagerRequestKind::kQueryStats) {
    return absl::DataLossError(
        absl::StrCat("shm_manager: unknown kind of request ",
                     static_cast<uint32_t>(request.kind), "; want 1 to 4"));
  }
  if (HasName(request.kind)) {
    if (CheckShmName(request.name).ok()) return absl::OkStatus();
    return absl::DataLossError("shm_manager: malformed name in a request");
  }
  if (request.name.empty()) return absl::OkStatus();
  return absl::DataLossError(
      "shm_manager: a name in a request whose kind has none");
}

}  // namespace

std::string EncodeManagerRequest(const ManagerRequest& request) {
  ArchiveWriter writer;
  writer.Put(request.kind);
  writer.Put(request.version);
  writer.PutString(request.name);
  return std::move(writer).bytes();
}

absl::StatusOr<ManagerRequest> ParseManagerRequest(absl::string_view bytes) {
  TENON_RETURN_IF_ERROR(CheckSize(bytes));
  ArchiveReader reader(bytes);
  ManagerRequest request;
  TENON_ASSIGN_OR_RETURN(request.kind, reader.Get<ManagerRequestKind>());
  TENON_ASSIGN_OR_RETURN(request.version, reader.Get<uint32_t>());
  if (request.version != ManagerVersion()) return request;
  TENON_ASSIGN_OR_RETURN(request.name, reader.GetString());
  TENON_RETURN_IF_ERROR(reader.Finish());
  TENON_RETURN_IF_ERROR(CheckRequest(request));
  return request;
}

std::string EncodeManagerReply(const ManagerReply& reply) {
  ArchiveWriter writer;
  writer.PutStatus(reply.status.code(),
                   reply.status.message().substr(0, kMaxManagerText));
  writer.Put(reply.version);
  for (const auto count : kCounts) writer.Put(reply.stats.*count);
  return std::move(writer).bytes();
}

absl::StatusOr<ManagerReply> ParseManagerReply(absl::string_view bytes) {
  TENON_RETURN_IF_ERROR(CheckSize(bytes));
  ArchiveReader reader(bytes);
  ManagerReply reply;
  TENON_RETURN_IF_ERROR(reader.GetStatus(&reply.status));
  TENON_ASSIGN_OR_RETURN(reply.version, reader.Get<uint32_t>());
  if (reply.version != ManagerVersion()) return reply;
  for (const auto count : kCounts) {
    TENON_ASSIGN_OR_RETURN(reply.stats.*count, reader.Get<uint64_t>());
  }
  TENON_RETURN_IF_ERROR(reader.Finish());
  if (reply.status.message().size() <= kMaxManagerText) return reply;
  return absl::DataLossError(
      absl::StrCat("shm_manager: a text of ", reply.status.message().size(),
                   " bytes in a reply exceeds the limit of ", kMaxManagerText));
}

}  // namespace tenon
