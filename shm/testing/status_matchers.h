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

// The result of EXPECT_THAT(status, matcher); `text` is the expression tested.
testing::AssertionResult Check(const StatusMatcher<OkMatcher>& matcher,
                               const char* text, const absl::Status& status);
testing::AssertionResult Check(const StatusMatcher<CodeMatcher>& matcher,
                               const char* text, const absl::Status& status);
testing::AssertionResult ValuesDiffer(const char* text,
                                      const std::string& expected,
                                      const std::string& actual);

// Returns whether `status` is OK. A fatal failure at file:line if it is not.
bool AssertOk(const absl::Status& status, const char* text, const char* file,
              int line);

// Compared with == rather than by a Matcher<T>.
template <typename T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                                 std::is_same_v<T, std::string>;

// Matches an OK StatusOr whose value matches `Inner`: a matcher or a value.
template <typename Inner>
class HoldsMatcher {
 public:
  explicit HoldsMatcher(Inner inner) : inner_(std::move(inner)) {}

  // Inside of other matchers; EXPECT_THAT() calls Check().
  template <typename Arg>
  operator testing::Matcher<Arg>() const {
    return testing::MakeMatcher(new Impl<Arg>(inner_));
  }

  template <typename T>
  testing::AssertionResult Check(const char* text,
                                 const absl::StatusOr<T>& value) const {
    if (!value.ok()) {
      return internal_status_matchers::Check(StatusMatcher<OkMatcher>(), text,
                                             value.status());
    }
    if constexpr (kIsPlain<T> && std::is_convertible_v<const Inner&, T>) {
      const T expected = static_cast<T>(inner_);
      if (*value == expected) return testing::AssertionSuccess();
      return ValuesDiffer(text, testing::PrintToString(expected),
                          testing::PrintToString(*value));
    } else {
      return testing::internal::MakePredicateFormatterFromMatcher(inner_)(
          text, *value);
    }
  }

 private:
  template <typename Arg>
  class Impl : public testing::MatcherInterface<Arg> {
   public:
    using T = typename std::decay_t<Arg>::value_type;
    explicit Impl(const Inner& inner)
        : value_(testing::SafeMatcherCast<const T&>(inner)) {}

    void DescribeTo(std::ostream* out) const override {
      *out << "is OK and has a value that ";
      value_.DescribeTo(out);
    }
    void DescribeNegationTo(std::ostream* out) const override {
      *out << "is not OK or has no value that ";
      value_.DescribeTo(out);
    }
    bool MatchAndExplain(
        Arg value, testing::MatchResultListener* listener) const override {
      if (value.ok()) return value_.MatchAndExplain(*value, listener);
      *listener << "which is " << value.status();
      return false;
    }

   private:
    const testing::Matcher<const T&> value_;
  };

  const Inner inner_;
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
template <typename Inner>
internal_status_matchers::HoldsMatcher<Inner> IsOkAndHolds(Inner value) {
  return internal_status_matchers::HoldsMatcher<Inner>(std::move(value));
}

}  // namespace tenon

// EXPECT_THAT() and ASSERT_THAT() with these matchers. GoogleTest's own
// template compiles a Matcher<StatusOr<T>>, some forty functions, for each T of
// each test: an eighth of the code of all tests.
namespace testing::internal {

template <typename Kind>
class PredicateFormatterFromMatcher<
    tenon::internal_status_matchers::StatusMatcher<Kind>> {
 public:
  using Matcher = tenon::internal_status_matchers::StatusMatcher<Kind>;
  explicit PredicateFormatterFromMatcher(Matcher matcher)
      : matcher_(std::move(matcher)) {}

  AssertionResult operator()(const char* text,
                             const absl::Status& status) const {
    return Check(matcher_, text, status);
  }
  template <typename T>
  AssertionResult operator()(const char* text,
                             const absl::StatusOr<T>& value) const {
    return Check(matcher_, text, value.status());
  }

 private:
  const Matcher matcher_;
};

template <typename Inner>
class PredicateFormatterFromMatcher<
    tenon::internal_status_matchers::HoldsMatcher<Inner>> {
 public:
  using Matcher = tenon::internal_status_matchers::HoldsMatcher<Inner>;
  explicit PredicateFormatterFromMatcher(Matcher matcher)
      : matcher_(std::move(matcher)) {}

  template <typename T>
  AssertionResult operator()(const char* text,
                             const absl::StatusOr<T>& value) const {
    return matcher_.Check(text, value);
  }

 private:
  const Matcher matcher_;
};

}  // namespace testing::internal

// ASSERT_OK_AND_ASSIGN for StatusOr: fails the test, or moves the value out.
#define TENON_ASSERT_OK_AND_ASSIGN(lhs, expr) \
  TENON_ASSERT_OK_AND_ASSIGN_(TENON_TEST_CONCAT_(or_, __LINE__), lhs, expr)
#define TENON_ASSERT_OK_AND_ASSIGN_(value_or, lhs, expr)                     \
  auto value_or = (expr);                                                    \
  if (!::tenon::internal_status_matchers::AssertOk(value_or.status(), #expr, \
                                                   __FILE__, __LINE__))      \
    return;                                                                  \
  lhs = *std::move(value_or)
#define TENON_TEST_CONCAT_(a, b) TENON_TEST_CONCAT_INNER_(a, b)
#define TENON_TEST_CONCAT_INNER_(a, b) a##b

#endif  // TENON_SHM_TESTING_STATUS_MATCHERS_H_
