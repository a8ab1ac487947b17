// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/barrier.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/kill/two_peers.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr auto kAborted = absl::StatusCode::kAborted;
constexpr auto kDeadline = absl::StatusCode::kDeadlineExceeded;
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr size_t kParties = 5;

// Runs `body` in kParties processes, each with the barrier.
void RunParties(const Barrier& barrier,
                const std::function<void(const Barrier&, size_t)>& body) {
  std::vector<ForkedChild> children;
  for (size_t i = 0; i < kParties; ++i) {
    auto child = ForkedChild::Fork(
        {.name = "party"}, [&](const Reporter&) { body(Another(barrier), i); });
    ASSERT_THAT(child, IsOk());
    children.push_back(*std::move(child));
  }
  for (ForkedChild& child : children) EXPECT_TRUE(child.EndsWell());
}

void AwaitWaiting(const Barrier& barrier, size_t count) {
  const Deadline deadline = Watchdog();
  while (barrier.CountWaiting().value() != count) {
    ASSERT_FALSE(deadline.has_passed());
    absl::SleepFor(absl::Milliseconds(1));
  }
}

class BarrierTest : public testing::TestWithParam<PeerMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, BarrierTest, AllPeerModes(), PeerModeName);

class BarrierRoundsTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rounds, BarrierRoundsTest,
                         testing::Values(1, 10, 1000));

TEST_P(BarrierRoundsTest, GoInLockstep) {
  const auto barrier = Barrier::Create(kParties);
  ASSERT_THAT(barrier, IsOk());
  SharedObject<std::array<std::atomic<int>, kParties>> at;
  RunParties(*barrier, [&](const Barrier& mine, size_t self) {
    for (int round = 1; round <= GetParam(); ++round) {
      (*at)[self] = round;
      ASSERT_THAT(mine.Wait(Watchdog()), IsOk());
      for (const auto& other : *at) {
        EXPECT_GE(other.load(), round);
        EXPECT_LE(other.load(), round + 1);
      }
    }
  });
}

TEST(BarrierTest, EachPartyGetsAnotherIndex) {
  const auto barrier = Barrier::Create(kParties);
  ASSERT_THAT(barrier, IsOk());
  SharedObject<std::array<std::atomic<int>, kParties>> times;
  RunParties(*barrier, [&](const Barrier& mine, size_t) {
    for (int round = 0; round < 20; ++round) {
      const auto index = mine.Wait(Watchdog());
      ASSERT_THAT(index, IsOk());
      ASSERT_LT(*index, kParties);
      ++(*times)[*index];
    }
  });
  for (const auto& count : *times) EXPECT_EQ(count.load(), 20);
}

TEST(BarrierTest, TheActionRunsOnceBeforeAnyReturn) {
  const auto barrier = Barrier::Create(kParties);
  ASSERT_THAT(barrier, IsOk());
  SharedObject<int> actions;  // Not atomic: ordered by the barrier.
  RunParties(*barrier, [&](const Barrier& mine, size_t) {
    for (int round = 1; round <= 10; ++round) {
      ASSERT_THAT(mine.Wait(Watchdog(),
                            [&] {
                              *actions = *actions + 1;
                              return absl::OkStatus();
                            }),
                  IsOk());
      EXPECT_EQ(*actions, round);
      ASSERT_THAT(mine.Wait(Watchdog()), IsOk());
    }
  });
}

TEST(BarrierTest, AnActionThatFailsBreaksIt) {
  const auto barrier = Barrier::Create(2);
  ASSERT_THAT(barrier, IsOk());
  std::thread other(
      [&] { EXPECT_THAT(barrier->Wait(Watchdog()), StatusIs(kAborted)); });
  AwaitWaiting(*barrier, 1);
  EXPECT_THAT(
      barrier->Wait(Watchdog(), [] { return absl::DataLossError("none"); }),
      StatusIs(absl::StatusCode::kDataLoss));
  other.join();
  EXPECT_THAT(barrier->IsBroken(), IsOkAndHolds(true));
  // It must not use the barrier.
  ASSERT_THAT(barrier->Reset(Deadline::Never()), IsOk());
  const auto single = Barrier::Create(1);
  ASSERT_THAT(single, IsOk());
  EXPECT_THAT(single->Wait(Watchdog(),
                           [&] { return single->Abort(Deadline::Never()); }),
              StatusIs(kPrecondition));
}

// The forked child of an action returns from it, too: the round stays the
// parent's.
TEST(BarrierTest, AnActionThatForksLeavesTheRoundToTheParent) {
  const auto barrier = Barrier::Create(2);
  ASSERT_THAT(barrier, IsOk());
  auto other = ForkedChild::Fork({}, [&](const Reporter&) {
    EXPECT_THAT(Another(*barrier).Wait(Watchdog()),
                StatusIs(kAborted, HasSubstr("its action failed")));
  });
  ASSERT_THAT(other, IsOk());
  AwaitWaiting(*barrier, 1);
  pid_t child = -1;
  int end = -1;
  const auto index = barrier->Wait(Watchdog(), [&]() -> absl::Status {
    child = fork();
    if (child == 0) return absl::OkStatus();
    waitpid(child, &end, 0);
    return absl::CancelledError("by the parent");
  });
  if (child == 0) {
    _exit(absl::IsFailedPrecondition(index.status()) ? 0 : 1);
  }
  EXPECT_EQ(end, 0);
  EXPECT_THAT(index, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(other->EndsWell());
}

// The exception ends in the call whose action threw it, and the barrier can be
// reset: in a seat or without, and whatever is thrown.
TEST(BarrierTest, AnActionThatThrowsBreaksIt) {
  const auto barrier = Barrier::Create(2);
  ASSERT_THAT(barrier, IsOk());
  const auto seat = barrier->Join(Watchdog());
  ASSERT_THAT(seat, IsOk());
  const auto check = [&](bool seated, const Barrier::Action& action,
                         const char* text) {
    std::thread other([&] {
      EXPECT_THAT(barrier->Wait(Watchdog()),
                  StatusIs(kAborted, HasSubstr("its action failed")));
    });
    AwaitWaiting(*barrier, 1);
    EXPECT_NO_THROW({
      EXPECT_THAT(seated ? seat->Wait(Watchdog(), action)
                         : barrier->Wait(Watchdog(), action),
                  StatusIs(absl::StatusCode::kUnknown, HasSubstr(text)));
    });
    other.join();
    EXPECT_THAT(barrier->IsBroken(), IsOkAndHolds(true));
    EXPECT_THAT(barrier->Wait(Deadline::Passed()),
                StatusIs(kAborted, HasSubstr("its action failed")));
    ASSERT_THAT(barrier->Reset(Watchdog()), IsOk());
    std::thread again([&] { EXPECT_THAT(barrier->Wait(Watchdog()), IsOk()); });
    EXPECT_THAT(seat->Wait(Watchdog()), IsOk());
    again.join();
  };
  for (const bool seated : {false, true}) {
    check(
        seated,
        []() -> absl::Status { throw std::runtime_error("out of paper"); },
        "the action threw: out of paper");
    check(
        seated, []() -> absl::Status { throw 7; },
        "the action threw an object that is not a std::exception");
  }
}

// pthread_exit() unwinds the stack, too. It leaves the barrier unlocked and
// without a slot of that thread: the next round is complete.
TEST(BarrierDeathTest, AnActionThatEndsItsThreadBreaksIt) {
  const auto barrier = Barrier::Create(2);
  ASSERT_THAT(barrier, IsOk());
  std::thread other([&] {
    EXPECT_THAT(barrier->Wait(Deadline::Never()),
                StatusIs(kAborted, HasSubstr("its action failed")));
    EXPECT_THAT(barrier->Reset(Watchdog()), IsOk());
    EXPECT_THAT(barrier->Wait(Watchdog()), IsOk());
  });
  AwaitWaiting(*barrier, 1);
  std::thread([&] {
    barrier->Wait(Watchdog(), []() -> absl::Status { pthread_exit(nullptr); })
        .status()
        .IgnoreError();
  }).join();
  AwaitWaiting(*barrier, 1);
  EXPECT_THAT(barrier->Wait(Watchdog()), IsOk());
  other.join();
}

TEST_P(BarrierTest, AbortBreaksIt) {
  const auto barrier = Barrier::Create(2);
  ASSERT_THAT(barrier, IsOk());
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Barrier mine = Another(*barrier);
    if (self.name() == "a") {
      EXPECT_THAT(mine.Wait(Watchdog()), StatusIs(kAborted));
    } else {
      AwaitWaiting(mine, 1);
      EXPECT_THAT(mine.Abort(Deadline::Never()), IsOk());
    }
    EXPECT_THAT(mine.Wait(Watchdog()), StatusIs(kAborted));
    EXPECT_THAT(mine.IsBroken(), IsOkAndHolds(true));
    EXPECT_THAT(mine.CountWaiting(), IsOkAndHolds(0u));
  }));
}

TEST_P(BarrierTest, ResetFreesItAndItIsUsedAgain) {
  const auto barrier = Barrier::Create(2);
  ASSERT_THAT(barrier, IsOk());
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Barrier mine = Another(*barrier);
    for (int i = 0; i < 20; ++i) {
      if (self.name() == "a") {
        EXPECT_THAT(mine.Wait(Watchdog()), StatusIs(kAborted));
      } else {
        AwaitWaiting(mine, 1);
        EXPECT_THAT(mine.Reset(Deadline::Never()), IsOk());
        EXPECT_THAT(mine.IsBroken(), IsOkAndHolds(false));
      }
      EXPECT_THAT(mine.Wait(Watchdog()), IsOk());
    }
  }));
}

// The reset comes while the refused participants are still leaving.
TEST(BarrierTest, AbortAndReset) {
  const auto barrier = Barrier::Create(kParties);
  const auto second = Barrier::Create(kParties);
  ASSERT_THAT(barrier, IsOk());
  ASSERT_THAT(second, IsOk());
  RunParties(*barrier, [&](const Barrier& mine, size_t self) {
    const Barrier meeting = Another(*second);
    for (int i = 0; i < 20; ++i) {
      if (self == 0) {
        AwaitWaiting(mine, kParties - 1);
        EXPECT_THAT(mine.Abort(Deadline::Never()), IsOk());
        EXPECT_THAT(mine.Reset(Deadline::Never()), IsOk());
      } else {
        EXPECT_THAT(mine.Wait(Watchdog()), StatusIs(kAborted));
      }
      ASSERT_THAT(meeting.Wait(Watchdog()), IsOk());
      ASSERT_THAT(mine.Wait(Watchdog()), IsOk());
    }
  });
}

TEST_P(BarrierTest, ALateOneBreaksIt) {
  const auto barrier = Barrier::Create(3);
  ASSERT_THAT(barrier, IsOk());
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Barrier mine = Another(*barrier);
    if (self.name() == "a") {
      EXPECT_THAT(mine.Wait(Watchdog()), StatusIs(kAborted));
    } else {
      AwaitWaiting(mine, 1);
      const absl::Time begin = absl::Now();
      EXPECT_THAT(mine.Wait(Shortly()), StatusIs(kDeadline));
      EXPECT_GE(absl::Now() - begin, absl::Milliseconds(25));
    }
  }));
  EXPECT_THAT(barrier->Wait(Deadline::Passed()), StatusIs(kAborted));
}

TEST(BarrierTest, OneAlonePassesTwice) {
  const auto barrier = Barrier::Create(1);
  ASSERT_THAT(barrier, IsOk());
  EXPECT_EQ(barrier->parties(), 1u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(barrier->Wait(Deadline::Passed()), IsOkAndHolds(0u));
  }
  EXPECT_THAT(Barrier::Create(0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Barrier::Create(Barrier::kMaxParties + 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(BarrierTest, IsInertInAForkedChild) {
  const auto barrier = Barrier::Create(1);
  ASSERT_THAT(barrier, IsOk());
  auto seat = barrier->Join(Deadline::Never());
  ASSERT_THAT(seat, IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(barrier->Wait(Deadline::Passed()), StatusIs(kPrecondition));
    EXPECT_THAT(barrier->Join(Deadline::Passed()), StatusIs(kPrecondition));
    EXPECT_THAT(barrier->Abort(Deadline::Passed()), StatusIs(kPrecondition));
    EXPECT_THAT(barrier->Reset(Deadline::Passed()), StatusIs(kPrecondition));
    EXPECT_THAT(barrier->IsBroken(), StatusIs(kPrecondition));
    EXPECT_THAT(barrier->CountWaiting(), StatusIs(kPrecondition));
    EXPECT_THAT(seat->Wait(Deadline::Passed()), StatusIs(kPrecondition));
    const Barrier::Seat dropped = *std::move(seat);
  }));
  EXPECT_THAT(seat->Wait(Deadline::Passed()), IsOkAndHolds(0u));
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  EXPECT_THAT(Barrier::Adopt(UniqueFd(fcntl(event->fd(), F_DUPFD_CLOEXEC, 0))),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// --- Participants that die. ---

TEST(BarrierDeathTest, OneThatWaitsBreaksIt) {
  const auto barrier = Barrier::Create(3);
  ASSERT_THAT(barrier, IsOk());
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    Another(*barrier).Wait(Deadline::Never()).status().IgnoreError();
  });
  ASSERT_THAT(child, IsOk());
  AwaitWaiting(*barrier, 1);
  std::thread other([&] {
    EXPECT_THAT(barrier->Wait(Deadline::Never()), StatusIs(kAborted));
  });
  AwaitWaiting(*barrier, 2);
  // Stopped is not dead.
  ASSERT_THAT(child->pid_fd().SendSignal(SIGSTOP), IsOk());
  absl::SleepFor(absl::Milliseconds(150));
  EXPECT_THAT(barrier->IsBroken(), IsOkAndHolds(false));
  child->Kill();
  other.join();
  EXPECT_THAT(barrier->Wait(Deadline::Never()), StatusIs(kAborted));
  EXPECT_THAT(barrier->Reset(Deadline::Never()), IsOk());
  EXPECT_THAT(barrier->IsBroken(), IsOkAndHolds(false));
}

TEST(BarrierDeathTest, OneThatHasJoinedBreaksItAlsoElsewhere) {
  const auto barrier = Barrier::Create(2);
  const auto joined = Event::Create();
  ASSERT_THAT(barrier, IsOk());
  ASSERT_THAT(joined, IsOk());
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    const Barrier mine = Another(*barrier);
    const auto seat = mine.Join(Watchdog());
    EXPECT_THAT(seat->Wait(Watchdog()), IsOk());
    EXPECT_THAT(Another(*joined).Set(), IsOk());
    for (;;) pause();
  });
  ASSERT_THAT(child, IsOk());
  EXPECT_THAT(barrier->Wait(Watchdog()), IsOk());
  ASSERT_THAT(joined->Wait(Watchdog()), IsOk());
  std::thread other([&] {
    EXPECT_THAT(barrier->Wait(Deadline::Never()), StatusIs(kAborted));
  });
  AwaitWaiting(*barrier, 1);
  child->Kill();
  other.join();
}

TEST(BarrierDeathTest, OneThatLeavesInPeaceBreaksNothing) {
  const auto barrier = Barrier::Create(2);
  ASSERT_THAT(barrier, IsOk());
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    const Barrier mine = Another(*barrier);
    const auto seat = mine.Join(Watchdog());
    EXPECT_THAT(seat->Wait(Watchdog()), IsOk());
  });
  ASSERT_THAT(child, IsOk());
  EXPECT_THAT(barrier->Wait(Watchdog()), IsOk());
  EXPECT_TRUE(child->EndsWell());
  EXPECT_THAT(barrier->IsBroken(), IsOkAndHolds(false));
}

// Its death is not noticed: the deadline ends the wait.
TEST(BarrierDeathTest, AnAbsentParticipantCostsTheDeadline) {
  const auto barrier = Barrier::Create(2);
  ASSERT_THAT(barrier, IsOk());
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    const Barrier mine = Another(*barrier);
    raise(SIGKILL);
  });
  ASSERT_THAT(child, IsOk());
  EXPECT_THAT(child->Wait(Watchdog()), IsOk());
  EXPECT_THAT(barrier->Wait(Deadline::After(absl::Milliseconds(150))),
              StatusIs(kDeadline));
}

}  // namespace
}  // namespace tenon
