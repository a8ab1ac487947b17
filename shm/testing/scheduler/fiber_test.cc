// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/fiber.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tenon {
namespace {

constexpr size_t kStackBytes = 128 << 10;

// Two fibers and the main one, as the argument of both.
struct Pair {
  Fiber main;
  Fiber a{kStackBytes};
  Fiber b{kStackBytes};
  std::string log;
};

void RunA(void* argument) {
  Pair& pair = *static_cast<Pair*>(argument);
  pair.log += "a1 ";
  pair.a.SwitchTo(pair.b);
  pair.log += "a2 ";
  pair.a.SwitchForGood(pair.main);
}

void RunB(void* argument) {
  Pair& pair = *static_cast<Pair*>(argument);
  pair.log += "b1 ";
  pair.b.SwitchTo(pair.a);
  pair.log += "never ";
}

TEST(FiberTest, TakesTurns) {
  Pair pair;
  pair.a.Prepare(&RunA, &pair);
  pair.b.Prepare(&RunB, &pair);
  pair.main.SwitchTo(pair.a);
  pair.log += "main";
  EXPECT_EQ(pair.log, "a1 b1 a2 main");
}

TEST(FiberTest, IsPreparedAnewWhereverItWas) {
  Pair pair;
  for (int round = 0; round < 1000; ++round) {
    pair.log.clear();
    pair.a.Prepare(&RunA, &pair);  // Had ended.
    pair.b.Prepare(&RunB, &pair);  // Was in the middle.
    pair.main.SwitchTo(pair.a);
    ASSERT_EQ(pair.log, "a1 b1 a2 ");
  }
}

struct Sum {
  Fiber main;
  Fiber fiber{kStackBytes};
  uint64_t sum = 0;
};

// Uses registers that a callee must preserve, the floating point unit, and
// aligned memory, across switches.
void AddUp(void* argument) {
  Sum& s = *static_cast<Sum*>(argument);
  alignas(16) volatile double numbers[4] = {1, 2, 3, 4};
  const bool aligned = reinterpret_cast<uintptr_t>(&numbers) % 16 == 0;
  double kept = 0.5;
  for (uint64_t i = 0;; ++i) {
    s.sum += i;
    kept += numbers[i % 4];
    s.fiber.SwitchTo(s.main);
    if (!aligned || kept < 1.5) s.sum = 1'000'000;
  }
}

TEST(FiberTest, KeepsItsState) {
  Sum s;
  s.fiber.Prepare(&AddUp, &s);
  uint64_t expected = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    s.main.SwitchTo(s.fiber);
    expected += i;
    ASSERT_EQ(s.sum, expected);
  }
}

struct Deep {
  Fiber main;
  Fiber fiber{kStackBytes};
  int depth = 0;
  int reached = 0;
};

// Takes about 1 KiB of stack a call.
int Descend(Deep& deep, int left) {
  volatile char block[1024];
  block[0] = static_cast<char>(left);
  if (left == 0) {
    deep.fiber.SwitchTo(deep.main);
    return block[0];
  }
  return Descend(deep, left - 1) + (block[0] == static_cast<char>(left));
}

void RunDeep(void* argument) {
  Deep& deep = *static_cast<Deep*>(argument);
  deep.reached = Descend(deep, deep.depth);
  deep.fiber.SwitchForGood(deep.main);
}

TEST(FiberTest, HasTheStackItWasGiven) {
  Deep deep;
  deep.depth = 40;
  deep.fiber.Prepare(&RunDeep, &deep);
  deep.main.SwitchTo(deep.fiber);
  EXPECT_EQ(deep.reached, 0);
  deep.main.SwitchTo(deep.fiber);
  EXPECT_EQ(deep.reached, 40);
}

TEST(FiberDeathTest, DiesBelowItsStack) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Deep deep;
        deep.depth = 1 << 20;
        deep.fiber.Prepare(&RunDeep, &deep);
        deep.main.SwitchTo(deep.fiber);
      },
      "");
}

}  // namespace
}  // namespace tenon
