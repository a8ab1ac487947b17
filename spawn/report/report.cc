// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/report.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::spawn {
namespace {

constexpr uint32_t kMagic = 0x74706572;  // "rept"
// Room for the other fields and for the marks of two cuts.
constexpr size_t kMaxStack = 8 * 1024;
constexpr size_t kMaxMessage = Channel::kMaxBytes - kMaxStack - 256;

std::string CutToFit(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  return absl::StrCat(text.substr(0, most), " [cut: ", text.size() - most,
                      " bytes more]");
}

absl::Status Garbage(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("sent a malformed report: ", why));
}

// Whether there is nothing more to receive. A channel that is open though the
// child is dead was inherited by a fork of the child, which sends no report.
bool IsEnd(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

absl::StatusOr<Report> ReadReport(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  TENON_ASSIGN_OR_RETURN(const auto magic, reader.Get<uint32_t>());
  if (magic != kMagic) {
    return absl::DataLossError(absl::StrCat("bad magic 0x", absl::Hex(magic)));
  }
  Report report;
  TENON_RETURN_IF_ERROR(reader.GetStatus(&report.status));
  TENON_ASSIGN_OR_RETURN(report.time_ns, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(report.stack, reader.GetString());
  TENON_RETURN_IF_ERROR(reader.Finish());
  return report;
}

}  // namespace

std::string EncodeReport(const Report& report) {
  ArchiveWriter writer;
  writer.Put(kMagic);
  writer.PutStatus(report.status.code(),
                   CutToFit(report.status.message(), kMaxMessage));
  writer.Put(report.time_ns);
  writer.PutString(CutToFit(report.stack, kMaxStack));
  return std::move(writer).bytes();
}

absl::StatusOr<Report> DecodeReport(absl::string_view bytes) {
  absl::StatusOr<Report> report = ReadReport(bytes);
  if (!report.ok()) return Garbage(report.status().message());
  return report;
}

absl::Status SendReport(Channel& control, const Report& report) {
  return control.Send(EncodeReport(report), {},
                      Deadline::After(absl::Seconds(1)));
}

absl::StatusOr<std::optional<Report>> PollReport(Channel& control) {
  absl::StatusOr<Message> message = control.Receive(Deadline::Passed());
  if (IsEnd(message.status())) return std::nullopt;
  TENON_RETURN_IF_ERROR(message.status());
  if (!message->fds.empty()) {
    return Garbage(
        absl::StrCat("it has ", message->fds.size(), " descriptors; want 0"));
  }
  return DecodeReport(message->bytes);
}

absl::StatusOr<std::optional<Report>> ReceiveReport(
    Channel& control, std::optional<Report> early) {
  if (!early) {
    TENON_ASSIGN_OR_RETURN(early, PollReport(control));
    if (!early) return std::nullopt;
  }
  if (!IsEnd(control.Receive(Deadline::Passed()).status())) {
    return Garbage("more than one message");
  }
  return early;
}

}  // namespace tenon::spawn
