// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/doorbell/spin_budget.h"

#include <sched.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace tenon {
namespace {

TEST(SpinBudgetTest, DependsOnTheNumberOfCores) {
  EXPECT_EQ(SpinBudget(0).turns(), 0u);
  EXPECT_EQ(SpinBudget(1).turns(), 0u);
  EXPECT_EQ(SpinBudget(2).turns(), SpinBudget::kTwoCores);
  EXPECT_EQ(SpinBudget(3).turns(), SpinBudget::kManyCores);
  EXPECT_EQ(SpinBudget(256).turns(), SpinBudget::kManyCores);
}

TEST(SpinBudgetTest, OnOneCoreNothingMakesItSpin) {
  SpinBudget budget(1);
  budget.Succeeded();
  EXPECT_EQ(budget.turns(), 0u);
  for (int i = 0; i < 100; ++i) budget.Failed();
  EXPECT_EQ(budget.turns(), 0u);
}

TEST(SpinBudgetTest, HalvesWithSpinsInVainDownToALeast) {
  SpinBudget budget(2);
  uint32_t expected = SpinBudget::kTwoCores;
  while (expected > SpinBudget::kLeast) {
    for (uint32_t i = 0; i + 1 < SpinBudget::kPatience; ++i) budget.Failed();
    EXPECT_EQ(budget.turns(), expected);
    budget.Failed();
    expected /= 2;
    EXPECT_EQ(budget.turns(), expected);
  }
  for (int i = 0; i < 100; ++i) budget.Failed();
  EXPECT_EQ(budget.turns(), SpinBudget::kLeast);
}

TEST(SpinBudgetTest, DoublesWithSuccessUpToTheMost) {
  SpinBudget budget(8);
  for (int i = 0; i < 100; ++i) budget.Failed();
  ASSERT_EQ(budget.turns(), SpinBudget::kLeast);
  budget.Succeeded();
  EXPECT_EQ(budget.turns(), 2 * SpinBudget::kLeast);
  for (int i = 0; i < 100; ++i) budget.Succeeded();
  EXPECT_EQ(budget.turns(), SpinBudget::kManyCores);
}

TEST(SpinBudgetTest, ASuccessForgivesWhatFailedBefore) {
  SpinBudget budget(2);
  for (int i = 0; i < 100; ++i) {
    for (uint32_t n = 0; n + 1 < SpinBudget::kPatience; ++n) budget.Failed();
    budget.Succeeded();
    ASSERT_EQ(budget.turns(), SpinBudget::kTwoCores);
  }
}

// How many of the next `count` spins, all in vain, are long ones.
int Probes(SpinBudget& budget, uint32_t count) {
  int probes = 0;
  for (uint32_t i = 0; i < count; ++i, budget.Failed()) {
    probes += budget.turns() == SpinBudget::kProbe ? 1 : 0;
  }
  return probes;
}

TEST(SpinBudgetTest, NowAndThenASpinIsALongOne) {
  SpinBudget budget(2);
  for (int i = 0; i < 31; ++i) budget.Failed();
  ASSERT_EQ(budget.turns(), SpinBudget::kLeast);
  EXPECT_EQ(Probes(budget, 10 * (SpinBudget::kProbeAfter + 1)), 10);
  EXPECT_EQ(budget.turns(), SpinBudget::kLeast);
}

TEST(SpinBudgetTest, ALongSpinThatSucceedsRestoresTheBudget) {
  SpinBudget budget(2);
  while (budget.turns() != SpinBudget::kLeast) budget.Failed();
  while (budget.turns() == SpinBudget::kLeast) budget.Failed();
  ASSERT_EQ(budget.turns(), SpinBudget::kProbe);
  budget.Succeeded();
  EXPECT_EQ(budget.turns(), SpinBudget::kTwoCores);
  for (uint32_t i = 0; i < SpinBudget::kPatience; ++i) budget.Failed();
  EXPECT_EQ(budget.turns(), SpinBudget::kTwoCores / 2);
}

TEST(SpinBudgetTest, ALongSpinInVainChangesNothing) {
  SpinBudget budget(2);
  while (budget.turns() != SpinBudget::kLeast) budget.Failed();
  while (budget.turns() == SpinBudget::kLeast) budget.Failed();
  budget.Failed();
  EXPECT_EQ(budget.turns(), SpinBudget::kLeast);
  budget.Succeeded();
  EXPECT_EQ(budget.turns(), 2 * SpinBudget::kLeast);
}

TEST(SpinBudgetTest, SeesTheAffinityOfThisProcess) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(UsableCores(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCores(), 1);
  EXPECT_EQ(SpinBudget::ForThisProcess().turns(), 0u);
  EXPECT_EQ(SpinBudget::ForThisProcess(0).turns(), 0u);
  EXPECT_EQ(SpinBudget::ForThisProcess(1).turns(), 0u);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(SpinBudgetTest, IsLongIfAllThatAreAwaitedHaveAnotherCore) {
  const int cores = UsableCores();
  if (cores < 2) GTEST_SKIP() << "needs two cores; there is " << cores;
  EXPECT_EQ(SpinBudget::ForThisProcess(1).turns(), SpinBudget::kManyCores);
  EXPECT_EQ(SpinBudget::ForThisProcess(cores - 1).turns(),
            SpinBudget::kManyCores);
  EXPECT_EQ(SpinBudget::ForThisProcess(cores).turns(),
            SpinBudget::ForThisProcess().turns());
}

}  // namespace
}  // namespace tenon
