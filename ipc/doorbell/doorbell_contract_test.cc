// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The contract of doorbell.h, line by line; doorbell_test.cc has its uses.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/doorbell_testing.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using testing::HasSubstr;

bool Never() { return false; }
bool Always() { return true; }

class DoorbellContractTest : public DoorbellTesting {
 protected:
  void RingByHand() {
    const uint64_t one = 1;
    ASSERT_EQ(write(bell_->bell_fd(), &one, sizeof(one)), 8);
  }
};

// ---- Descriptors ----

TEST_F(DoorbellContractTest, DescriptorsAreCloseOnExec) {
  EXPECT_EQ(fcntl(bell_->bell_fd(), F_GETFD), FD_CLOEXEC);
  EXPECT_NE(fcntl(bell_->bell_fd(), F_GETFL) & O_NONBLOCK, 0);
  TENON_ASSERT_OK_AND_ASSIGN(const int poll_fd, bell_->PollFd());
  EXPECT_EQ(fcntl(poll_fd, F_GETFD), FD_CLOEXEC);
  const int inheritable = dup(bell_->bell_fd());
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto ringer,
      DoorbellRinger::Adopt(&words_->sleeping, UniqueFd(inheritable)));
  EXPECT_EQ(fcntl(inheritable, F_GETFD), FD_CLOEXEC);
}

TEST_F(DoorbellContractTest, ItsDescriptorsEndWithIt) {
  const size_t before = CountOpenFds();
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto bell,
                               Doorbell::Create(&words_->sleeping, "second"));
    EXPECT_THAT(bell->PollFd(), IsOk());
    EXPECT_EQ(CountOpenFds(), before + 2);
  }
  EXPECT_EQ(CountOpenFds(), before);
}

TEST_F(DoorbellContractTest, WithoutDescriptorsThereIsNoBell) {
  const auto third = [this] {
    const FewFds none;
    return Doorbell::Create(&words_->sleeping, "the third");
  }();
  EXPECT_THAT(third, StatusIs(absl::StatusCode::kResourceExhausted,
                              HasSubstr("the third")));
}

TEST_F(DoorbellContractTest, WithoutDescriptorsOnlyPollFdFails) {
  absl::StatusOr<int> fd;
  absl::StatusOr<bool> armed;
  WaitOutcome outcome;
  {
    const FewFds none;
    fd = bell_->PollFd();
    armed = bell_->Arm(Never);
    ringer_.Ring();
    bell_->Disarm();
    Publish(ringer_);
    outcome = Wait(Soon());
  }
  EXPECT_THAT(fd, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(armed, IsOkAndHolds(true));
  EXPECT_EQ(outcome.kind, WaitOutcome::kReady);
  EXPECT_THAT(bell_->PollFd(), IsOk());
}

TEST_F(DoorbellContractTest, PollFdStaysTheSame) {
  TENON_ASSERT_OK_AND_ASSIGN(const int fd, bell_->PollFd());
  EXPECT_THAT(bell_->PollFd(), IsOkAndHolds(fd));
}

TEST_F(DoorbellContractTest, OnlyAnEventfdIsRung) {
  std::vector<UniqueFd> others;
  others.emplace_back(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
  sigset_t none;
  sigemptyset(&none);
  others.emplace_back(signalfd(-1, &none, SFD_NONBLOCK));
  others.emplace_back(epoll_create1(0));
  ASSERT_EQ(fcntl(others.back().get(), F_SETFL, O_NONBLOCK), 0);
  others.emplace_back(open("/dev/null", O_RDWR | O_NONBLOCK));
  for (UniqueFd& other : others) {
    ASSERT_TRUE(other.valid());
    EXPECT_THAT(DoorbellRinger::Adopt(&words_->sleeping, std::move(other)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_F(DoorbellContractTest, AdoptingDoesNotRing) {
  MakeRinger();
  EXPECT_EQ(ReadBell(), 0u);
  const uint64_t most = ~uint64_t{0} - 1;
  ASSERT_EQ(write(bell_->bell_fd(), &most, sizeof(most)), 8);
  MakeRinger();  // Does not block either.
  EXPECT_EQ(ReadBell(), most);
}

// ---- Waiting and what it counts ----

TEST_F(DoorbellContractTest, ReadyComesBeforeADeadlineThatHasPassed) {
  Publish(ringer_);
  EXPECT_EQ(Wait(Deadline::Passed()).kind, WaitOutcome::kReady);
  EXPECT_EQ(bell_->counts().sleeps, 0u);
}

TEST_F(DoorbellContractTest, ARingWithoutNewsIsAnEmptyWake) {
  RingByHand();
  const auto has_woken = [&] { return bell_->counts().empty_wakes > 0; };
  EXPECT_THAT(bell_->Wait(has_woken, Soon()), IsOk());
  EXPECT_EQ(bell_->counts().empty_wakes, 1u);
  EXPECT_EQ(bell_->counts().sleeps, 1u);
  EXPECT_EQ(bell_->counts().pauses, 0u);
  EXPECT_EQ(ReadBell(), 0u);
  EXPECT_FALSE(IsAsleep());
}

TEST_F(DoorbellContractTest, PausesAfterTheFreeEmptyWakesInARow) {
  constexpr uint64_t kFree = Doorbell::kFreeEmptyWakes;
  uint64_t want = 0;
  const auto rings_until = [&] {
    RingByHand();
    return bell_->counts().empty_wakes >= want;
  };
  for (uint64_t wait = 1; wait <= 3; ++wait) {
    want += kFree;  // The wake that is ready begins a new row.
    EXPECT_THAT(bell_->Wait(rings_until, Soon()), IsOk());
    EXPECT_EQ(bell_->counts().pauses, 0u);
  }
  want += kFree + 3;
  EXPECT_THAT(bell_->Wait(rings_until, Soon()), IsOk());
  EXPECT_EQ(bell_->counts().pauses, 3u);
}

TEST_F(DoorbellContractTest, ADeathEndsAPause) {
  const UniqueFd fd(eventfd(0, EFD_NONBLOCK));
  EXPECT_THAT(bell_->AddParticipant(9, fd.get()), IsOk());
  const auto storm = [&] {
    RingByHand();
    if (bell_->counts().pauses == 2) eventfd_write(fd.get(), 1);
    return false;
  };
  TENON_ASSERT_OK_AND_ASSIGN(const WaitOutcome outcome,
                             bell_->Wait(storm, Soon()));
  EXPECT_EQ(outcome.kind, WaitOutcome::kDied);
}

// Each of several ringers publishes one value after another, and waits for the
// sleeper to take it: a wake-up that is lost ends both.
TEST_F(DoorbellContractTest, NoWakeUpOfSeveralRingersIsLost) {
  constexpr size_t kRingers = 3;
  constexpr uint64_t kItems = 60;
  struct Lane {
    SharedWord<uint64_t> put{0};
    SharedWord<uint64_t> taken{0};
  };
  struct Lanes {
    Lane all[kRingers];
  };
  SharedObject<Lanes> lanes;
  std::vector<ForkedChild> ringers;
  for (Lane& lane : lanes->all) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto child, ForkedChild::Fork({}, [&](const Reporter&) {
          DoorbellRinger own = MakeRinger();
          for (uint64_t item = 1; item <= kItems; ++item) {
            A::Store(lane.put, item, std::memory_order_seq_cst);
            own.Ring();
            while (A::Load(lane.taken, std::memory_order_acquire) != item) {
              sched_yield();
            }
          }
        }));
    ringers.push_back(std::move(child));
  }
  const auto next = [&]() -> Lane* {
    for (Lane& lane : lanes->all) {
      if (A::Load(lane.put, std::memory_order_seq_cst) !=
          A::Load(lane.taken, std::memory_order_relaxed)) {
        return &lane;
      }
    }
    return nullptr;
  };
  for (uint64_t i = 0; i < kRingers * kItems; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const WaitOutcome outcome,
        bell_->Wait([&] { return next() != nullptr; }, Soon()));
    ASSERT_EQ(outcome.kind, WaitOutcome::kReady);
    A::FetchAdd(next()->taken, 1, std::memory_order_release);
  }
  for (ForkedChild& ringer : ringers) EXPECT_TRUE(ringer.EndsWell());
}

// ---- Event loops ----

TEST_F(DoorbellContractTest, ArmsOnlyIfNothingIsReady) {
  TENON_ASSERT_OK_AND_ASSIGN(const int fd, bell_->PollFd());
  EXPECT_THAT(bell_->Arm(Always), IsOkAndHolds(false));
  EXPECT_FALSE(IsAsleep());
  ringer_.Ring();
  EXPECT_FALSE(IsReadable(fd));
  EXPECT_THAT(bell_->Arm(Never), IsOkAndHolds(true));
  EXPECT_TRUE(IsAsleep());
  EXPECT_FALSE(IsReadable(fd));
  ringer_.Ring();
  EXPECT_TRUE(IsReadable(fd));
  bell_->Disarm();
  EXPECT_FALSE(IsReadable(fd));
  EXPECT_FALSE(IsAsleep());
}

// A loop that woke for something else arms again without Disarm().
TEST_F(DoorbellContractTest, ArmingAgainAsksForRingsAgain) {
  TENON_ASSERT_OK_AND_ASSIGN(const int fd, bell_->PollFd());
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_THAT(bell_->Arm(Never), IsOkAndHolds(true));
    ringer_.Ring();
    EXPECT_EQ(ringer_.rings(), i);
    EXPECT_TRUE(IsReadable(fd));
  }
  bell_->Disarm();
  bell_->Disarm();
  EXPECT_FALSE(IsReadable(fd));
}

TEST_F(DoorbellContractTest, ARingInFlightWakesALoopOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(const int fd, bell_->PollFd());
  EXPECT_THAT(bell_->Arm(Never), IsOkAndHolds(true));
  bell_->Disarm();
  RingByHand();  // By a ringer that had seen the sleep.
  EXPECT_TRUE(IsReadable(fd));
  EXPECT_THAT(bell_->Arm(Never), IsOkAndHolds(true));
  bell_->Disarm();
  EXPECT_FALSE(IsReadable(fd));
}

// ---- Deaths and forks ----

TEST_F(DoorbellContractTest, ARingerThatDiesBeforeItRingsLosesNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto dies, ForkedChild::Fork({}, [this](const Reporter&) {
        while (!IsAsleep()) sched_yield();
        A::Store(words_->news, 1, std::memory_order_seq_cst);
      }));
  EXPECT_THAT(bell_->AddParticipant(1, dies.pid_fd().fd()), IsOk());
  EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kReady);
}

TEST_F(DoorbellContractTest, RingingADeadSleeperIsHarmless) {
  EXPECT_THAT(bell_->Arm(Never), IsOkAndHolds(true));
  bell_.reset();
  ASSERT_TRUE(IsAsleep());
  for (int i = 0; i < 10; ++i) ringer_.Ring();
  EXPECT_EQ(ringer_.rings(), 1u);
}

TEST_F(DoorbellContractTest, TheWordOfAKilledSleeperServesAnother) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto killed, ForkedChild::Fork({}, [this](const Reporter&) {
        const auto own = Doorbell::Create(&words_->sleeping, "killed");
        (void)(*own)->Wait(Never, Deadline::Never());
      }));
  ASSERT_TRUE(Becomes([&] { return IsAsleep(); }));
  killed.Kill();
  ASSERT_TRUE(IsAsleep());
  TENON_ASSERT_OK_AND_ASSIGN(bell_,
                             Doorbell::Create(&words_->sleeping, "second"));
  EXPECT_THAT(bell_->Arm(Never), IsOkAndHolds(true));
  ringer_ = MakeRinger();
  ringer_.Ring();
  EXPECT_EQ(ReadBell(), 1u);
  bell_->Disarm();
  EXPECT_FALSE(IsAsleep());
}

TEST_F(DoorbellContractTest, NothingOfItWorksInAForkedChild) {
  const UniqueFd fd(eventfd(1, EFD_NONBLOCK));
  TENON_ASSERT_OK_AND_ASSIGN(const int poll_fd, bell_->PollFd());
  EXPECT_THAT(bell_->AddParticipant(1, fd.get()), IsOk());
  EXPECT_THAT(bell_->Arm(Never), IsOkAndHolds(true));
  RingByHand();
  const auto inert = StatusIs(absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(bell_->AddParticipant(2, fd.get()), inert);
    EXPECT_THAT(bell_->PollFd(), inert);
    EXPECT_THAT(bell_->Arm(Never), inert);
    EXPECT_THAT(bell_->FindDead(), inert);
    EXPECT_THAT(bell_->Wait(Always, Deadline::Passed()), inert);
    bell_->Disarm();
    bell_->RemoveParticipant(1);
    bell_.reset();
  }));
  EXPECT_TRUE(IsAsleep());
  EXPECT_EQ(ReadBell(), 1u);
  EXPECT_TRUE(IsReadable(poll_fd));  // The participant.
  EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kDied);
}

}  // namespace
}  // namespace tenon
