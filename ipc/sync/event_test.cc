// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/event.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

#include <cstring>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/semaphore.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/read_file.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/kill/two_peers.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using absl::StatusCode::kDeadlineExceeded;
using absl::StatusCode::kFailedPrecondition;

class EventTest : public testing::TestWithParam<PeerMode> {};

INSTANTIATE_TEST_SUITE_P(Modes, EventTest, AllPeerModes(), PeerModeName);

TEST(EventTest, IsSetAndCleared) {
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  EXPECT_THAT(event->IsSet(), IsOkAndHolds(false));
  EXPECT_THAT(event->Wait(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  const absl::Time begin = absl::Now();
  EXPECT_THAT(event->Wait(Shortly()), StatusIs(kDeadlineExceeded));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(25));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(event->Set(), IsOk());
    EXPECT_THAT(event->IsSet(), IsOkAndHolds(true));
    EXPECT_THAT(event->Wait(Deadline::Passed()), IsOk());
    EXPECT_THAT(event->Wait(Deadline::Never()), IsOk());
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(event->Clear(), IsOk());
    EXPECT_THAT(event->IsSet(), IsOkAndHolds(false));
    EXPECT_THAT(event->Wait(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  }
}

TEST_P(EventTest, IsSetByTheOther) {
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  SharedObject<int> before;  // Not atomic: ordered by the event.
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Event mine = Another(*event);
    if (self.name() == "a") {
      *before = 7;
      EXPECT_THAT(mine.Set(), IsOk());
      return;
    }
    EXPECT_THAT(mine.Wait(Watchdog()), IsOk());
    EXPECT_EQ(*before, 7);
  }));
}

TEST_P(EventTest, GoesToAndFro) {
  const auto there = Event::Create(), back = Event::Create();
  ASSERT_THAT(there, IsOk());
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const bool first = self.name() == "a";
    const Event mine = Another(first ? *there : *back);
    const Event others = Another(first ? *back : *there);
    for (int i = 0; i < 500; ++i) {
      if (first) {
        ASSERT_THAT(mine.Set(), IsOk());
      }
      ASSERT_THAT(others.Wait(Watchdog()), IsOk());
      ASSERT_THAT(others.Clear(), IsOk());
      if (!first) {
        ASSERT_THAT(mine.Set(), IsOk());
      }
    }
  }));
}

// Including waiters that find it cleared again when they wake.
TEST(EventTest, SetWakesAllWaiters) {
  constexpr int kWaiters = 8;
  const auto event = Event::Create();
  const auto waiting = Semaphore::Create(0);
  ASSERT_THAT(event, IsOk());
  ASSERT_THAT(waiting, IsOk());
  std::vector<std::thread> threads;
  for (int i = 0; i < kWaiters; ++i) {
    threads.emplace_back([&] {
      EXPECT_THAT(waiting->Release(), IsOk());
      EXPECT_THAT(event->Wait(Watchdog()), IsOk());
    });
  }
  for (int i = 0; i < kWaiters; ++i) {
    ASSERT_THAT(waiting->Acquire(Watchdog()), IsOk());
  }
  absl::SleepFor(absl::Milliseconds(50));  // Until most are asleep.
  EXPECT_THAT(event->Set(), IsOk());
  EXPECT_THAT(event->Clear(), IsOk());
  absl::SleepFor(absl::Milliseconds(10));  // For late waiters.
  EXPECT_THAT(event->Set(), IsOk());
  for (std::thread& thread : threads) thread.join();
}

// A signal is no wake-up, and does not prolong the wait.
TEST(EventTest, SignalsDoNotEndTheWait) {
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval often = {{0, 2000}, {0, 2000}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  const absl::Time begin = absl::Now();
  EXPECT_THAT(event->Wait(Deadline::After(absl::Milliseconds(150))),
              StatusIs(kDeadlineExceeded));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(145));
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

TEST(EventTest, IsInertInAForkedChild) {
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(event->Set(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(event->Clear(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(event->IsSet(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(event->Wait(Deadline::Passed()), StatusIs(kFailedPrecondition));
    EXPECT_THAT(Another(*event).Set(), IsOk());
  }));
  EXPECT_THAT(event->IsSet(), IsOkAndHolds(true));
}

TEST(EventTest, ASemaphoreIsNoEvent) {
  const auto semaphore = Semaphore::Create(1);
  ASSERT_THAT(semaphore, IsOk());
  EXPECT_THAT(
      Event::Adopt(UniqueFd(fcntl(semaphore->fd(), F_DUPFD_CLOEXEC, 0))),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

// Wrong answers, and no other harm.
TEST(EventTest, CorruptBytesAreSurvived) {
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  const auto segment =
      Segment::Adopt(UniqueFd(fcntl(event->fd(), F_DUPFD_CLOEXEC, 0)),
                     SegmentKind::kSharedWritable);
  ASSERT_THAT(segment, IsOk());
  const auto bytes = segment->MapWritable();
  ASSERT_THAT(bytes, IsOk());
  for (const int byte : {0xff, 0x00, 0x55, 0xaa, 0x7f, 0x80, 0x01}) {
    std::memset(bytes->data(), byte, bytes->size_bytes());
    event->Wait(Deadline::After(absl::Milliseconds(2))).IgnoreError();
    EXPECT_THAT(event->Set(), IsOk());
    EXPECT_THAT(event->IsSet(), IsOkAndHolds(true));
    EXPECT_THAT(event->Clear(), IsOk());
    EXPECT_THAT(event->Wait(Deadline::After(absl::Milliseconds(2))),
                StatusIs(kDeadlineExceeded));
  }
}

// Waits until the child has noted "waits" and then sleeps in a system call.
bool FallsAsleep(ForkedChild& child) {
  const Deadline watchdog = Watchdog();
  while (!watchdog.has_passed()) {
    const auto stat =
        ReadFile(absl::StrCat("/proc/", child.pid(), "/stat")).value_or("");
    // The name, in parentheses, may contain anything.
    const size_t name_end = stat.rfind(')');
    if (child.report().notes.contains("waits") &&
        absl::ClippedSubstr(stat, name_end + 2, 1) == "S") {
      return true;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

// A waiter that was stopped asleep, and a killed one, block no other.
TEST(EventTest, StoppedAndDeadWaitersBlockNoOther) {
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  const auto wait = [&](const Reporter& reporter) {
    const Event event_here = Another(*event);
    reporter.Note("waits");
    EXPECT_THAT(event_here.Wait(Watchdog()), IsOk());
  };
  auto stopped = ForkedChild::Fork({.name = "stopped"}, wait);
  auto dead = ForkedChild::Fork({.name = "dead"}, wait);
  auto good = ForkedChild::Fork({.name = "good"}, wait);
  ASSERT_THAT(stopped, IsOk());
  ASSERT_THAT(dead, IsOk());
  ASSERT_THAT(good, IsOk());
  for (ForkedChild* child : {&*stopped, &*dead, &*good}) {
    ASSERT_TRUE(FallsAsleep(*child)) << child->name();
  }
  ASSERT_THAT(stopped->pid_fd().SendSignal(SIGSTOP), IsOk());
  dead->Kill();
  EXPECT_THAT(event->Set(), IsOk());
  EXPECT_TRUE(good->EndsWell());
  EXPECT_THAT(event->Clear(), IsOk());
  ASSERT_THAT(stopped->pid_fd().SendSignal(SIGCONT), IsOk());
  EXPECT_TRUE(stopped->EndsWell());
}

}  // namespace
}  // namespace tenon
