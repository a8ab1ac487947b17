// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/process_error.h"

#include <string.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::spawn {
namespace {

constexpr char kRaisedUrl[] = "tenon/spawn.ProcessRaised";
constexpr char kExitedUrl[] = "tenon/spawn.ProcessExited";

absl::StatusOr<ProcessRaised> ReadRaised(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  ProcessRaised error;
  TENON_ASSIGN_OR_RETURN(error.index, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(error.pid, reader.Get<int32_t>());
  TENON_RETURN_IF_ERROR(reader.GetStatus(&error.status));
  TENON_ASSIGN_OR_RETURN(error.stack, reader.GetString());
  TENON_RETURN_IF_ERROR(reader.Finish());
  return error;
}

absl::StatusOr<ProcessExited> ReadExited(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  ProcessExited error;
  TENON_ASSIGN_OR_RETURN(error.index, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(error.pid, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(error.exit_code, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(error.signal, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(error.signal_name, reader.GetString());
  TENON_ASSIGN_OR_RETURN(error.stderr_tail, reader.GetString());
  TENON_ASSIGN_OR_RETURN(error.stack, reader.GetString());
  TENON_ASSIGN_OR_RETURN(error.killed_for_memory, reader.Get<bool>());
  TENON_ASSIGN_OR_RETURN(error.peak_rss_bytes, reader.Get<int64_t>());
  TENON_RETURN_IF_ERROR(reader.Finish());
  return error;
}

void SetPayload(const char* url, const char* other, ArchiveWriter writer,
                absl::Status& status) {
  status.ErasePayload(other);
  status.SetPayload(url, absl::Cord(std::move(writer).bytes()));
}

template <typename Error>
std::optional<Error> Get(const absl::Status& status, const char* url,
                         absl::StatusOr<Error> (*read)(absl::string_view)) {
  const auto payload = status.GetPayload(url);
  if (!payload) return std::nullopt;
  absl::StatusOr<Error> error = read(std::string(*payload));
  if (!error.ok()) return std::nullopt;
  return *std::move(error);
}

}  // namespace

void SetProcessError(const ProcessRaised& error, absl::Status& status) {
  ArchiveWriter writer;
  writer.Put(int32_t{error.index});
  writer.Put(int32_t{error.pid});
  writer.PutStatus(error.status);
  writer.PutString(error.stack);
  SetPayload(kRaisedUrl, kExitedUrl, std::move(writer), status);
}

void SetProcessError(const ProcessExited& error, absl::Status& status) {
  ArchiveWriter writer;
  writer.Put(int32_t{error.index});
  writer.Put(int32_t{error.pid});
  writer.Put(int32_t{error.exit_code});
  writer.Put(int32_t{error.signal});
  writer.PutString(error.signal_name);
  writer.PutString(error.stderr_tail);
  writer.PutString(error.stack);
  writer.Put(error.killed_for_memory);
  writer.Put(error.peak_rss_bytes);
  SetPayload(kExitedUrl, kRaisedUrl, std::move(writer), status);
}

std::optional<ProcessRaised> GetProcessRaised(const absl::Status& status) {
  return Get<ProcessRaised>(status, kRaisedUrl, ReadRaised);
}

std::optional<ProcessExited> GetProcessExited(const absl::Status& status) {
  return Get<ProcessExited>(status, kExitedUrl, ReadExited);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name)
                         : absl::StrCat("signal ", signal);
}

}  // namespace tenon::spawn
