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
// They are attached as a payload to the absl::Status that Join() returns: so
// they survive copies, and layers that pass a Status on. Status::ToString()
// prints the payload, a line of text. Long texts that the message contains (a
// stack, the tail of stderr) are kept there alone: a layer that passes the
// payload on with another message keeps that text in it, or loses these.

#ifndef TENON_SPAWN_REPORT_PROCESS_ERROR_H_
#define TENON_SPAWN_REPORT_PROCESS_ERROR_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

// The entry point returned an error, or threw an exception.
struct ProcessRaised {
  int index = 0;
  pid_t pid = -1;
  // Code and message as in the child; kInternal for an exception.
  absl::Status status;
  // Where the exception was thrown, if the child links
  // //spawn/child:throw_stack; else empty.
  std::string stack;
};

// Any other failure: the child exited, crashed, or was killed.
struct ProcessExited {
  int index = 0;
  pid_t pid = -1;
  // Exit code; -1 if a signal ended the child, or if its status is unknown.
  int exit_code = -1;
  // 0 if it exited; else the signal's number, and "SIGKILL" or "signal 35".
  int signal = 0;
  std::string signal_name;
  // The tail of its stderr; see ProcessOptions::keep_stderr_tail.
  std::string stderr_tail;
  // One line per frame; ProcessOptions::crash_stack.
  std::string stack;
  // The child was killed by SIGKILL while the kernel counted an out-of-memory
  // kill in its control group (memory.events). A sibling's kill may be mistaken
  // for its own.
  bool killed_for_memory = false;
  // From getrusage(2): exec keeps the mark, so it is at least the peak that the
  // parent had when it started the child. 0 if unknown.
  int64_t peak_rss_bytes = 0;
};

// Replace any previous payload of `status`, which is not OK. Thread-safe.
void SetProcessError(const ProcessRaised& error, absl::Status& status);
void SetProcessError(const ProcessExited& error, absl::Status& status);

// The payload of a status; empty without a payload of that kind. The bytes may
// be anything: a malformed payload counts as none.
std::optional<ProcessRaised> GetProcessRaised(const absl::Status& status);
std::optional<ProcessExited> GetProcessExited(const absl::Status& status);

// "SIGKILL"; "signal 35" for one without a name.
std::string SignalName(int signal);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_PROCESS_ERROR_H_
