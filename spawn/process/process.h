// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Process: a child that runs a registered entry point of this same program, or
// of another one (ProcessOptions::program).
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
//     return child->Join().ok() ? 0 : 1;
//   }
//
// The child executes /proc/self/exe, started by a supervisor, so it shares
// nothing with its parent except the arguments it is given: no locks that
// another thread held, no descriptors, no CUDA context. StartMethod::kFork has
// preconditions: see process_options.h.

#ifndef TENON_SPAWN_PROCESS_PROCESS_H_
#define TENON_SPAWN_PROCESS_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
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
#include "tenon/shm/process/pid_fd.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

struct PreparedChild;
struct StartedChild;

// Ownership: owns the child. The destructor kills a child that still runs
//   (SIGKILL) and reaps it; it does not return before that is done, and it
//   never leaves a zombie. Without ProcessOptions::kill_on_drop it waits for
//   the child to end by itself instead. The child's descendants end with it
//   (ProcessOptions::own_group). Output that cannot be written delays the
//   destructor by 2 s at most.
// Threads: thread-compatible; Signal() may run concurrently with any call.
// Processes: belongs to the process that started the child; inert in a fork:
//   calls fail with kFailedPrecondition, the destructor does nothing.
// Trust: the child's report is validated; a child that sends garbage fails with
//   kDataLoss.
// Failure: every failure names the child: entry, index, pid.
class Process {
 public:
  // Starts a child; returns when the new program has been started (not when its
  // entry point has). Descriptors other than 0, 1, 2 and options.fds are not
  // inherited, whether or not they are close-on-exec. Signal mask and handlers
  // are reset. The sharing strategy (shm/segment/sharing_strategy.h) is
  // inherited. A failed start leaves nothing behind; options.fds are closed.
  // Errors: kNotFound if no entry has that name, listing the registered names
  // (of another program, Join() returns that error), or options.program is not
  // there; kPermissionDenied if it is no executable;
  // kFailedPrecondition if this program did not call spawn::Init() at the top
  // of main, and needs to (with options.program: if it is a child itself), or
  // if it would fork with more than one thread; kInvalidArgument
  // for an empty UniqueFd and other bad options; kResourceExhausted at a limit
  // of descriptors, processes or memory; kUnavailable if the child ended before
  // it received its descriptors; otherwise the error of the supervisor's
  // start, of fork(), or of open() of a file for its output.
  static absl::StatusOr<Process> Start(ProcessOptions options);

  // How many children of one StartEach() share a supervisor.
  static constexpr size_t kSupervisedTogether = 8;

  // Starts one child per element of `fds`, which are the child's descriptors;
  // they stay open in this process. options.fds are ignored; the options can be
  // used again, as they are changed only during the call. The children start in
  // parallel. Their indices count up from options.index. If one child cannot be
  // started, those already started are killed and reaped. Errors: as Start().
  static absl::StatusOr<std::vector<Process>> StartEach(
      ProcessOptions& options, absl::Span<const std::vector<int>> fds);

  ~Process();
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;

  // Pid and index of the child, also after its end. The child is reaped by its
  // supervisor (supervisor.h): waitpid() of this process does not know it.
  pid_t pid() const;
  int index() const;

  // For poll(): readable once the child has ended; then Join() blocks only for
  // output that is still to be written (lost_output_bytes()).
  int end_fd() const;

  // Whether the child still runs. Does not block; false if moved from.
  bool IsAlive() const;

  // Sends a signal. Errors: kNotFound once the child has been joined.
  absl::Status Signal(int signal) const;
  absl::Status Terminate() const;  // SIGTERM
  absl::Status Kill() const;       // SIGKILL

  // Waits for the child to end and returns its outcome. Blocks until
  // `deadline`. OK if the entry point returned OK, or if it ended the process
  // with exit code 0: by exit(), or through another program that it executed.
  // Later calls return the same answer.
  // Errors; all but the first carry a ProcessRaised or a ProcessExited
  // (process_error.h):
  //   kDeadlineExceeded   the child still runs, or a tracer (a debugger)
  //                       delays its end, or its output is still being
  //                       written; nothing has changed
  //   the entry's status  code and message that the entry point returned, or
  //                       kInternal for an exception, behind the child's name
  //   kAborted            the child ended without a report, by a signal or with
  //                       a nonzero code; or abnormally after a report of OK
  //   kDataLoss           the child sent a malformed report
  absl::Status Join(Deadline deadline = Deadline::Never());
  // How long a caller that joins several children waits in Join() for one whose
  // end_fd() is readable: if the supervisor was killed, the child's own end may
  // come a moment later, and the other children wait meanwhile.
  static constexpr absl::Duration kEndPatience = absl::Milliseconds(1);

  // Whether Join() has returned the outcome. The status alone does not tell:
  // the entry point may have returned kDeadlineExceeded itself.
  bool joined() const;

  // The exit status from the kernel; empty before Join() has returned, or if
  // another thread or library has reaped the child.
  const std::optional<ExitStatus>& exit_status() const;

  // The number of bytes of the child's output that this process could not
  // write, with ProcessOptions::tee or keep_stderr_tail: after the child has
  // ended, its output waits for full files and streams for 1 s at most, and for
  // a write that blocks for 2 s. Final once Join() has returned the outcome;
  // its error contains the number too.
  int64_t lost_output_bytes() const;

  // Ends the child: SIGTERM, `grace` to comply, then SIGKILL; reaps it. Blocks
  // for little more than `grace` at most, and 2 s for output that cannot be
  // written. Does nothing if the child has already ended.
  void Stop(absl::Duration grace);

  // Releases all resources of a child that has ended, and reaps it if Join()
  // has not; afterwards this object is as if moved from, and Close() may be
  // called again. Blocks for 2 s at most, for output that cannot be written.
  // Errors: kFailedPrecondition if the child still runs, or in a fork; then
  // nothing has changed.
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
  // Kills the children in `started`; returns `why`.
  static absl::Status GiveUp(const std::vector<Process>& started,
                             absl::Status why);
  // `why`, naming the child that cannot be started.
  static absl::Status CannotStart(const ProcessOptions& options,
                                  const absl::Status& why);
  // A child that waits to be resumed.
  static Process Of(StartedChild child, const ProcessOptions& options,
                    int index);
  absl::Status Resume(absl::Span<const int> fds);

  // The time of the failure, by CLOCK_MONOTONIC: from the child's report or
  // crash record, else the time at which this process noticed it. For a child
  // that has been joined.
  int64_t failed_at_ns() const;

  // For poll(): readable when PollError() has something to read; -1 if it has
  // read it.
  int report_fd() const;
  // Reads the report of a child that still runs, if it has come, for Join().
  // Returns whether it is an error.
  bool PollError();
  bool has_reported_error() const;

  absl::Status CheckOurs() const;
  // The first step of End(), which does not wait.
  void StartToEnd() const;
  // Kills a child that has not been joined, if kill_on_drop is set, and reaps
  // it.
  void End();
  // Waits for the child's end and reaps it.
  absl::Status AwaitEnd(Deadline deadline);
  // The outcome of an ended child, from its report and its exit status.
  absl::Status Verdict(const absl::StatusOr<ExitStatus>& exit);

  std::unique_ptr<State> state_;
  uint64_t fork_count_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_PROCESS_H_
