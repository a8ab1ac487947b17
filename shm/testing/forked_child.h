// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ForkedChild: a process forked by a test, which reports failures and cannot
// outlive the test.
//
//   TENON_ASSERT_OK_AND_ASSIGN(
//       ForkedChild child, ForkedChild::Fork({.name = "reader"},
//                                            [&](const Reporter& reporter) {
//     EXPECT_THAT(Segment::Open(name, kind), IsOk());  // Reported as well.
//   }));
//   EXPECT_TRUE(child.EndsWell());

#ifndef TENON_SHM_TESTING_FORKED_CHILD_H_
#define TENON_SHM_TESTING_FORKED_CHILD_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/reporter.h"

namespace tenon {

struct ChildOptions {
  // For messages.
  std::string name = "child";
  // After this time the child is killed, stopped or not, whatever its signal
  // handling: by a timer in the child itself.
  absl::Duration watchdog = absl::Seconds(20);
  // Whether the child requests tracing by its parent before `body`.
  bool traced = false;
  // Whether the forking process may have threads (one_thread.h): only where a
  // test is about that.
  bool may_have_threads = false;
};

// Ownership: kills and reaps the child when destroyed or assigned to.
// Threads: thread-compatible. The child dies with the thread that forked it.
// Processes: of the process that forked it only.
// Failure: see each call; none leaves resources behind.
class ForkedChild {
 public:
  // Forks, and runs `body` in the child, where failed expectations are reported
  // instead of printed. The child ends with exit code 0 when `body` returns; it
  // runs no destructors of its parent's objects and no atexit() handlers.
  // Errors: kResourceExhausted at a limit of processes or descriptors;
  // kFailedPrecondition if this process has other threads.
  static absl::StatusOr<ForkedChild> Fork(
      const ChildOptions& options,
      const std::function<void(const Reporter&)>& body);

  ~ForkedChild();
  ForkedChild(ForkedChild&& other) noexcept;
  ForkedChild& operator=(ForkedChild&& other) noexcept;

  const std::string& name() const { return options_.name; }
  pid_t pid() const { return pid_; }  // -1 once reaped.
  const PidFd& pid_fd() const { return pid_fd_; }
  bool reaped() const { return pid_ < 0; }
  // The child's reports until now.
  const Report& report() { return pipe_.Drain(); }

  // Waits until the child has ended, and reaps it. Blocks until `deadline`. May
  // be called again. Errors: kDeadlineExceeded; PidFd::Reap()'s.
  absl::StatusOr<ExitStatus> Wait(Deadline deadline);

  // The end in words: "was killed by its watchdog after 20s" in that case.
  std::string Describe(const ExitStatus& end) const;

  // Waits for the end; fails unless it is exit(0) without reported failures.
  testing::AssertionResult EndsWell();

  // Kills it, if it has not ended, and reaps it.
  void Kill();
  // Call when a tracer has reaped it.
  void SetReaped(const ExitStatus& end);

 private:
  ForkedChild(const ChildOptions& options, ReportPipe pipe, PidFd pid_fd,
              pid_t pid);

  ChildOptions options_;
  ReportPipe pipe_;
  PidFd pid_fd_;
  pid_t pid_;
  Deadline watchdog_ = Deadline::Never();  // A little before the child's own.
  ExitStatus end_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_FORKED_CHILD_H_
