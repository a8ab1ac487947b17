// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/turns.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tenon::benchmarks {
namespace {

const double kNone = std::nan("");

TEST(GroupOfTest, SortsByTheLines) {
  const TurnRules rules = {.near_below_ns = 250};
  EXPECT_EQ(GroupOf({.line_ns = {100, 110, 249}}, rules), Group::kNear);
  EXPECT_EQ(GroupOf({.line_ns = {250, 530, 540}}, rules), Group::kFar);
  EXPECT_EQ(GroupOf({.line_ns = {100, 110, 530}}, rules), Group::kMixed);
  EXPECT_EQ(GroupOf({.line_ns = {530, 100, 530}}, rules), Group::kMixed);
}

TEST(GroupOfTest, IgnoresTheLinesWithinOneThread) {
  const TurnRules rules = {.crosses_cores = false};
  EXPECT_EQ(GroupOf({.line_ns = {100, 530}}, rules), Group::kAny);
}

TEST(GroupOfTest, DiscardsTurnsThatDidNotSleep) {
  const TurnRules rules = {.must_sleep = 0.9};
  EXPECT_EQ(GroupOf({.line_ns = {100, 100}, .slept = 0.89}, rules),
            Group::kAwake);
  EXPECT_EQ(GroupOf({.line_ns = {100, 100}, .slept = 0.9}, rules),
            Group::kNear);
}

TEST(QuartilesTest, AreInterpolated) {
  const Quartiles five = QuartilesOf({50, 10, 30, 20, 40});
  EXPECT_EQ(five.count, 5u);
  EXPECT_DOUBLE_EQ(five.least, 10);
  EXPECT_DOUBLE_EQ(five.lower, 20);
  EXPECT_DOUBLE_EQ(five.median, 30);
  EXPECT_DOUBLE_EQ(five.upper, 40);
  const Quartiles two = QuartilesOf({20, 10});
  EXPECT_DOUBLE_EQ(two.lower, 12.5);
  EXPECT_DOUBLE_EQ(two.median, 15);
  EXPECT_DOUBLE_EQ(two.upper, 17.5);
}

TEST(QuartilesTest, AreOfTheMeasuredSamples) {
  EXPECT_EQ(QuartilesOf({}).count, 0u);
  EXPECT_EQ(QuartilesOf({kNone, kNone}).count, 0u);
  const Quartiles one = QuartilesOf({kNone, 7, kNone});
  EXPECT_EQ(one.count, 1u);
  EXPECT_DOUBLE_EQ(one.median, 7);
}

// The ratio of medians would be 3; in each turn it is 2, but for one.
TEST(TurnsTest, RatiosAreOfTheSameTurn) {
  Turns turns{TurnRules()};
  for (const std::vector<double>& ns :
       {std::vector<double>{10, 20}, {30, 60}, {20, 60}}) {
    EXPECT_EQ(turns.Add({.line_ns = {100, 101, 102}, .ns = ns}), Group::kNear);
  }
  EXPECT_DOUBLE_EQ(turns.Ratio(Group::kNear, 1, 0).median, 2);
  EXPECT_DOUBLE_EQ(turns.Nanoseconds(Group::kNear, 1).median, 60);
  EXPECT_EQ(turns.Ratio(Group::kFar, 1, 0).count, 0u);
}

TEST(TurnsTest, KeepDistancesApart) {
  Turns turns(TurnRules{.near_below_ns = 250});
  turns.Add({.line_ns = {100, 100}, .ns = {180}, .slept = 0.5});
  turns.Add({.line_ns = {530, 550}, .ns = {680}});
  turns.Add({.line_ns = {100, 530}, .ns = {9000}});
  turns.Add({.line_ns = {110, 110}, .ns = {kNone}});
  EXPECT_EQ(turns.count(Group::kNear), 2u);
  EXPECT_EQ(turns.count(Group::kFar), 1u);
  EXPECT_EQ(turns.count(Group::kMixed), 1u);
  EXPECT_EQ(turns.count(Group::kAwake), 0u);
  EXPECT_EQ(turns.Nanoseconds(Group::kNear, 0).count, 1u);
  EXPECT_DOUBLE_EQ(turns.Nanoseconds(Group::kNear, 0).median, 180);
  EXPECT_DOUBLE_EQ(turns.Nanoseconds(Group::kFar, 0).median, 680);
  EXPECT_DOUBLE_EQ(turns.Line(Group::kNear).median, 105);
  EXPECT_DOUBLE_EQ(turns.Slept(Group::kNear).median, 0.25);
}

}  // namespace
}  // namespace tenon::benchmarks
