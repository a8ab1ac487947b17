// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// GoogleTest matchers for absl::Status and absl::StatusOr<T>, for tests only.
//
//   EXPECT_THAT(segment, IsOk());
//   EXPECT_THAT(reader.Get<int>(), IsOkAndHolds(7));
//   EXPECT_THAT(Segment::CreateSharedWritable(0),
//               StatusIs(absl::StatusCode::kInvalidArgument,
//                        HasSubstr("0 bytes")));

#ifndef TENON_SHM_STATUS_MATCHERS_H_
#define TENON_SHM_STATUS_MATCHERS_H_

#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tenon {
namespace internal_status_matchers {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

}  // namespace internal_status_matchers

// Matches an OK Status or StatusOr.
MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  const absl::Status& status = internal_status_matchers::StatusOf(arg);
  if (!status.ok()) *result_listener << "which is " << status;
  return status.ok();
}

// Matches a Status or StatusOr with this code and a message that matches.
MATCHER_P2(
    StatusIs, code, message_matcher,
    absl::StrCat(negation ? "has not" : "has", " the code ",
                 absl::StatusCodeToString(code), " and a message that ",
                 ::testing::DescribeMatcher<std::string>(message_matcher))) {
  const absl::Status& status = internal_status_matchers::StatusOf(arg);
  *result_listener << "which is " << status;
  return status.code() == code &&
         ::testing::ExplainMatchResult(
             message_matcher, std::string(status.message()), result_listener);
}
inline auto StatusIs(absl::StatusCode code) {
  return StatusIs(code, ::testing::_);
}

// Matches an OK StatusOr whose value matches.
MATCHER_P(
    IsOkAndHolds, value_matcher,
    absl::StrCat(
        negation ? "is not OK or has no value that "
                 : "is OK and has a value that ",
        ::testing::DescribeMatcher<typename std::decay_t<arg_type>::value_type>(
            value_matcher))) {
  if (!arg.ok()) {
    *result_listener << "which is " << arg.status();
    return false;
  }
  return ::testing::ExplainMatchResult(value_matcher, *arg, result_listener);
}

}  // namespace tenon

// ASSERT_OK_AND_ASSIGN for StatusOr: fails the test, or moves the value out.
#define TENON_ASSERT_OK_AND_ASSIGN(lhs, expr) \
  TENON_ASSERT_OK_AND_ASSIGN_(TENON_TEST_CONCAT_(or_, __LINE__), lhs, expr)
#define TENON_ASSERT_OK_AND_ASSIGN_(value_or, lhs, expr) \
  auto value_or = (expr);                                \
  ASSERT_THAT(value_or, ::tenon::IsOk());                \
  lhs = *std::move(value_or)
#define TENON_TEST_CONCAT_(a, b) TENON_TEST_CONCAT_INNER_(a, b)
#define TENON_TEST_CONCAT_INNER_(a, b) a##b

#endif  // TENON_SHM_STATUS_MATCHERS_H_
