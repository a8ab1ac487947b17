// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The two halves by themselves. That no wake-up is lost between them, and that
// each order is needed, is shown under the seeded scheduler by the tests of
// rings and queues.

#include "tenon/ipc/doorbell/sleep_protocol.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {
namespace {

using testing::ElementsAre;

constexpr auto kRelaxed = std::memory_order_relaxed;

class SleepProtocolTest : public testing::Test {
 protected:
  uint64_t word() const { return StdAtomics::Load(word_, kRelaxed); }
  static bool Never() { return false; }
  static bool Always() { return true; }

  SharedWord<uint64_t> word_{0};
  Sleeper<> sleeper_{&word_};
  Ringer<> ringer_;
};

TEST_F(SleepProtocolTest, TheWordIsOddWhileTheSleeperSleeps) {
  EXPECT_FALSE(sleeper_.asleep());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(sleeper_.FallAsleep(Never));
    EXPECT_TRUE(sleeper_.asleep());
    EXPECT_EQ(word() % 2, 1u);
    sleeper_.Awake();
    EXPECT_FALSE(sleeper_.asleep());
    EXPECT_EQ(word() % 2, 0u);
  }
}

TEST_F(SleepProtocolTest, EachSleepHasANumberOfItsOwn) {
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(sleeper_.FallAsleep(Never));
    ASSERT_GT(word(), last);
    last = word();
    if (i % 3 != 0) sleeper_.Awake();  // A second sleep without waking, too.
  }
}

TEST_F(SleepProtocolTest, AReadySleeperIsAwake) {
  EXPECT_FALSE(sleeper_.FallAsleep(Always));
  EXPECT_FALSE(sleeper_.asleep());
  EXPECT_EQ(word() % 2, 0u);
}

TEST_F(SleepProtocolTest, AnnouncesThenFencesThenChecks) {
  std::vector<std::string> steps;
  const auto note = [&](const std::string& step) {
    steps.push_back(step + (word() % 2 == 1 ? ", announced" : ""));
  };
  EXPECT_TRUE(sleeper_.FallAsleep([&] { note("fence"); },
                                  [&] {
                                    note("check");
                                    return false;
                                  }));
  EXPECT_THAT(steps, ElementsAre("fence, announced", "check, announced"));
}

TEST_F(SleepProtocolTest, AwakeWithoutASleepChangesNothing) {
  sleeper_.Awake();
  EXPECT_EQ(word(), 0u);
  EXPECT_TRUE(sleeper_.FallAsleep(Never));
  sleeper_.Awake();
  const uint64_t awake = word();
  sleeper_.Awake();
  EXPECT_EQ(word(), awake);
}

TEST_F(SleepProtocolTest, ARingerRingsOnceForEachSleep) {
  EXPECT_FALSE(ringer_.MustRing(word_));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(sleeper_.FallAsleep(Never));
    EXPECT_TRUE(ringer_.MustRing(word_));
    EXPECT_FALSE(ringer_.MustRing(word_));
    sleeper_.Awake();
    EXPECT_FALSE(ringer_.MustRing(word_));
  }
}

TEST_F(SleepProtocolTest, EachRingerRings) {
  Ringer<> second;
  EXPECT_TRUE(sleeper_.FallAsleep(Never));
  EXPECT_TRUE(ringer_.MustRing(word_));
  EXPECT_TRUE(second.MustRing(word_));
  EXPECT_FALSE(ringer_.MustRing(word_));
}

// A sleeper was killed in its sleep, and another one got its word.
TEST_F(SleepProtocolTest, ASuccessorIsRungToo) {
  EXPECT_TRUE(sleeper_.FallAsleep(Never));
  EXPECT_TRUE(ringer_.MustRing(word_));
  Sleeper<> successor(&word_);
  EXPECT_TRUE(successor.FallAsleep(Never));
  EXPECT_TRUE(ringer_.MustRing(word_));
  successor.Awake();
  EXPECT_FALSE(ringer_.MustRing(word_));
}

TEST_F(SleepProtocolTest, ASuccessorMayFirstWakeUp) {
  EXPECT_TRUE(sleeper_.FallAsleep(Never));
  Sleeper<> successor(&word_);
  successor.Awake();
  EXPECT_EQ(word() % 2, 0u);
  EXPECT_FALSE(ringer_.MustRing(word_));
}

struct Orders {
  static constexpr auto kPublishFenced = std::memory_order_release;
};

TEST_F(SleepProtocolTest, PublishesTheValueEitherWay) {
  for (const auto publication :
       {Publication::kSequential, Publication::kFenced}) {
    SharedWord<uint64_t> news{0};
    PublishWord<StdAtomics, Orders>(news, 7, std::memory_order_seq_cst,
                                    publication);
    EXPECT_EQ(StdAtomics::Load(news, kRelaxed), 7u);
  }
}

}  // namespace
}  // namespace tenon
