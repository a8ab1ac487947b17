// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Producer and reader of a ring killed at every machine instruction of putting,
// getting, waking, closing and leaving: the survivor continues, receives each
// record whole, in order and once, and is told of the end. With -c opt this is
// the code as it is shipped.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/single_stepper.h"
#include "tenon/shm/testing/trace/step_report.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
constexpr auto kOutOfRange = absl::StatusCode::kOutOfRange;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr size_t kCapacity = 4;

const Deadline kNow = Deadline::Passed();
Deadline Soon() { return Deadline::After(absl::Seconds(15)); }

// A victim, and a survivor in another process.
class RingStepTest : public testing::TestWithParam<RingPolicy> {
 protected:
  using Victim = std::function<void(Peer&)>;
  // Await("test", "ended") tells it that the victim is dead.
  using Survivor = std::function<void(Peer&)>;

  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  }

  // Returns the number of system calls in the victim's region.
  uint64_t Run(const Victim& victim, const Survivor& survivor) {
    StepScenario scenario;
    scenario.name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    scenario.prepare = [&] { Prepare(survivor); };
    scenario.victim = [&](const Reporter& reporter) {
      victim_->set_reporter(reporter);
      victim(*victim_);
    };
    scenario.check = [&](const StepPosition&) -> absl::Status {
      test_->Step("ended");
      const auto well = survivor_->EndsWell();
      Forget();
      return well ? absl::OkStatus() : absl::InternalError(well.message());
    };
    const auto report = KillAtEveryInstruction(scenario);
    EXPECT_THAT(report, IsOk());
    if (!report.ok()) return ~uint64_t{0};
    std::cout << report->ToString();
    EXPECT_TRUE(report->ok()) << report->ToString();
    EXPECT_GE(report->positions, 30u);
    return report->syscalls;
  }

  // --- The peer of a victim that reads. ---

  // A ring with a reader of its own beside the victim, and `records` in it.
  void Produce(Peer& self, uint64_t records, bool sleeps) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto ring,
        RingProducer::Create({.capacity = kCapacity, .policy = GetParam()}));
    TENON_ASSERT_OK_AND_ASSIGN(const auto own, AddReaderTo(*ring));
    ASSERT_THAT(LetIn(self, "victim", *board_, *ring), IsOk());
    for (uint64_t i = 0; i < records; ++i) {
      ASSERT_THAT(PutRecord(*ring, i, kNow), IsOk());
      ASSERT_THAT(GetRecord(*own, i, kNow), IsOk());
    }
    if (sleeps) {
      ASSERT_THAT(ring->PollFd(), IsOk());
      ASSERT_THAT(ring->Arm(), IsOkAndHolds(true));
    }
    self.Step("ready");
    ASSERT_THAT(self.Await("test", "ended"), IsOk());
    if (sleeps) ring->Disarm();
    EXPECT_LE(ring->acknowledged(), records);
    // More than the capacity: no put waits for the dead reader.
    for (uint64_t i = records; i < records + 2 * kCapacity; ++i) {
      ASSERT_THAT(PutRecord(*ring, i, Soon()), IsOk());
      ASSERT_THAT(GetRecord(*own, i, kNow), IsOk());
    }
    ASSERT_THAT(ring->CheckReaders(), IsOk());
    EXPECT_EQ(ring->acknowledged(), ring->put());
    const std::vector<RingEnd> ended = ring->TakeEnded();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_THAT(ended[0].status, StatusIs(kUnavailable));
    EXPECT_THAT(ring->Close(Soon()), IsOk());
  }

  std::unique_ptr<RingReader> JoinAsVictim(Peer& self) {
    auto reader = Join(self, "survivor", *board_);
    EXPECT_THAT(reader, IsOk());
    EXPECT_THAT(self.Await("survivor", "ready"), IsOk());
    return *std::move(reader);
  }

  // --- The peer of a victim that puts. ---

  // Reads the victim's records, at most `most`.
  void Consume(Peer& self, uint64_t most, bool sleeps) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto reader,
                               Join(self, "victim", *board_));
    ASSERT_THAT(self.Await("victim", "let in"), IsOk());
    if (sleeps) {
      ASSERT_THAT(reader->PollFd(), IsOk());
      ASSERT_THAT(reader->Arm(), IsOkAndHolds(true));
    }
    self.Step("ready");
    ASSERT_THAT(self.Await("test", "ended"), IsOk());
    if (sleeps) reader->Disarm();
    uint64_t next = 0;
    absl::Status got;
    while ((got = GetRecord(*reader, next, Soon())).ok()) ++next;
    // A victim that lives to the end closes its ring.
    EXPECT_THAT(got.code(), AnyOf(kUnavailable, kOutOfRange));
    EXPECT_LE(next, most);
    // The error is sticky.
    EXPECT_THAT(GetRecord(*reader, next, Soon()), StatusIs(got.code()));
  }

  std::unique_ptr<RingProducer> CreateAsVictim(Peer& self) {
    auto ring =
        RingProducer::Create({.capacity = kCapacity, .policy = GetParam()});
    EXPECT_THAT(ring, IsOk());
    EXPECT_THAT(LetIn(self, "survivor", *board_, **ring), IsOk());
    self.Step("let in");
    EXPECT_THAT(self.Await("survivor", "ready"), IsOk());
    return *std::move(ring);
  }

 private:
  void Prepare(const Survivor& survivor) {
    Forget();
    board_.Reset();
    TENON_ASSERT_OK_AND_ASSIGN(std::vector<Peer> peers,
                               MakePeers({"test", "survivor", "victim"},
                                         PeerMode::kProcesses, Soon()));
    TENON_ASSERT_OK_AND_ASSIGN(
        survivor_,
        ForkedChild::Fork({.name = "survivor"}, [&](const Reporter& reporter) {
          Peer self = std::move(peers[1]);
          peers.clear();
          self.set_reporter(reporter);
          survivor(self);
        }));
    test_.emplace(std::move(peers[0]));
    victim_.emplace(std::move(peers[2]));
  }

  void Forget() {
    test_.reset();
    victim_.reset();
    survivor_.reset();
  }

  SharedObject<RingBoard> board_;
  std::optional<Peer> test_, victim_;
  std::optional<ForkedChild> survivor_;
};

TEST_P(RingStepTest, Put) {
  const uint64_t syscalls = Run(
      [this](Peer& self) {
        const auto ring = CreateAsVictim(self);
        const Record record = MakeRecord(0);
        BeginRegion();
        const auto put = ring->TryPut(BytesOf(record));
        EndRegion();
        EXPECT_THAT(put, IsOkAndHolds(true));
      },
      [this](Peer& self) { Consume(self, 1, /*sleeps=*/false); });
  EXPECT_EQ(syscalls, 0u);
}

TEST_P(RingStepTest, PutThatWakes) {
  const uint64_t syscalls = Run(
      [this](Peer& self) {
        const auto ring = CreateAsVictim(self);
        const std::array<Record, 3> records = {MakeRecord(0), MakeRecord(1),
                                               MakeRecord(2)};
        BeginRegion();
        const auto put = ring->TryPut(std::as_bytes(std::span(records)));
        EndRegion();
        EXPECT_THAT(put, IsOkAndHolds(true));
        EXPECT_EQ(ring->stats().wakes, 1u);
      },
      [this](Peer& self) { Consume(self, 3, /*sleeps=*/true); });
  EXPECT_EQ(syscalls, 2u) << "one look at the flags of the bell, one ring";
}

TEST_P(RingStepTest, PutRoundTheRingAndClose) {
  Run(
      [this](Peer& self) {
        auto ring = CreateAsVictim(self);
        for (uint64_t i = 0; i < kCapacity - 1; ++i) {
          ASSERT_THAT(PutRecord(*ring, i, kNow), IsOk());
        }
        const Record record = MakeRecord(kCapacity - 1);
        BeginRegion();
        const auto put = ring->TryPut(BytesOf(record));
        ring.reset();
        EndRegion();
        EXPECT_THAT(put, IsOkAndHolds(true));
      },
      [this](Peer& self) { Consume(self, kCapacity, /*sleeps=*/true); });
}

TEST_P(RingStepTest, Get) {
  const uint64_t syscalls = Run(
      [this](Peer& self) {
        const auto reader = JoinAsVictim(self);
        Record record;
        BeginRegion();
        const auto got = reader->TryGet(BytesOf(record));
        EndRegion();
        EXPECT_THAT(got, IsOkAndHolds(1u));
        EXPECT_EQ(record, MakeRecord(0));
      },
      [this](Peer& self) { Produce(self, 2, /*sleeps=*/false); });
  EXPECT_EQ(syscalls, 0u);
}

// The ring is full, and its producer waits for room.
TEST_P(RingStepTest, PeekAndAdvanceThatWakes) {
  if (GetParam() != RingPolicy::kWait) {
    GTEST_SKIP() << "only a producer that waits is woken";
  }
  const uint64_t syscalls = Run(
      [this](Peer& self) {
        const auto reader = JoinAsVictim(self);
        std::array<Record, 2> records;
        BeginRegion();
        const auto got =
            reader->TryPeek(std::as_writable_bytes(std::span(records)));
        const absl::Status advanced = reader->Advance(2);
        EndRegion();
        EXPECT_THAT(got, IsOkAndHolds(2u));
        EXPECT_THAT(advanced, IsOk());
        EXPECT_EQ(records[1], MakeRecord(1));
        EXPECT_EQ(reader->stats().wakes, 1u);
      },
      [this](Peer& self) { Produce(self, kCapacity, /*sleeps=*/true); });
  EXPECT_EQ(syscalls, 2u);
}

TEST_P(RingStepTest, GetThatSleepsAndLeaves) {
  Run(
      [this](Peer& self) {
        auto reader = JoinAsVictim(self);
        Record record;
        BeginRegion();
        const auto armed = reader->Arm();
        reader->Disarm();
        const auto got = reader->TryGet(BytesOf(record));
        reader.reset();
        EndRegion();
        EXPECT_THAT(armed, IsOkAndHolds(true));
        EXPECT_THAT(got, IsOkAndHolds(0u));
      },
      [this](Peer& self) { Produce(self, 0, /*sleeps=*/false); });
}

INSTANTIATE_TEST_SUITE_P(Policies, RingStepTest,
                         testing::Values(RingPolicy::kWait,
                                         RingPolicy::kDropOldest),
                         [](const auto& policy) {
                           return policy.param == RingPolicy::kWait
                                      ? "Wait"
                                      : "DropOldest";
                         });

}  // namespace
}  // namespace tenon
