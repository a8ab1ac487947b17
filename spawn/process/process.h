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
//     if (!child.ok()) return 1;
//     return child->Join(Deadline::Never()).ok() ? 0 : 1;
//   }
//
// The child is started by exec of /proc/self/exe (posix_spawn), so it shares
// nothing with its parent but what is handed over: no locks that another thread
// held, no descriptors, no CUDA context. StartMethod::kFork is for those who
// know that they may (process_options.h).

#ifndef TENON_SPAWN_PROCESS_PROCESS_H_
#define TENON_SPAWN_PROCESS_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

struct PreparedChild;
struct StartedChild;

// Ownership: owns the child. Destroying it kills a child that still runs
//   (SIGKILL) and reaps it; it does not return before that is done, and it
//   never leaves a zombie. If the child is no daemon (ProcessOptions::daemon),
//   it waits for the child to end by itself instead. With the child ends what
//   it has started (ProcessOptions::own_group). Output that cannot be written
//   delays it by 1 s at most.
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
  // reset. The sharing strategy (shm/segment/sharing_strategy.h) travels. A
  // failed start leaves nothing behind; options.fds are closed. Errors:
  // kNotFound if no entry has that name, listing those that have;
  // kFailedPrecondition if this program did not call spawn::Init() at the top
  // of main, or if it would fork with more than one thread; kInvalidArgument
  // for an empty UniqueFd and other bad options; kResourceExhausted at a limit
  // of descriptors, processes or memory; kUnavailable if the child ended before
  // it had its descriptors; otherwise what posix_spawn() or fork() reports, or
  // open() of a file for its output.
  static absl::StatusOr<Process> Start(ProcessOptions options);

  // Starts a child for each element of `fds`, which are its descriptors, and
  // stay open here; options.fds are closed unused. None waits for another to be
  // up; those of up to eight share a supervisor. Their indices count up from
  // options.index. "{index}" in settings.name, stdout_file and stderr_file is
  // replaced by the index. If one cannot be started, those that were are
  // killed and reaped. Errors: as Start().
  static absl::StatusOr<std::vector<Process>> StartEach(
      ProcessOptions options, absl::Span<const std::vector<int>> fds);

  // Start() for options that are to be used again: options.fds are ignored,
  // and `fds` are the child's, but stay open here.
  static absl::StatusOr<Process> StartShared(const ProcessOptions& options,
                                             absl::Span<const int> fds);

  ~Process();
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;

  // Those of the child, also after its end. It is its supervisor's to reap
  // (supervisor.h): waitpid() of this process does not know it.
  pid_t pid() const;
  int index() const;

  // For poll(): readable once the child has ended; then Join() blocks only for
  // output that is still to be written (lost_output_bytes()).
  int end_fd() const;

  // Whether it has not ended. Does not block; false if moved from.
  bool IsAlive() const;

  // Sends a signal. Errors: kNotFound once the child has been joined.
  absl::Status Signal(int signal) const;
  absl::Status Terminate() const;  // SIGTERM
  absl::Status Kill() const;       // SIGKILL

  // Waits for the child to end and says how it did. Blocks until `deadline`.
  // OK if the entry point returned OK, or if it ended the process with exit
  // code 0: by exit(), or by another program that it executed. Calling it again
  // gives the same answer.
  // Errors, of which all but the first carry a ProcessRaised or a ProcessExited
  // (process_error.h):
  //   kDeadlineExceeded   it still runs, or a tracer (a debugger) delays its
  //                       end, or its output is still being written; nothing
  //                       has changed
  //   the entry's status  code and message of what the entry point returned,
  //                       or kInternal for an exception, behind the child's
  //                       name
  //   kAborted            it ended without a report, by a signal or with
  //                       another code; or not in order after one that said OK
  //   kDataLoss           it sent something that is not a report
  absl::Status Join(Deadline deadline);
  // How long who looks after several waits in Join() for one whose end_fd() is
  // readable: if its supervisor was killed, its own end may be a moment behind,
  // and the others wait meanwhile.
  static constexpr absl::Duration kEndPatience = absl::Milliseconds(1);

  // Whether Join() has said how it ended. The status alone does not tell: the
  // entry point may have returned kDeadlineExceeded itself.
  bool joined() const;

  // How it ended as the kernel saw it; empty before Join() has returned, or if
  // somebody else has reaped it.
  const std::optional<ExitStatus>& exit_status() const;

  // How many bytes of the child's output this process could not write, with
  // ProcessOptions::tee or keep_stderr_tail: once a child has ended, its output
  // waits for 1 s at most for files and streams that are full. Final once
  // Join() has said how the child ended, whose error says it, too.
  int64_t lost_output_bytes() const;

  // Ends the child: SIGTERM, `grace` to comply, then SIGKILL; reaps it. Blocks
  // for little more than `grace` at most, and 1 s for output that cannot be
  // written. A child that has ended is left as is.
  void Stop(absl::Duration grace);

  // Lets go of all that this has of a child that has ended, and reaps it if
  // Join() has not; then this is as if moved from, and may be closed again.
  // Blocks for 1 s at most, for output that cannot be written. Errors:
  // kFailedPrecondition if the child still runs, or in a fork; nothing has
  // changed then.
  absl::Status Close();

  // "worker 1 (entry 'greet', pid 4711)".
  std::string Describe() const;

 private:
  friend class Processes;
  struct State;

  explicit Process(std::unique_ptr<State> state);

  static absl::Status StartBatch(const ProcessOptions& options, int index,
                                 absl::Span<const std::vector<int>> fds,
                                 std::vector<PreparedChild> prepared,
                                 std::optional<int64_t> memory_kills,
                                 std::vector<Process>& started);
  // Kills those that were started; returns `why`.
  static absl::Status GiveUp(const std::vector<Process>& started,
                             absl::Status why);
  // `why`, naming the child that cannot be started.
  static absl::Status CannotStart(const ProcessOptions& options,
                                  const absl::Status& why);
  // One that waits to be resumed.
  static Process Of(StartedChild child, const ProcessOptions& options,
                    int index);
  absl::Status Resume(absl::Span<const int> fds);

  // When it failed, by CLOCK_MONOTONIC: as its report or its crash record says,
  // else when that was noticed. For one that has been joined.
  int64_t failed_at_ns() const;

  absl::Status CheckOurs() const;
  // Kills, unless it is to be waited for, and reaps a child that has not been
  // joined.
  void End();
  // Waits for the child's end and reaps it.
  absl::Status AwaitEnd(Deadline deadline);
  // The verdict on an ended child, from its report and its exit status.
  absl::Status Verdict(const absl::StatusOr<ExitStatus>& exit);

  std::unique_ptr<State> state_;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_PROCESS_H_
