// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The crash record: where a child was when it crashed.
//
// The dying child writes only raw data, with calls that are safe in a signal
// handler: numbers, and a copy of /proc/self/maps. The parent, which is alive
// and runs the same program, interprets them.
//
//   | header: magic, signal, time, fault address, frame count | addresses |
//   | /proc/self/maps as it was, to the end of the file                   |
//
// The record is a memfd, not a pipe, which would fill up unread.

#ifndef TENON_SPAWN_REPORT_CRASH_RECORD_H_
#define TENON_SPAWN_REPORT_CRASH_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {

struct CrashRecord {
  int signal = 0;
  // By CLOCK_MONOTONIC.
  int64_t time_ns = 0;
  // One line per frame: "#0 0x7f12 in Decode(int)+0x12 (/lib/x.so+0x4012)"; the
  // name is missing where the dynamic symbol table does not have it.
  std::string stack;
};

// Parent: an empty record, close-on-exec. Errors: kResourceExhausted.
absl::StatusOr<UniqueFd> CreateCrashRecord();

// Child: from now on, a crash of this process writes a record, on a stack of
// its own, on any thread (only the calling thread survives the overflow of its
// own stack); the signal then takes its default effect. `fd` stays open for
// good. Once per process.
absl::Status RecordCrashes(UniqueFd fd);

// Parent, after the child's end: the record; empty if the child has written
// none. The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<std::optional<CrashRecord>> ReadCrashRecord(int fd);

// ReadCrashRecord() for bytes in memory.
absl::StatusOr<CrashRecord> ParseCrashRecord(absl::string_view bytes);

// "Decode(int)+0x12 (/lib/x.so+0x4012)" for an address of the process that had
// these maps; "?" if it is in none.
std::string DescribeAddress(uint64_t address, absl::string_view maps);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_CRASH_RECORD_H_
