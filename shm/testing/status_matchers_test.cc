// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/status_matchers.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointee;
using ::testing::StringMatchResultListener;

constexpr auto kAborted = absl::StatusCode::kAborted;

const absl::StatusOr<int> kSeven = 7;
const absl::StatusOr<int> kNone = absl::AbortedError("went away");

template <typename Matcher, typename Value>
std::string Explanation(const Matcher& matcher, const Value& value) {
  StringMatchResultListener listener;
  testing::SafeMatcherCast<const Value&>(matcher).MatchAndExplain(value,
                                                                  &listener);
  return listener.str();
}

TEST(IsOkTest, TellsStatusAndStatusOrApart) {
  EXPECT_THAT(absl::OkStatus(), IsOk());
  EXPECT_THAT(kSeven, IsOk());
  EXPECT_THAT(kNone, Not(IsOk()));
  EXPECT_THAT(absl::AbortedError("x"), Not(IsOk()));
  EXPECT_EQ(Explanation(IsOk(), kNone), "which is ABORTED: went away");
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(kNone, IsOk()),
                          "which is ABORTED: went away");
}

TEST(StatusIsTest, MatchesCodeAndMessage) {
  EXPECT_THAT(kNone, StatusIs(kAborted));
  EXPECT_THAT(kNone, StatusIs(kAborted, HasSubstr("away")));
  EXPECT_THAT(kNone, StatusIs(kAborted, "went away"));
  EXPECT_THAT(kNone, Not(StatusIs(kAborted, "away")));
  EXPECT_THAT(kNone, Not(StatusIs(absl::StatusCode::kInternal, _)));
  EXPECT_THAT(kSeven, Not(StatusIs(kAborted)));
  EXPECT_THAT(kSeven, StatusIs(absl::StatusCode::kOk));
  EXPECT_THAT(Explanation(StatusIs(kAborted, "away"), kNone.status()),
              HasSubstr("which is ABORTED: went away"));
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(kSeven, StatusIs(kAborted)),
                          "Expected: has the code ABORTED");
}

TEST(IsOkAndHoldsTest, MatchesTheValue) {
  EXPECT_THAT(kSeven, IsOkAndHolds(7));
  EXPECT_THAT(kSeven, Not(IsOkAndHolds(8)));
  EXPECT_THAT(kNone, Not(IsOkAndHolds(_)));
  const absl::StatusOr<std::unique_ptr<int>> pointer = std::make_unique<int>(3);
  EXPECT_THAT(pointer, IsOkAndHolds(Pointee(3)));
  EXPECT_EQ(Explanation(IsOkAndHolds(7), kNone), "which is ABORTED: went away");
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(kNone, IsOkAndHolds(7)), "went away");
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(kSeven, IsOkAndHolds(8)),
                          "Expected: is OK and has a value that is equal to 8\n"
                          "  Actual: 7");
}

TEST(StatusMatchersTest, DescribeThemselves) {
  using Value = const absl::StatusOr<int>&;
  EXPECT_EQ(testing::DescribeMatcher<Value>(IsOk()), "is OK");
  EXPECT_EQ(testing::DescribeMatcher<Value>(StatusIs(kAborted, "x")),
            "has the code ABORTED and a message that is equal to \"x\"");
  EXPECT_EQ(testing::DescribeMatcher<Value>(IsOkAndHolds(7)),
            "is OK and has a value that is equal to 7");
  EXPECT_EQ(testing::DescribeMatcher<Value>(Not(IsOkAndHolds(7))),
            "is not OK or has no value that is equal to 7");
}

TEST(AssertOkAndAssignTest, MovesTheValueOut) {
  absl::StatusOr<std::unique_ptr<int>> made = std::make_unique<int>(3);
  TENON_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<int> value, std::move(made));
  EXPECT_EQ(*value, 3);
}

TEST(AssertOkAndAssignTest, FailsTheTestOnAnError) {
  EXPECT_FATAL_FAILURE(
      {
        TENON_ASSERT_OK_AND_ASSIGN(const int value, kNone);
        ADD_FAILURE() << "went on with " << value;
      },
      "went away");
}

}  // namespace
}  // namespace tenon
