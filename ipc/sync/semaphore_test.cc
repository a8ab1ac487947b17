// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/semaphore.h"

#include <fcntl.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/deadline.h"
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

class SemaphoreTest : public testing::TestWithParam<PeerMode> {};

INSTANTIATE_TEST_SUITE_P(Modes, SemaphoreTest, AllPeerModes(), PeerModeName);

TEST(SemaphoreTest, CountsDownAndUp) {
  const auto semaphore = Semaphore::Create(2);
  ASSERT_THAT(semaphore, IsOk());
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(2u));
  EXPECT_THAT(semaphore->Acquire(Deadline::Never()), IsOk());
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(1u));
  EXPECT_THAT(semaphore->Acquire(Deadline::Passed()), IsOk());
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(0u));
  EXPECT_THAT(semaphore->Acquire(Deadline::Passed()),
              StatusIs(kDeadlineExceeded));
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(0u));
  EXPECT_THAT(semaphore->Release(), IsOk());
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(1u));
  EXPECT_THAT(semaphore->Release(3), IsOk());
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(4u));
}

TEST(SemaphoreTest, WaitsUntilItsDeadline) {
  const auto semaphore = Semaphore::Create(0);
  ASSERT_THAT(semaphore, IsOk());
  const absl::Time begin = absl::Now();
  EXPECT_THAT(semaphore->Acquire(Shortly()), StatusIs(kDeadlineExceeded));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(25));
  EXPECT_THAT(semaphore->Release(), IsOk());
  EXPECT_THAT(semaphore->Acquire(Shortly()), IsOk());
}

TEST(SemaphoreTest, HasAMost) {
  EXPECT_THAT(Semaphore::Create(Semaphore::kMaxValue + 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const auto semaphore = Semaphore::Create(Semaphore::kMaxValue - 1);
  ASSERT_THAT(semaphore, IsOk());
  EXPECT_THAT(semaphore->Release(2), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(semaphore->Release(UINT32_MAX),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(Semaphore::kMaxValue - 1));
  EXPECT_THAT(semaphore->Release(0), IsOk());
  EXPECT_THAT(semaphore->Release(1), IsOk());
  EXPECT_THAT(semaphore->Release(1), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(BoundedSemaphoreTest, RefusesMoreThanAtTheBeginning) {
  const auto semaphore = BoundedSemaphore::Create(2);
  ASSERT_THAT(semaphore, IsOk());
  EXPECT_THAT(semaphore->Release(), StatusIs(kFailedPrecondition));
  EXPECT_THAT(semaphore->Acquire(Deadline::Passed()), IsOk());
  EXPECT_THAT(semaphore->Acquire(Deadline::Passed()), IsOk());
  EXPECT_THAT(semaphore->Acquire(Deadline::Passed()),
              StatusIs(kDeadlineExceeded));
  EXPECT_THAT(semaphore->Release(3), StatusIs(kFailedPrecondition));
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(0u));
  const BoundedSemaphore other = Another(*semaphore);
  EXPECT_THAT(other.Release(2), IsOk());
  EXPECT_THAT(other.Release(), StatusIs(kFailedPrecondition));
  EXPECT_THAT(other.GetValue(), IsOkAndHolds(2u));
}

TEST(BoundedSemaphoreTest, IsNotTakenForTheOther) {
  const auto bounded = BoundedSemaphore::Create(2);
  const auto plain = Semaphore::Create(2);
  ASSERT_THAT(bounded, IsOk());
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(
      Semaphore::Adopt(UniqueFd(fcntl(bounded->fd(), F_DUPFD_CLOEXEC, 0))),
      StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      BoundedSemaphore::Adopt(UniqueFd(fcntl(plain->fd(), F_DUPFD_CLOEXEC, 0))),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

// Not atomic: the holder of the only unit is alone.
TEST_P(SemaphoreTest, OfOneExcludesTheOther) {
  constexpr int kRounds = 3000;
  const auto semaphore = Semaphore::Create(1);
  ASSERT_THAT(semaphore, IsOk());
  SharedObject<int> count;
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Semaphore mine = Another(*semaphore);
    EXPECT_THAT(self.Meet("ready"), IsOk());
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_THAT(mine.Acquire(Watchdog()), IsOk());
      *count = *count + 1;
      ASSERT_THAT(mine.Release(), IsOk());
    }
  }));
  EXPECT_EQ(*count, 2 * kRounds);
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(1u));
}

// One process acquires a unit, the other releases it.
TEST_P(SemaphoreTest, GoesToAndFro) {
  const auto there = Semaphore::Create(0), back = Semaphore::Create(0);
  ASSERT_THAT(there, IsOk());
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const bool first = self.name() == "a";
    const Semaphore out = Another(first ? *there : *back);
    const Semaphore in = Another(first ? *back : *there);
    for (int i = 0; i < 500; ++i) {
      if (first) {
        ASSERT_THAT(out.Release(), IsOk());
      }
      ASSERT_THAT(in.Acquire(Watchdog()), IsOk());
      if (!first) {
        ASSERT_THAT(out.Release(), IsOk());
      }
    }
  }));
}

TEST(SemaphoreTest, AsManyGoOnAsAreReleased) {
  constexpr uint32_t kWaiters = 6;
  const auto semaphore = Semaphore::Create(0);
  ASSERT_THAT(semaphore, IsOk());
  SharedObject<std::atomic<uint32_t>> through;
  std::vector<ForkedChild> children;
  for (uint32_t i = 0; i < kWaiters; ++i) {
    auto child = ForkedChild::Fork({}, [&](const Reporter&) {
      EXPECT_THAT(Another(*semaphore).Acquire(Watchdog()), IsOk());
      ++*through;
    });
    ASSERT_THAT(child, IsOk());
    children.push_back(*std::move(child));
  }
  for (const uint32_t count : {2u, 4u}) {
    const uint32_t before = through->load();
    EXPECT_THAT(semaphore->Release(count), IsOk());
    const Deadline deadline = Watchdog();
    while (through->load() < before + count && !deadline.has_passed()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    absl::SleepFor(absl::Milliseconds(20));  // No other process gets through.
    EXPECT_EQ(through->load(), before + count);
  }
  for (ForkedChild& child : children) EXPECT_TRUE(child.EndsWell());
}

// It has been woken, and is stopped: another process gets the unit.
TEST(SemaphoreTest, AStoppedWaiterKeepsNoUnitBack) {
  const auto semaphore = Semaphore::Create(0);
  ASSERT_THAT(semaphore, IsOk());
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    EXPECT_THAT(Another(*semaphore).Acquire(Watchdog()), IsOk());
  });
  ASSERT_THAT(child, IsOk());
  absl::SleepFor(absl::Milliseconds(30));
  ASSERT_THAT(child->pid_fd().SendSignal(SIGSTOP), IsOk());
  EXPECT_THAT(semaphore->Release(), IsOk());
  EXPECT_THAT(semaphore->Acquire(Watchdog()), IsOk());
  EXPECT_THAT(semaphore->Release(), IsOk());
  ASSERT_THAT(child->pid_fd().SendSignal(SIGCONT), IsOk());
  EXPECT_TRUE(child->EndsWell());
}

TEST(SemaphoreTest, IsInertInAForkedChild) {
  const auto semaphore = Semaphore::Create(1);
  ASSERT_THAT(semaphore, IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(semaphore->Acquire(Deadline::Passed()),
                StatusIs(kFailedPrecondition));
    EXPECT_THAT(semaphore->Release(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(semaphore->GetValue(), StatusIs(kFailedPrecondition));
  }));
  EXPECT_THAT(semaphore->GetValue(), IsOkAndHolds(1u));
}

// Wrong numbers, and no other harm.
TEST(SemaphoreTest, CorruptBytesAreSurvived) {
  const auto semaphore = Semaphore::Create(1);
  ASSERT_THAT(semaphore, IsOk());
  const auto segment =
      Segment::Adopt(UniqueFd(fcntl(semaphore->fd(), F_DUPFD_CLOEXEC, 0)),
                     SegmentKind::kSharedWritable);
  ASSERT_THAT(segment, IsOk());
  const auto bytes = segment->MapWritable();
  ASSERT_THAT(bytes, IsOk());
  for (const int byte : {0xff, 0x00, 0x55, 0xaa, 0x7f, 0x80, 0x01}) {
    std::memset(bytes->data(), byte, bytes->size_bytes());
    const Deadline soon = Deadline::After(absl::Milliseconds(2));
    semaphore->Acquire(soon).IgnoreError();
    semaphore->Release(7).IgnoreError();
    semaphore->Release(UINT32_MAX).IgnoreError();
    EXPECT_THAT(semaphore->GetValue(), IsOk());
  }
}

}  // namespace
}  // namespace tenon
