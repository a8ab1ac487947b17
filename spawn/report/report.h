// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Report: a child's final message: the outcome of its entry point.
//
// The child sends it over the control channel before it exits; the parent reads
// it once the child has ended, when all messages of the child have arrived, and
// without cost: a message outlives its sender.

#ifndef TENON_SPAWN_REPORT_REPORT_H_
#define TENON_SPAWN_REPORT_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/channel.h"

namespace tenon::spawn {

// The return value of the entry point: code and message, no payloads. A type of
// its own, so that it cannot be mistaken for the status of the call that
// fetches it.
struct Report {
  absl::Status status;
  // When the entry point ended, by the child's CLOCK_MONOTONIC.
  int64_t time_ns = 0;
  // Where the exception was thrown, if known.
  std::string stack;
};

// Encodes it into one message. A longer status message is cut at its end and
// says how much was cut.
std::string EncodeReport(const Report& report);

// The reverse. The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<Report> DecodeReport(absl::string_view bytes);

// Child: sends the report. Does not block for long: fails when the parent's end
// is closed or full.
absl::Status SendReport(Channel& control, const Report& report);

// Parent: the report of a child that may still run; empty if none has come.
// Does not block.
// Errors: kDataLoss if it sent anything else; kResourceExhausted,
// kFailedPrecondition from Channel::Receive().
absl::StatusOr<std::optional<Report>> PollReport(Channel& control);

// Parent: the report of a child that has ended; empty if it sent none. `early`
// is the one that PollReport() has returned. Does not block.
// Errors: as PollReport(); kDataLoss also if it sent more than one report.
absl::StatusOr<std::optional<Report>> ReceiveReport(
    Channel& control, std::optional<Report> early = std::nullopt);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_REPORT_H_
