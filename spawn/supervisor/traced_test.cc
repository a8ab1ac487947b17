// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A tracer (a debugger, strace, a leak checker) delays the reaping of its
// tracees: the kernel shows the parent that its child has ended, but does not
// let the parent reap it before the tracer has waited for it.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

// A process that traces others and never waits for them.
class Tracer {
 public:
  // Whether this system allows it.
  bool Seize(pid_t victim) {
    int fds[2];
    if (pipe(fds) != 0) return false;
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char ok = ptrace(PTRACE_SEIZE, victim, nullptr, nullptr) == 0;
      if (write(fds[1], &ok, 1) != 1) _exit(1);
      for (;;) pause();
    }
    close(fds[1]);
    char seized = 0;
    if (read(fds[0], &seized, 1) != 1) seized = 0;
    close(fds[0]);
    return seized != 0;
  }

  void Detach() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  ~Tracer() { Detach(); }

 private:
  pid_t pid_ = -1;
};

absl::Status Stay(Child&) {
  for (;;) pause();
}
TENON_SPAWN_ENTRY("stay", Stay);

absl::Status TooLate(Child&) { return absl::DeadlineExceededError("too late"); }
TENON_SPAWN_ENTRY("too-late", TooLate);

class TracedTest : public ChildTest {
 protected:
  Tracer tracer_;
};

TEST_F(TracedTest, ProcessIsJoinedOnceItsTracerLetsGo) {
  TENON_ASSERT_OK_AND_ASSIGN(Process process,
                             Process::Start({.entry = "stay"}));
  if (!tracer_.Seize(process.pid())) GTEST_SKIP() << "no tracing of siblings";
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd child, PidFd::Open(process.pid()));
  EXPECT_THAT(process.Kill(), IsOk());
  EXPECT_THAT(child.WaitForEnd(Watchdog()), IsOk());
  for (const absl::Duration patience :
       {absl::ZeroDuration(), absl::Milliseconds(30)}) {
    EXPECT_THAT(process.Join(Deadline::After(patience)),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_FALSE(process.joined());
  }
  tracer_.Detach();
  EXPECT_THAT(process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGKILL")));
  EXPECT_TRUE(process.joined());
  EXPECT_EQ(process.exit_status()->signal, SIGKILL);
}

// The entry point's error looks like a deadline of Join().
TEST_F(TracedTest, EntryThatReturnsDeadlineExceeded) {
  TENON_ASSERT_OK_AND_ASSIGN(Process process,
                             Process::Start({.entry = "too-late"}));
  EXPECT_THAT(
      process.Join(Watchdog()),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("too late")));
  EXPECT_TRUE(process.joined());
  TENON_ASSERT_OK_AND_ASSIGN(Processes two,
                             Processes::Start(2, {.entry = "too-late"}));
  EXPECT_THAT(
      two.Join(Watchdog()),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("too late")));
}

TEST_F(TracedTest, ProcessesAreJoinedWithinTheDeadlineAllTheSame) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes two,
                             Processes::Start(2, {.entry = "stay"}));
  if (!tracer_.Seize(two.pids()[0])) GTEST_SKIP() << "no tracing of siblings";
  EXPECT_THAT(two.Kill(SIGKILL), IsOk());
  // The other child's end is noticed, and is the failure; the first is waited
  // for.
  std::optional<absl::Status> how;
  std::thread joiner([&] { how = two.Join(Watchdog(), absl::ZeroDuration()); });
  absl::SleepFor(absl::Milliseconds(50));
  tracer_.Detach();
  joiner.join();
  EXPECT_THAT(*how,
              StatusIs(absl::StatusCode::kAborted, HasSubstr("worker 1")));
}

TEST_F(TracedTest, JoinOfProcessesReturnsAtItsDeadline) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes one,
                             Processes::Start(1, {.entry = "stay"}));
  if (!tracer_.Seize(one.pids()[0])) GTEST_SKIP() << "no tracing of siblings";
  EXPECT_THAT(one.Kill(SIGKILL), IsOk());
  EXPECT_THAT(one.Join(absl::Milliseconds(30)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  tracer_.Detach();
  EXPECT_THAT(one.Join(Watchdog()), StatusIs(absl::StatusCode::kAborted));
}

int PidOf(int) { return getpid(); }
TENON_POOL_FUNCTION(PidOf);

// A worker that cannot be reaped yet does not delay the others, and leaves
// nothing behind.
TEST_F(TracedTest, PoolReapsItsWorkersOnceTheirTracerLetsGo) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  const pid_t victim = pool.worker_pids()[0];
  if (!tracer_.Seize(victim)) GTEST_SKIP() << "no tracing of siblings";
  kill(victim, SIGKILL);
  for (int i = 0; i < 10; ++i) {
    futures::Future<int> pid = pool.Submit(PidOf, i);
    EXPECT_THAT(pid.Wait(absl::Seconds(60)), IsOk());
  }
  tracer_.Detach();
  EXPECT_THAT(pool.Shutdown(), IsOk());
}

}  // namespace
}  // namespace tenon::spawn
