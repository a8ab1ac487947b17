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
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace tenon
