// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/doorbell/doorbell.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/doorbell_testing.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using A = StdAtomics;
using DoorbellTest = DoorbellTesting;

TEST_F(DoorbellTest, AnAvailableItemTakesNoSystemCall) {
  Publish(ringer_);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kReady);
  }
  EXPECT_EQ(bell_->counts().sleeps, 0u);
  EXPECT_EQ(ringer_.rings(), 0u);
  EXPECT_EQ(ReadBell(), 0u);
}

TEST_F(DoorbellTest, ADeadlineEndsTheWait) {
  EXPECT_EQ(Wait(In(2)).kind, WaitOutcome::kDeadline);
  EXPECT_EQ(Wait(Deadline::Passed()).kind, WaitOutcome::kDeadline);
  EXPECT_EQ(A::Load(words_->sleeping, std::memory_order_relaxed) % 2, 0u);
}

TEST_F(DoorbellTest, RingsOncePerSleepAndRinger) {
  DoorbellRinger second = MakeRinger();
  for (uint64_t sleep = 1; sleep <= 3; ++sleep) {
    EXPECT_THAT(bell_->Arm([] { return false; }), IsOkAndHolds(true));
    for (int i = 0; i < 10; ++i) {
      ringer_.Ring();
      second.Ring();
    }
    EXPECT_EQ(ringer_.rings(), sleep);
    EXPECT_EQ(second.rings(), sleep);
    EXPECT_EQ(ReadBell(), 2u);
    bell_->Disarm();
    ringer_.Ring();
    EXPECT_EQ(ringer_.rings(), sleep);
  }
}

TEST_F(DoorbellTest, IsWokenFromAnotherThread) {
  for (int i = 0; i < 50; ++i) {
    A::Store(words_->news, 0, std::memory_order_seq_cst);
    std::thread other([&] {
      absl::SleepFor(absl::Microseconds(50 * (i % 10)));
      Publish(ringer_);
    });
    EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kReady);
    other.join();
  }
  EXPECT_LE(ringer_.rings(), bell_->counts().sleeps + 50);
}

TEST_F(DoorbellTest, ADeathEndsTheWaitAndStays) {
  TENON_ASSERT_OK_AND_ASSIGN(auto lives,
                             ForkedChild::Fork({}, [](const Reporter&) {
                               for (;;) pause();
                             }));
  TENON_ASSERT_OK_AND_ASSIGN(auto dies,
                             ForkedChild::Fork({}, [](const Reporter&) {
                               absl::SleepFor(absl::Milliseconds(3));
                             }));
  ASSERT_THAT(bell_->AddParticipant(7, lives.pid_fd().fd()), IsOk());
  ASSERT_THAT(bell_->AddParticipant(8, dies.pid_fd().fd()), IsOk());
  for (int i = 0; i < 3; ++i) {
    const WaitOutcome outcome = Wait(Soon());
    EXPECT_EQ(outcome.kind, WaitOutcome::kDied);
    EXPECT_EQ(outcome.participant, 8u);
  }
  bell_->RemoveParticipant(8);
  EXPECT_EQ(Wait(In(2)).kind, WaitOutcome::kDeadline);
}

TEST_F(DoorbellTest, WhatADeadOnePublishedComesFirst) {
  TENON_ASSERT_OK_AND_ASSIGN(auto dies,
                             ForkedChild::Fork({}, [this](const Reporter&) {
                               DoorbellRinger own = MakeRinger();
                               Publish(own);
                             }));
  ASSERT_THAT(bell_->AddParticipant(1, dies.pid_fd().fd()), IsOk());
  ASSERT_THAT(dies.pid_fd().WaitForEnd(Soon()), IsOk());
  EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kReady);
  A::Store(words_->news, 0, std::memory_order_seq_cst);
  EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kDied);
  TENON_ASSERT_OK_AND_ASSIGN(const uint64_t* dead, bell_->FindDead());
  ASSERT_NE(dead, nullptr);
  EXPECT_EQ(*dead, 1u);
}

TEST_F(DoorbellTest, OneThatIsStoppedIsNotDead) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto stopped,
      ForkedChild::Fork({}, [](const Reporter&) { raise(SIGSTOP); }));
  ASSERT_THAT(bell_->AddParticipant(1, stopped.pid_fd().fd()), IsOk());
  EXPECT_EQ(Wait(In(20)).kind, WaitOutcome::kDeadline);
  EXPECT_THAT(bell_->FindDead(), IsOkAndHolds(nullptr));
  while (kill(stopped.pid(), SIGCONT) == 0 &&
         Wait(In(5)).kind == WaitOutcome::kDeadline) {
  }
  EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kDied);
}

TEST_F(DoorbellTest, SignalsNeitherEndNorProlongAWait) {
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  itimerval often = {{0, 1000}, {0, 1000}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  const absl::Time start = absl::Now();
  EXPECT_EQ(Wait(In(50)).kind, WaitOutcome::kDeadline);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(49));
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(10));
    Publish(ringer_);
  });
  EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kReady);
  other.join();
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

TEST_F(DoorbellTest, JoinsAnEpollLoop) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto dies, ForkedChild::Fork({}, [this](const Reporter&) {
        DoorbellRinger own = MakeRinger();
        for (int i = 0; i < 20; ++i) {
          absl::SleepFor(absl::Microseconds(200));
          A::FetchAdd(words_->news, 1, std::memory_order_seq_cst);
          own.Ring();
        }
      }));
  ASSERT_THAT(bell_->AddParticipant(1, dies.pid_fd().fd()), IsOk());
  const UniqueFd loop(epoll_create1(EPOLL_CLOEXEC));
  TENON_ASSERT_OK_AND_ASSIGN(const int fd, bell_->PollFd());
  epoll_event event = {};
  event.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(loop.get(), EPOLL_CTL_ADD, fd, &event), 0);
  uint64_t seen = 0;
  bool died = false;
  const auto news = [&] {
    return A::Load(words_->news, std::memory_order_seq_cst) != seen;
  };
  while (!died) {
    TENON_ASSERT_OK_AND_ASSIGN(const bool armed, bell_->Arm(news));
    if (armed) {
      ASSERT_EQ(epoll_wait(loop.get(), &event, 1, 30'000), 1);
      bell_->Disarm();
    }
    if (news()) {
      seen = A::Load(words_->news, std::memory_order_seq_cst);
      continue;
    }
    TENON_ASSERT_OK_AND_ASSIGN(const uint64_t* dead, bell_->FindDead());
    died = dead != nullptr && !news();
  }
  EXPECT_EQ(seen, 20u);
}

// A process rings as fast as it can, whether a thread sleeps or not.
TEST_F(DoorbellTest, AStormOfRingsCostsABoundedNumberOfWakes) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto storm, ForkedChild::Fork({}, [this](const Reporter&) {
        const uint64_t one = 1;
        for (;;) {
          if (write(bell_->bell_fd(), &one, sizeof(one)) < 0) usleep(100);
        }
      }));
  EXPECT_EQ(Wait(In(300)).kind, WaitOutcome::kDeadline);
  const DoorbellCounts counts = bell_->counts();
  // In 300 ms: the free ones, pauses of 1 + 2 + 4 + 8 ms, and 16 ms each.
  EXPECT_LE(counts.empty_wakes, Doorbell::kFreeEmptyWakes + 4 + 300 / 16 + 2);
  EXPECT_GE(counts.pauses, 1u);
  // Publications still arrive.
  std::thread honest([&] {
    absl::SleepFor(absl::Milliseconds(20));
    Publish(ringer_);
  });
  EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kReady);
  honest.join();
}

TEST_F(DoorbellTest, AFullCounterBlocksNoRinger) {
  const uint64_t most = ~uint64_t{0} - 1;
  ASSERT_EQ(write(bell_->bell_fd(), &most, sizeof(most)), 8);
  EXPECT_THAT(bell_->Arm([] { return false; }), IsOkAndHolds(true));
  ringer_.Ring();
  EXPECT_EQ(ringer_.rings(), 1u);
  bell_->Disarm();
  EXPECT_EQ(ReadBell(), 0u);
}

// O_NONBLOCK is shared by all duplicates.
TEST_F(DoorbellTest, APeerThatMakesItBlockingBlocksNoOther) {
  const UniqueFd peers = CopyOfBell();
  ASSERT_EQ(fcntl(peers.get(), F_SETFL, 0), 0);
  EXPECT_THAT(bell_->Arm([] { return false; }), IsOkAndHolds(true));
  ringer_.Ring();
  EXPECT_EQ(ringer_.rings(), 0u);  // It does not ring such a bell.
  bell_->Disarm();                 // And removes rings.
  EXPECT_EQ(Wait(In(2)).kind, WaitOutcome::kDeadline);
}

TEST_F(DoorbellTest, RejectsOtherDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd in(ends[0]);
  EXPECT_THAT(DoorbellRinger::Adopt(&words_->sleeping, UniqueFd(ends[1])),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DoorbellRinger::Adopt(&words_->sleeping, UniqueFd()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  UniqueFd blocking = CopyOfBell();
  ASSERT_EQ(fcntl(blocking.get(), F_SETFL, 0), 0);
  EXPECT_THAT(DoorbellRinger::Adopt(&words_->sleeping, std::move(blocking)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(DoorbellTest, IsInertInAForkedChild) {
  EXPECT_THAT(bell_->Arm([] { return false; }), IsOkAndHolds(true));
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(bell_->Wait([] { return true; }, Soon()),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    ringer_.Ring();
  }));
  EXPECT_EQ(ReadBell(), 0u);
}

}  // namespace
}  // namespace tenon
