// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// GoogleTest matchers for absl::Status and absl::StatusOr<T>, for tests only.
//
//   EXPECT_THAT(segment, IsOk());
//   EXPECT_THAT(reader.Get<int>(), IsOkAndHolds(7));
//   EXPECT_THAT(Segment::CreateSharedWritable(0),
//               StatusIs(absl::StatusCode::kInvalidArgument,
//                        HasSubstr("0 bytes")));

#ifndef TENON_SHM_TESTING_STATUS_MATCHERS_H_
#define TENON_SHM_TESTING_STATUS_MATCHERS_H_

#include <ostream>
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

// Matches a Status, or any StatusOr by its status. Tests instantiate it for
// dozens of types, so the parts that do not depend on the type are compiled
// once, in the .cc file.
template <typename Matcher>
class StatusMatcher : public Matcher {
 public:
  using is_gtest_matcher = void;
  using Matcher::Matcher;

  template <typename T>
  bool MatchAndExplain(const T& value, std::ostream* explanation) const {
    return this->Matches(StatusOf(value), explanation);
  }
};

class OkMatcher {
 public:
  void DescribeTo(std::ostream* out) const;
  void DescribeNegationTo(std::ostream* out) const;

 protected:
  bool Matches(const absl::Status& status, std::ostream* explanation) const;
};

class CodeMatcher {
 public:
  CodeMatcher(absl::StatusCode code,
              const testing::Matcher<const std::string&>& message);
  void DescribeTo(std::ostream* out) const;
  void DescribeNegationTo(std::ostream* out) const;

 protected:
  bool Matches(const absl::Status& status, std::ostream* explanation) const;

 private:
  void DescribeRestTo(std::ostream* out) const;

  absl::StatusCode code_;
  testing::Matcher<const std::string&> message_;
};

}  // namespace internal_status_matchers

// Matches an OK Status or StatusOr.
inline internal_status_matchers::StatusMatcher<
    internal_status_matchers::OkMatcher>
IsOk() {
  return {};
}

// Matches a Status or StatusOr with this code and a message that matches.
inline internal_status_matchers::StatusMatcher<
    internal_status_matchers::CodeMatcher>
StatusIs(absl::StatusCode code,
         const testing::Matcher<const std::string&>& message = testing::_) {
  return {code, message};
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

#endif  // TENON_SHM_TESTING_STATUS_MATCHERS_H_
