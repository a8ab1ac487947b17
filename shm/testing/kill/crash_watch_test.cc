// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/crash_watch.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

void Pass(int times) {
  for (int i = 0; i < times; ++i) {
    TENON_CRASH_POINT("crash_watch_test.before");
    TENON_CRASH_POINT("crash_watch_test.after");
  }
}

// Runs Pass(3) in a child with these orders; returns how the child ended.
ExitStatus EndOfChild(PassingCounts& counts, std::vector<CrashOrder> orders) {
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    CrashWatch watch(counts, orders);
    Pass(3);
  });
  EXPECT_THAT(child, IsOk());
  auto end = child->Wait(Deadline::After(absl::Seconds(20)));
  EXPECT_THAT(end, IsOk());
  return end.value_or(ExitStatus{.exit_code = -1});
}

TEST(CrashWatchTest, ListsPoints) {
  EXPECT_THAT(CrashPointNames("crash_watch_test."),
              ElementsAre("crash_watch_test.after", "crash_watch_test.before"));
  EXPECT_THAT(CrashPointNames("nothing."), IsEmpty());
}

TEST(CrashWatchTest, CountsPassings) {
  PassingCounts counts;
  {
    CrashWatch watch(counts);
    Pass(2);
  }
  Pass(1);  // Not watched any more.
  EXPECT_EQ(counts.of("crash_watch_test.before"), 2u);
  EXPECT_THAT(counts.Passed(), ElementsAre(Pair("crash_watch_test.after", 2),
                                           Pair("crash_watch_test.before", 2)));
  EXPECT_EQ(counts.fired_by(), 0);
  counts.Reset();
  EXPECT_THAT(counts.Passed(), IsEmpty());
}

TEST(CrashWatchTest, CountsInAllThreads) {
  PassingCounts counts;
  {
    CrashWatch watch(counts);
    std::thread other([] { Pass(1000); });
    Pass(1000);
    other.join();
  }
  EXPECT_EQ(counts.of("crash_watch_test.after"), 2000u);
}

TEST(CrashWatchTest, KillsAtTheNthPassing) {
  for (uint64_t n : {1, 2, 3}) {
    PassingCounts counts;
    const ExitStatus end =
        EndOfChild(counts, {{.point = "crash_watch_test.after", .passing = n}});
    EXPECT_EQ(end.signal, SIGKILL);
    EXPECT_EQ(counts.of("crash_watch_test.before"), n);
    EXPECT_EQ(counts.of("crash_watch_test.after"), n);
    EXPECT_NE(counts.fired_by(), 0);
  }
}

TEST(CrashWatchTest, LetsPassWhatIsNotReached) {
  PassingCounts counts;
  const ExitStatus end =
      EndOfChild(counts, {{.point = "crash_watch_test.after", .passing = 4}});
  EXPECT_TRUE(end.success()) << end.ToString();
  EXPECT_EQ(counts.of("crash_watch_test.after"), 3u);
  EXPECT_EQ(counts.fired_by(), 0);
}

TEST(CrashWatchTest, StopsUntilItIsContinued) {
  PassingCounts counts;
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    CrashWatch watch(counts, {{.point = "crash_watch_test.after",
                               .passing = 2,
                               .action = CrashAction::kStop}});
    Pass(3);
  });
  ASSERT_THAT(child, IsOk());
  const pid_t pid = child->pid();
  const Deadline deadline = Deadline::After(absl::Seconds(20));
  while (ProcessState(pid) != 'T' && !deadline.has_passed()) usleep(100);
  EXPECT_EQ(counts.fired_by(), pid);
  EXPECT_EQ(counts.of("crash_watch_test.after"), 2u);
  ASSERT_EQ(kill(pid, SIGCONT), 0);
  EXPECT_TRUE(child->EndsWell());
  EXPECT_EQ(counts.of("crash_watch_test.after"), 3u);
}

TEST(CrashWatchTest, CallsBackAndKeepsErrno) {
  PassingCounts counts;
  int calls = 0;
  CrashWatch watch(counts, {{.point = "crash_watch_test.before",
                             .passing = 2,
                             .action = CrashAction::kCall,
                             .call = [&] {
                               ++calls;
                               errno = EIO;
                             }}});
  errno = ENOENT;
  Pass(3);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(calls, 1);
}

TEST(CrashWatchTest, KillsTheForkedProcessThatPasses) {
  PassingCounts counts;
  CrashWatch watch(counts, {{.point = "crash_watch_test.after"}});
  auto child = ForkedChild::Fork({}, [](const Reporter&) { Pass(1); });
  ASSERT_THAT(child, IsOk());
  const pid_t pid = child->pid();
  auto end = child->Wait(Deadline::After(absl::Seconds(20)));
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->signal, SIGKILL);
  EXPECT_EQ(counts.fired_by(), pid);
  EXPECT_EQ(counts.of("crash_watch_test.after"), 1u);
}

TEST(CrashWatchTest, InnerWatchReplacesTheOuter) {
  PassingCounts outer_counts, inner_counts;
  CrashWatch outer(outer_counts);
  {
    CrashWatch inner(inner_counts);
    Pass(1);
  }
  Pass(1);
  EXPECT_EQ(outer_counts.of("crash_watch_test.after"), 1u);
  EXPECT_EQ(inner_counts.of("crash_watch_test.after"), 1u);
}

TEST(CrashWatchDeathTest, AbortsOnAnUnknownPoint) {
  PassingCounts counts;
  EXPECT_DEATH(CrashWatch(counts, {{.point = "crash_watch_test.befroe"}}),
               "no crash point 'crash_watch_test.befroe'");
}

}  // namespace
}  // namespace tenon
