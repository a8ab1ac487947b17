// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/status_macros.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr auto kAborted = absl::StatusCode::kAborted;

absl::Status Fail() { return absl::AbortedError("no"); }

absl::Status ReturnIfError(const absl::Status& first, int& reached) {
  ++reached;
  TENON_RETURN_IF_ERROR(first);
  ++reached;
  return absl::OkStatus();
}

TEST(ReturnIfErrorTest, GoesOnAfterOk) {
  int reached = 0;
  EXPECT_THAT(ReturnIfError(absl::OkStatus(), reached), IsOk());
  EXPECT_EQ(reached, 2);
}

TEST(ReturnIfErrorTest, ReturnsTheErrorUnchanged) {
  int reached = 0;
  EXPECT_THAT(ReturnIfError(Fail(), reached), StatusIs(kAborted, "no"));
  EXPECT_EQ(reached, 1);
}

TEST(ReturnIfErrorTest, EvaluatesItsArgumentOnce) {
  int calls = 0;
  const auto call = [&] {
    ++calls;
    return Fail();
  };
  const auto use = [&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(call());
    return absl::OkStatus();
  };
  EXPECT_THAT(use(), StatusIs(kAborted));
  EXPECT_EQ(calls, 1);
}

TEST(ReturnIfErrorTest, IsOneStatement) {
  const auto use = [](bool yes) -> absl::StatusOr<int> {
    if (yes)
      TENON_RETURN_IF_ERROR(Fail());
    else
      return 1;
    return 2;
  };
  EXPECT_THAT(use(true), StatusIs(kAborted));
  EXPECT_THAT(use(false), IsOkAndHolds(1));
}

absl::StatusOr<int> Sum(absl::StatusOr<int> a, absl::StatusOr<int> b) {
  TENON_ASSIGN_OR_RETURN(const int x, std::move(a));
  int y = 0;
  TENON_ASSIGN_OR_RETURN(y, b);
  return x + y;
}

TEST(AssignOrReturnTest, DeclaresAndAssigns) {
  EXPECT_THAT(Sum(1, 2), IsOkAndHolds(3));
  EXPECT_THAT(Sum(Fail(), 2), StatusIs(kAborted, "no"));
  EXPECT_THAT(Sum(1, Fail()), StatusIs(kAborted, "no"));
}

TEST(AssignOrReturnTest, MovesTheValueOut) {
  const auto use = []() -> absl::StatusOr<int> {
    absl::StatusOr<std::unique_ptr<int>> made = std::make_unique<int>(5);
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<int> value, std::move(made));
    return *value;
  };
  EXPECT_THAT(use(), IsOkAndHolds(5));
}

TEST(AssignOrReturnTest, AnAliasHelpsATypeWithAComma) {
  using Map = std::map<int, int>;
  const auto use = []() -> absl::StatusOr<int> {
    TENON_ASSIGN_OR_RETURN(const Map map,
                           (absl::StatusOr<std::map<int, int>>(Map{{1, 2}})));
    return map.at(1);
  };
  EXPECT_THAT(use(), IsOkAndHolds(2));
}

}  // namespace
}  // namespace tenon
