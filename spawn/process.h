// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Process: a child that runs a registered entry point of this same program.
//
//   absl::Status Greet(spawn::Child& child) {
//     std::printf("child %d: %s\n", child.index(), child.argument().c_str());
//     return absl::OkStatus();
//   }
//   TENON_SPAWN_ENTRY("greet", Greet);          // entry.h
//
//   int main(int argc, char** argv) {
//     spawn::Init(argc, argv);                   // init.h; first thing in main
//     auto child = spawn::Process::Start({.entry = "greet", .argument = "hi"});
//     if (!child.ok()) ...
//     absl::Status how = child->Join(Deadline::Never());
//   }
//
// The child is started by exec of /proc/self/exe (posix_spawn), so it shares
// nothing with its parent but what is handed over: no locks that another thread
// held, no descriptors, no CUDA context.

#ifndef TENON_SPAWN_PROCESS_H_
#define TENON_SPAWN_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/unique_fd.h"

namespace tenon::spawn {

struct ProcessOptions {
  // The name of a TENON_SPAWN_ENTRY.
  std::string entry;
  // Told to the child: which of its siblings it is.
  int index = 0;
  // What the entry point gets as argument(). Any bytes, any length.
  std::string argument;
  // Descriptors for the child, in this order; closed here once it has them.
  std::vector<UniqueFd> fds;
  // Whether the child ignores SIGINT, from before its first instruction on. A
  // terminal sends Ctrl-C to parent and children alike; a child that its parent
  // will stop in an orderly way should not race it.
  bool ignore_interrupt = false;
  // How long the child may go on to end by itself after its parent has died,
  // before it is ended. See init.h.
  absl::Duration orphan_grace = absl::Seconds(1);
};

// Ownership: owns the child. Destroying it kills a child that still runs
//   (SIGKILL) and reaps it; it does not return before that is done, and it
//   never leaves a zombie.
// Threads: thread-compatible; Signal() may run beside anything.
// Processes: belongs to the process that started the child; inert in a fork:
//   calls fail with kFailedPrecondition, the destructor does nothing.
// Trust: what the child reports is checked; a child that sends garbage fails
//   with kDataLoss.
// Failure: every failure names the child: entry, index, pid.
class Process {
 public:
  // Starts a child; returns when the new program has been started (not when its
  // entry point has). Descriptors other than 0, 1, 2 and those in options.fds
  // are not inherited, close-on-exec or not. Signal mask and handlers are
  // reset. The sharing strategy (shm/sharing_strategy.h) travels. A failed
  // start leaves nothing behind; options.fds are closed.
  // Errors: kNotFound if no entry has that name, listing those that have;
  // kFailedPrecondition if this program did not call spawn::Init() at the top
  // of main; kInvalidArgument for an empty UniqueFd; kResourceExhausted at a
  // limit of descriptors, processes or memory; kUnavailable if the child ended
  // before it had its descriptors; otherwise what posix_spawn() reports.
  static absl::StatusOr<Process> Start(ProcessOptions options);

  ~Process();
  Process(Process&&) noexcept = default;
  Process& operator=(Process&&) noexcept;

  pid_t pid() const { return pid_; }
  int index() const { return index_; }

  // For poll(): readable once the child has ended.
  int end_fd() const { return pid_fd_.fd(); }

  // Sends a signal. Errors: kNotFound once the child has been joined.
  absl::Status Signal(int signal) const;

  // Waits for the child to end and says how it did. Blocks until `deadline`.
  // OK if the entry point returned OK. Calling it again gives the same answer.
  // Errors:
  //   kDeadlineExceeded   it still runs; nothing has changed
  //   the entry's status  code and message of what the entry point returned,
  //                       or kInternal for an exception, behind the child's
  //                       name
  //   kAborted            it ended without a report: exit code or signal by
  //                       name; or not in order after one that said OK
  //   kDataLoss           it sent something that is not a report
  absl::Status Join(Deadline deadline);

  // How it ended as the kernel saw it; empty before Join() has returned.
  const std::optional<ExitStatus>& exit_status() const { return exit_status_; }

  // Ends the child: SIGTERM, `grace` to comply, then SIGKILL; reaps it. Blocks
  // for little more than `grace` at most. A child that has ended is left as is.
  void Stop(absl::Duration grace);

  // "worker 1 (entry 'greet', pid 4711)".
  std::string Describe() const;

 private:
  Process(PidFd pid_fd, Channel control, const ProcessOptions& options,
          pid_t pid);

  absl::Status CheckOurs() const;
  // Kills and reaps a child that has not been joined.
  void End();
  // The verdict on an ended child, from its report and its exit status.
  absl::Status Verdict();

  PidFd pid_fd_;
  Channel control_;
  pid_t pid_ = -1;
  int index_ = 0;
  std::string entry_;
  std::optional<ExitStatus> exit_status_;
  std::optional<absl::Status> outcome_;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_H_
