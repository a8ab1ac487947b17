// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Report: the last word of a child, how its entry point ended.
//
// The child sends it over the control channel before it exits; the parent reads
// it once the child has ended, which is late enough for all that the child
// will ever say and costs nothing: a message outlives its sender.

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

// What the entry point returned: code and message, no payloads. A type of its
// own, so that it cannot be taken for the status of the call that fetches it.
struct Report {
  absl::Status status;
  // When the entry point ended, by the child's CLOCK_MONOTONIC.
  int64_t time_ns = 0;
  // Where the exception was thrown, if that is known.
  std::string stack;
};

// As bytes that fit into one message. A longer status message is cut at its end
// and says how much was cut.
std::string EncodeReport(const Report& report);

// The reverse. The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<Report> DecodeReport(absl::string_view bytes);

// Child: sends the report. Does not block for long: it is given up when the
// parent's end is closed or full.
absl::Status SendReport(Channel& control, const Report& report);

// Parent: what a child that has ended reported; empty if it reported nothing.
// Does not block.
// Errors: kDataLoss if what it sent is not exactly one report;
// kResourceExhausted, kFailedPrecondition as of Channel::Receive().
absl::StatusOr<std::optional<Report>> ReceiveReport(Channel& control);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_REPORT_H_
