// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/deadline.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr absl::Duration kZero = absl::ZeroDuration();

TEST(DeadlineTest, PassedHasPassed) {
  const Deadline deadline = Deadline::Passed();
  EXPECT_TRUE(deadline.has_passed());
  EXPECT_FALSE(deadline.is_never());
  EXPECT_EQ(deadline.Remaining(), kZero);
}

TEST(DeadlineTest, NeverNeverPasses) {
  const Deadline deadline = Deadline::Never();
  EXPECT_FALSE(deadline.has_passed());
  EXPECT_TRUE(deadline.is_never());
  EXPECT_EQ(deadline.Remaining(), absl::InfiniteDuration());
}

TEST(DeadlineTest, AfterNothingOrLessHasPassed) {
  for (absl::Duration wait :
       {kZero, absl::Nanoseconds(-1), absl::Hours(-1),
        absl::Seconds(std::numeric_limits<int64_t>::min()),
        -absl::InfiniteDuration()}) {
    const Deadline deadline = Deadline::After(wait);
    EXPECT_TRUE(deadline.has_passed()) << wait;
    EXPECT_EQ(deadline.Remaining(), kZero) << wait;
  }
}

TEST(DeadlineTest, VeryLongWaitsAreNever) {
  for (absl::Duration wait :
       {absl::InfiniteDuration(), absl::Hours(24 * 366 * 300),
        absl::Seconds(std::numeric_limits<int64_t>::max()),
        absl::Nanoseconds(std::numeric_limits<int64_t>::max())}) {
    EXPECT_TRUE(Deadline::After(wait).is_never()) << wait;
  }
}

TEST(DeadlineTest, LongWaitsThatFitAreNotNever) {
  // The clock counts 2^63 ns, some 292 years.
  const absl::Duration wait = absl::Hours(24 * 365 * 200);
  const Deadline deadline = Deadline::After(wait);
  EXPECT_FALSE(deadline.is_never());
  EXPECT_THAT(deadline.Remaining(), AllOf(Gt(wait - absl::Hours(1)), Le(wait)));
}

TEST(DeadlineTest, LessThanTheClockCanCountPassesAtOnce) {
  EXPECT_LE(Deadline::After(absl::Nanoseconds(1) / 4).Remaining(), kZero);
}

TEST(DeadlineTest, RemainingShrinksToZero) {
  const Deadline deadline = Deadline::After(absl::Milliseconds(20));
  EXPECT_THAT(deadline.Remaining(), Le(absl::Milliseconds(20)));
  while (!deadline.has_passed()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(deadline.Remaining(), kZero);
}

TEST(DeadlineTest, EarlierIsTheOneThatPassesFirst) {
  const Deadline hour = Deadline::After(absl::Hours(1));
  EXPECT_TRUE(Earlier(Deadline::Passed(), Deadline::Never()).has_passed());
  EXPECT_TRUE(Earlier(Deadline::Never(), Deadline::Passed()).has_passed());
  EXPECT_FALSE(Earlier(hour, Deadline::Never()).is_never());
  EXPECT_TRUE(Earlier(hour, Deadline::Passed()).has_passed());
  EXPECT_TRUE(Earlier(Deadline::Never(), Deadline::Never()).is_never());
}

class PollUntilTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
    reader_.Reset(fds[0]);
    writer_.Reset(fds[1]);
  }

  pollfd PollReader() const {
    return {.fd = reader_.get(), .events = POLLIN, .revents = 0};
  }

  UniqueFd reader_;
  UniqueFd writer_;
};

TEST_F(PollUntilTest, ReportsAnEventWhateverTheDeadline) {
  ASSERT_EQ(write(writer_.get(), "x", 1), 1);
  for (Deadline deadline : {Deadline::Passed(), Deadline::Never(),
                            Deadline::After(absl::Hours(1))}) {
    pollfd poll_fd = PollReader();
    EXPECT_THAT(PollUntil({&poll_fd, 1}, deadline), IsOkAndHolds(1));
    EXPECT_EQ(poll_fd.revents, POLLIN);
  }
}

TEST_F(PollUntilTest, LooksOnceIfTheDeadlineHasPassed) {
  pollfd poll_fd = PollReader();
  EXPECT_THAT(PollUntil({&poll_fd, 1}, Deadline::Passed()), IsOkAndHolds(0));
  EXPECT_EQ(poll_fd.revents, 0);
}

TEST_F(PollUntilTest, WaitsForTheWholeTime) {
  pollfd poll_fd = PollReader();
  const Deadline deadline = Deadline::After(absl::Milliseconds(30));
  EXPECT_THAT(PollUntil({&poll_fd, 1}, deadline), IsOkAndHolds(0));
  EXPECT_TRUE(deadline.has_passed());
}

TEST_F(PollUntilTest, WithoutDescriptorsItSleeps) {
  const Deadline deadline = Deadline::After(absl::Milliseconds(5));
  EXPECT_THAT(PollUntil({}, deadline), IsOkAndHolds(0));
  EXPECT_TRUE(deadline.has_passed());
}

TEST_F(PollUntilTest, CountsAllThatAreReady) {
  ASSERT_EQ(write(writer_.get(), "x", 1), 1);
  pollfd poll_fds[] = {
      PollReader(), {.fd = writer_.get(), .events = POLLOUT}, {.fd = -1}};
  EXPECT_THAT(PollUntil(poll_fds, Deadline::Never()), IsOkAndHolds(2));
}

TEST_F(PollUntilTest, MoreThanTheProcessMayHaveOpenIsAnError) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  std::vector<pollfd> poll_fds(65, PollReader());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto ready = PollUntil(poll_fds, Deadline::Passed());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(ready, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("ppoll(65 descriptors)")));
}

volatile sig_atomic_t signals_seen = 0;
void CountSignal(int) { signals_seen = signals_seen + 1; }

// Interrupts every system call of this thread, many times in a millisecond.
class SignalStorm {
 public:
  SignalStorm() {
    signals_seen = 0;
    struct sigaction action = {};
    action.sa_handler = CountSignal;  // Without SA_RESTART.
    sigaction(SIGALRM, &action, &old_action_);
    SetTimer(200);
  }
  ~SignalStorm() {
    SetTimer(0);
    sigaction(SIGALRM, &old_action_, nullptr);
  }

 private:
  static void SetTimer(int microseconds) {
    const timeval interval = {.tv_sec = 0, .tv_usec = microseconds};
    const itimerval timer = {.it_interval = interval, .it_value = interval};
    EXPECT_EQ(setitimer(ITIMER_REAL, &timer, nullptr), 0);
  }

  struct sigaction old_action_;
};

TEST_F(PollUntilTest, SignalsNeitherEndNorStretchTheWait) {
  pollfd poll_fd = PollReader();
  const absl::Duration promised = absl::Milliseconds(300);
  SignalStorm storm;
  const absl::Time start = absl::Now();
  const Deadline deadline = Deadline::After(promised);
  EXPECT_THAT(PollUntil({&poll_fd, 1}, deadline), IsOkAndHolds(0));
  EXPECT_TRUE(deadline.has_passed());
  // A timeout restarted by each signal would never expire; this is only the
  // watchdog.
  EXPECT_LT(absl::Now() - start, 10 * promised);
  EXPECT_GT(signals_seen, 30) << "the storm was none";
}

TEST_F(PollUntilTest, SignalsDoNotHideAnEvent) {
  ASSERT_EQ(write(writer_.get(), "x", 1), 1);
  SignalStorm storm;
  for (int i = 0; i < 10000; ++i) {
    pollfd poll_fd = PollReader();
    ASSERT_THAT(PollUntil({&poll_fd, 1}, Deadline::Passed()), IsOkAndHolds(1));
  }
}

}  // namespace
}  // namespace tenon
