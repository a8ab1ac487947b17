// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProcessRaised and ProcessExited: how a child failed, as values.
//
//   absl::Status how = processes->Join();
//   if (auto raised = GetProcessRaised(how)) {
//     // raised->index, raised->status: what its entry point returned
//   } else if (auto exited = GetProcessExited(how)) {
//     // exited->signal_name == "SIGSEGV", exited->stack, ...
//   }
//
// They travel as a payload of the absl::Status that Join() returns, whose
// message says the same in words; so they survive copies, and any layer that
// passes a Status on.

#ifndef TENON_SPAWN_REPORT_PROCESS_ERROR_H_
#define TENON_SPAWN_REPORT_PROCESS_ERROR_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace tenon::spawn {

// The entry point returned an error, or let out an exception.
struct ProcessRaised {
  int index = 0;
  pid_t pid = -1;
  // Code and message as they were in the child; kInternal for an exception.
  absl::Status status;
  // Of the throw, if the child links //spawn/child:throw_stack; else empty.
  std::string stack;
};

// Anything else: it exited, crashed, or was killed.
struct ProcessExited {
  int index = 0;
  pid_t pid = -1;
  // Of exit(); -1 if a signal ended it, or if somebody else took the status.
  int exit_code = -1;
  // 0 if it exited; else its number, and "SIGKILL" or "signal 35".
  int signal = 0;
  std::string signal_name;
  // The end of what it wrote there; ProcessOptions::keep_stderr_tail.
  std::string stderr_tail;
  // One line per frame; ProcessOptions::crash_stack.
  std::string stack;
  // It was killed by SIGKILL while the kernel counted a kill for want of memory
  // in its control group (memory.events). A sibling's may be mistaken for its
  // own.
  bool killed_for_memory = false;
  // As getrusage(2) says: exec keeps the mark, so it is at least the peak that
  // its parent had when it started it. 0 if unknown.
  int64_t peak_rss_bytes = 0;
};

// Thread-safe. These replace what `status`, which is not OK, carried before.
void SetProcessError(const ProcessRaised& error, absl::Status& status);
void SetProcessError(const ProcessExited& error, absl::Status& status);

// What a status carries; empty if it carries none of that kind. The bytes may
// be anything: one that cannot be read is none.
std::optional<ProcessRaised> GetProcessRaised(const absl::Status& status);
std::optional<ProcessExited> GetProcessExited(const absl::Status& status);

// "SIGKILL"; "signal 35" for one without a name.
std::string SignalName(int signal);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_PROCESS_ERROR_H_
