// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Readers and producers of a ring whose words jump, move back or change all the
// time. Wrong descriptors, and stopped processes: ring_offer_hostile_test.cc.
// TENON_RING_FLIPS=10000000 in the environment runs the changing words longer.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_hostile_testing.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using A = StdAtomics;
using ::testing::AllOf;
using ::testing::HasSubstr;

using absl::StatusCode::kDataLoss;
constexpr auto kRelaxed = std::memory_order_relaxed;

uint64_t Flips() {
  const char* text = std::getenv("TENON_RING_FLIPS");
  uint64_t flips;
  return text != nullptr && absl::SimpleAtoi(text, &flips) ? flips : 100'000;
}

// --- Readers. ---

TEST(RingHostileTest, AReaderWhoseTailCannotBeIsDropped) {
  for (const uint64_t tail : {uint64_t{3}, uint64_t{100}, ~uint64_t{0},
                              uint64_t{1} << 63, ~uint64_t{0} - kCapacity}) {
    const auto ring = MakeRing();
    TENON_ASSERT_OK_AND_ASSIGN(const auto honest, AddReaderTo(*ring));
    const ForgedReader forged;
    ASSERT_THAT(forged.Join(*ring), IsOkAndHolds(2u));
    ASSERT_THAT(PutRecord(*ring, 0, kNow), IsOk());
    ASSERT_THAT(PutRecord(*ring, 1, kNow), IsOk());
    A::Store(forged.words().tail, tail, kRelaxed);
    EXPECT_EQ(ring->acknowledged(), 0u);
    const std::vector<RingEnd> ended = ring->TakeEnded();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_THAT(ended[0].status,
                StatusIs(kDataLoss, AllOf(HasSubstr("reader 2 (pid"),
                                          HasSubstr("tail is corrupt"))));
    ASSERT_THAT(GetRecord(*honest, 0, kNow), IsOk());
    EXPECT_EQ(ring->acknowledged(), 1u);
  }
}

TEST(RingHostileTest, AReaderWhoseTailGoesBackIsDropped) {
  const auto ring = MakeRing();
  const ForgedReader forged;
  ASSERT_THAT(forged.Join(*ring), IsOk());
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kNow), IsOk());
  }
  A::Store(forged.words().tail, 4, kRelaxed);
  EXPECT_EQ(ring->acknowledged(), 4u);
  A::Store(forged.words().tail, 3, kRelaxed);
  ring->acknowledged();
  EXPECT_EQ(ring->num_readers(), 0u);
  EXPECT_THAT(PutRecord(*ring, 5, kNow), StatusIs(kDataLoss));
}

TEST(RingHostileTest, AReaderThatSeemsAsleepAlwaysIsRungOnce) {
  const auto ring = MakeRing(RingPolicy::kDropOldest);
  const ForgedReader forged;
  ASSERT_THAT(forged.Join(*ring), IsOk());
  A::Store(forged.words().sleeping, 77, kRelaxed);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kNow), IsOk());
  }
  EXPECT_EQ(ring->stats().wakes, 1u);
}

TEST(RingHostileTest, TailsThatFlickerCostTheirReaderOnly) {
  const auto ring = MakeRing();
  TENON_ASSERT_OK_AND_ASSIGN(const auto honest, AddReaderTo(*ring));
  const ForgedReader forged;
  std::atomic<bool> stop{false};
  std::thread flipper([&] {
    std::mt19937_64 random(1);
    while (!stop.load()) {
      const uint64_t r = random();
      A::Store(forged.words().tail, r % 4 == 0 ? r : r >> 40, kRelaxed);
      A::Store(forged.words().sleeping, r, kRelaxed);
      A::Store(forged.words().left, r % 64 == 1, kRelaxed);
    }
  });
  const uint64_t rounds = Flips() / 20;
  uint64_t dropped = 0, number = 0;
  for (uint64_t i = 0; i < rounds; ++i) {
    if (ring->num_readers() < 2) {
      TENON_ASSERT_OK_AND_ASSIGN(number, forged.Join(*ring));
      ++dropped;
    }
    // It never rings: a reader that seems slow costs the deadline.
    const absl::Status put =
        PutRecord(*ring, i, Deadline::After(absl::Milliseconds(1)));
    if (!put.ok()) {
      ASSERT_THAT(put, StatusIs(kDeadlineExceeded));
      ASSERT_THAT(ring->RemoveReader(number), IsOk());
      ASSERT_THAT(PutRecord(*ring, i, Soon()), IsOk());
    }
    ASSERT_THAT(GetRecord(*honest, i, kNow), IsOk());
    ASSERT_LE(ring->acknowledged(), ring->put());
  }
  stop.store(true);
  flipper.join();
  EXPECT_GT(dropped, 10u);
}

// --- Producers. ---

TEST(RingHostileTest, AHeadThatCannotBePoisonsTheRing) {
  for (const RingPolicy policy : {RingPolicy::kWait, RingPolicy::kDropReader}) {
    for (const uint64_t head :
         {kCapacity + 1, uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63}) {
      const ForgedProducer forged(policy);
      const auto reader = forged.Reader();
      ASSERT_THAT(GetRecord(*reader, 0, kNow), StatusIs(kDeadlineExceeded));
      A::Store(forged.words().head, head, kRelaxed);
      for (int i = 0; i < 3; ++i) {
        EXPECT_THAT(GetRecord(*reader, 0, Soon()),
                    StatusIs(kDataLoss, HasSubstr("corrupt head")));
      }
      // Also after the word has become valid again.
      A::Store(forged.words().head, 1, kRelaxed);
      EXPECT_THAT(GetRecord(*reader, 0, Soon()), StatusIs(kDataLoss));
    }
  }
}

TEST(RingHostileTest, AHeadThatGoesBackPoisonsTheRing) {
  for (const RingPolicy policy :
       {RingPolicy::kWait, RingPolicy::kDropOldest, RingPolicy::kDropReader}) {
    const ForgedProducer forged(policy);
    const auto reader = forged.Reader();
    A::Store(forged.words().head, 5, kRelaxed);
    std::vector<std::byte> out(8 * sizeof(Record));
    ASSERT_THAT(reader->Get(out, kNow), IsOkAndHolds(5u));
    A::Store(forged.words().head, 4, kRelaxed);
    EXPECT_THAT(reader->Get(out, Soon()), StatusIs(kDataLoss));
    EXPECT_THAT(reader->Get(out, Soon()), StatusIs(kDataLoss));
  }
}

class FlickeringProducerTest : public testing::TestWithParam<RingPolicy> {};

TEST_P(FlickeringProducerTest, CostsErrorsOnly) {
  const ForgedProducer forged(GetParam());
  std::atomic<uint64_t> base{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> flips_now{false};
  std::thread flipper([&] {
    std::mt19937_64 random(2);
    auto* const slots = reinterpret_cast<SharedWord<uint64_t>*>(
        forged.data() + kRingSlotsOffset);
    RingProducerWords& words = forged.words();
    while (!stop.load(kRelaxed)) {
      const uint64_t r = random();
      const uint64_t near = base.load(kRelaxed) + r % (2 * kCapacity);
      const bool wild = r >> 48 == 0;
      A::Store(words.head, wild ? random() : near, kRelaxed);
      A::Store(words.reserved, wild ? random() : near + r / 7 % 5, kRelaxed);
      A::Store(words.sleeping, r, kRelaxed);
      A::Store(slots[r / 3 % (kCapacity * 8)], r, kRelaxed);
      // Changes words that were validated once.
      words.geometry.capacity = r % 3 == 0 ? kCapacity : r;
      if (r >> 50 == 1) A::Store(words.readers[0].state, r, kRelaxed);
      A::Store(words.readers[0].state, 1 << 2 | RingProducerWords::kReading,
               kRelaxed);
      flips_now.store(true);
    }
  });
  while (!flips_now.load()) std::this_thread::yield();
  std::unique_ptr<RingReader> reader;
  std::vector<std::byte> out(3 * sizeof(Record));
  const uint64_t flips = Flips();
  uint64_t got = 0, errors = 0, attached = 0;
  uint64_t tail = 0;
  for (uint64_t i = 0; i < flips; ++i) {
    if (reader == nullptr) {
      // A concurrent write may cause a rejection.
      auto made = RingReader::Attach([&] {
        RingOffer offer = forged.Offer();
        offer.message.geometry.capacity = kCapacity;
        return offer;
      }());
      if (!made.ok()) {
        ASSERT_THAT(made, StatusIs(kInvalidArgument));
        continue;
      }
      reader = *std::move(made);
      ++attached;
      tail = A::Load(forged.words().readers[0].start, kRelaxed);
    }
    const auto some = reader->TryGet(out);
    if (some.ok()) {
      ASSERT_LE(*some, 3u);
      got += *some;
      tail += *some;
    } else {
      ASSERT_THAT(some, StatusIs(kDataLoss));
      ++errors;
      // All of these are sticky except the loss of records.
      if (GetParam() != RingPolicy::kDropOldest || i % 64 == 0) reader.reset();
      tail = reader == nullptr ? 0 : tail + reader->lost();
    }
    base.store(tail, kRelaxed);
  }
  stop.store(true);
  flipper.join();
  EXPECT_GT(got + errors, 0u);
  EXPECT_GT(attached, 0u);
}

INSTANTIATE_TEST_SUITE_P(Policies, FlickeringProducerTest,
                         testing::Values(RingPolicy::kWait,
                                         RingPolicy::kDropOldest,
                                         RingPolicy::kDropReader),
                         [](const auto& policy) {
                           return std::string(
                               policy.param == RingPolicy::kWait ? "Wait"
                               : policy.param == RingPolicy::kDropOldest
                                   ? "DropOldest"
                                   : "DropReader");
                         });

}  // namespace
}  // namespace tenon
