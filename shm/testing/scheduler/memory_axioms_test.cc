// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Random programs, with every operation and order, through WeakMemory and
// through the axioms of C++20: it shows no forbidden outcome, and all but the
// rarest of the allowed ones.

#include "tenon/shm/testing/scheduler/memory_axioms.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/litmus.h"
#include "tenon/shm/testing/scheduler/schedule_random.h"

namespace tenon {
namespace {

constexpr auto rlx = std::memory_order_relaxed;
constexpr auto acq = std::memory_order_acquire;
constexpr auto rel = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto sc = std::memory_order_seq_cst;

using OrderChoices = std::vector<std::memory_order>;

std::memory_order OneOf(const OrderChoices& orders, ScheduleRandom& random) {
  return orders[random.Below(orders.size())];
}

// Every write stores a unique value, so that an outcome identifies the source
// of each read.
LitmusOp RandomOp(uint64_t value, ScheduleRandom& random) {
  const int word = random.Below(2);
  switch (random.Below(8)) {
    case 0:
    case 1:
    case 2:
      return Read(word, OneOf({rlx, acq, sc}, random));
    case 3:
    case 4:
    case 5:
      return Write(word, value, OneOf({rlx, rel, sc}, random));
    case 6:
      return Add(word, 100 * value,
                 OneOf({rlx, acq, rel, acq_rel, sc}, random));
    default:
      return Fence(OneOf({acq, rel, acq_rel, sc, sc}, random));
  }
}

// Two threads of three or four operations, or three of two or three.
LitmusProgram RandomProgram(ScheduleRandom& random) {
  const size_t threads = 2 + random.Below(2);
  const size_t at_least = threads == 2 ? 3 : 2;
  LitmusProgram program(threads);
  uint64_t value = 1;
  for (LitmusThread& thread : program) {
    for (size_t n = at_least + random.Below(2); n > 0; --n) {
      thread.push_back(RandomOp(value++, random));
    }
  }
  return program;
}

TEST(MemoryAxiomsTest, KnowsTheTextbook) {
  EXPECT_EQ(AllowedOutcomes({{Write(0, 1, rel), Write(1, 1, rel)},
                             {Read(1, acq), Read(0, acq)}}),
            (std::set<LitmusOutcome>{"0 0 | 1 1", "0 1 | 1 1", "1 1 | 1 1"}));
  EXPECT_EQ(AllowedOutcomes({{Add(0, 1, rlx)}, {Add(0, 1, rlx)}}),
            (std::set<LitmusOutcome>{"0 1 | 2", "1 0 | 2"}));
  EXPECT_EQ(AllowedOutcomes({{Write(0, 1, rlx), Write(0, 2, rlx)}}),
            (std::set<LitmusOutcome>{" | 2"}));
}

TEST(MemoryAxiomsTest, RandomProgramsShowNothingThatIsForbidden) {
  const uint64_t schedules = ScheduleCount(10'000);
  ScheduleRandom random(20240);
  size_t allowed_in_all = 0;
  size_t seen_in_all = 0;
  for (int i = 0; i < 300; ++i) {
    const LitmusProgram program = RandomProgram(random);
    const std::set<LitmusOutcome> allowed = AllowedOutcomes(program);
    const auto seen = RunLitmus(program, schedules);
    for (const auto& [outcome, first] : seen) {
      EXPECT_EQ(allowed.count(outcome), 1u)
          << ToString(program) << " gave " << outcome << " in schedule "
          << first;
    }
    allowed_in_all += allowed.size();
    seen_in_all += seen.size();
  }
  // The rest needs several rare choices at once, and a few 100,000 schedules.
  const size_t percent = schedules >= 10'000 ? 97 : 90;
  EXPECT_GE(seen_in_all * 100, allowed_in_all * percent)
      << seen_in_all << " of " << allowed_in_all;
}

}  // namespace
}  // namespace tenon
