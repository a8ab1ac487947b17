// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/forked_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline Watchdog() { return Deadline::After(absl::Seconds(20)); }

TEST(ForkedChildTest, EndsWell) {
  const Census before = TakeCensus();
  {
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild child,
                               ForkedChild::Fork({}, [](const Reporter&) {}));
    EXPECT_GT(child.pid(), 0);
    EXPECT_TRUE(child.EndsWell());
    EXPECT_TRUE(child.EndsWell());  // Again: the same.
    EXPECT_TRUE(child.reaped());
  }
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
}

TEST(ForkedChildTest, ReportsWhatItSaysAndWhatItExpected) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild child,
      ForkedChild::Fork({.name = "liar"}, [](const Reporter& reporter) {
        reporter.Fail("said so");
        EXPECT_EQ(1 + 1, 3) << "in the child";
      }));
  const testing::AssertionResult well = child.EndsWell();
  EXPECT_FALSE(well);
  EXPECT_THAT(well.message(), AllOf(HasSubstr("liar"), HasSubstr("said so"),
                                    HasSubstr("forked_child_test.cc"),
                                    HasSubstr("in the child")));
  EXPECT_THAT(child.report().failures,
              ElementsAre("said so", HasSubstr("1 + 1")));
}

TEST(ForkedChildTest, TellsHowItEnded) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild exits,
      ForkedChild::Fork({}, [](const Reporter&) { _exit(3); }));
  EXPECT_THAT(exits.EndsWell().message(), HasSubstr("exited with code 3"));
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild dies,
      ForkedChild::Fork({}, [](const Reporter&) { raise(SIGTERM); }));
  EXPECT_THAT(dies.EndsWell().message(), HasSubstr("SIGTERM"));
}

// The child must not continue with the tests of its parent.
TEST(ForkedChildTest, ExceptionsEndIt) {
  TENON_ASSERT_OK_AND_ASSIGN(ForkedChild child,
                             ForkedChild::Fork({}, [](const Reporter&) {
                               throw std::runtime_error("nobody catches it");
                             }));
  EXPECT_THAT(child.EndsWell().message(), HasSubstr("SIGABRT"));
}

TEST(ForkedChildTest, WaitsNoLongerThanTheDeadline) {
  TENON_ASSERT_OK_AND_ASSIGN(ForkedChild child,
                             ForkedChild::Fork({}, [](const Reporter&) {
                               for (;;) pause();
                             }));
  EXPECT_THAT(child.Wait(Deadline::After(absl::Milliseconds(10))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  child.Kill();
  TENON_ASSERT_OK_AND_ASSIGN(const ExitStatus end,
                             child.Wait(Deadline::Passed()));
  EXPECT_EQ(end.signal, SIGKILL);
}

TEST(ForkedChildTest, WatchdogEndsWhatBlocksAllSignals) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild child, ForkedChild::Fork({.watchdog = absl::Milliseconds(50)},
                                           [](const Reporter&) {
                                             sigset_t all;
                                             sigfillset(&all);
                                             sigprocmask(SIG_BLOCK, &all,
                                                         nullptr);
                                             for (;;) pause();
                                           }));
  TENON_ASSERT_OK_AND_ASSIGN(const ExitStatus end, child.Wait(Watchdog()));
  EXPECT_THAT(child.Describe(end), HasSubstr("watchdog after 50ms"));
}

TEST(ForkedChildTest, WatchdogEndsWhatIsStopped) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild child,
      ForkedChild::Fork({.watchdog = absl::Milliseconds(50)},
                        [](const Reporter&) { raise(SIGSTOP); }));
  TENON_ASSERT_OK_AND_ASSIGN(const ExitStatus end, child.Wait(Watchdog()));
  EXPECT_EQ(end.signal, SIGKILL);
}

TEST(ForkedChildTest, IsGoneWhenDestroyedOrAssignedTo) {
  const Census before = TakeCensus();
  const auto sleep = [](const Reporter&) { pause(); };
  {
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild a, ForkedChild::Fork({}, sleep));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild b, ForkedChild::Fork({}, sleep));
    const pid_t kept = b.pid();
    a = std::move(b);
    EXPECT_EQ(a.pid(), kept);
    EXPECT_EQ(TakeCensus().Count("child process"), 1u);
  }
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
}

// A test that is killed must not leave its children behind.
TEST(ForkedChildTest, DiesWithItsParent) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // To reap the grandchild.
  SharedObject<std::atomic<pid_t>> grandchild;
  {
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild child, ForkedChild::Fork({}, [&](const Reporter&) {
          auto inner = ForkedChild::Fork({}, [&](const Reporter&) {
            *grandchild = getpid();
            pause();
          });
          while (*grandchild == 0) usleep(100);
          kill(getpid(), SIGKILL);
        }));
    EXPECT_THAT(child.Wait(Watchdog()), IsOk());
  }
  ASSERT_GT(grandchild->load(), 0);
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd orphan, PidFd::Open(*grandchild));
  TENON_ASSERT_OK_AND_ASSIGN(const ExitStatus end, orphan.Reap(Watchdog()));
  EXPECT_EQ(end.signal, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace tenon
