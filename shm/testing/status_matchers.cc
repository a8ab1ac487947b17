// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/status_matchers.h"

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"

namespace tenon {
namespace internal_status_matchers {

void OkMatcher::DescribeTo(std::ostream* out) const { *out << "is OK"; }

void OkMatcher::DescribeNegationTo(std::ostream* out) const {
  *out << "is not OK";
}

bool OkMatcher::Matches(const absl::Status& status,
                        std::ostream* explanation) const {
  if (!status.ok() && explanation != nullptr) {
    *explanation << "which is " << status;
  }
  return status.ok();
}

CodeMatcher::CodeMatcher(absl::StatusCode code,
                         const testing::Matcher<const std::string&>& message)
    : code_(code), message_(message) {}

void CodeMatcher::DescribeTo(std::ostream* out) const {
  *out << "has";
  DescribeRestTo(out);
}

void CodeMatcher::DescribeNegationTo(std::ostream* out) const {
  *out << "has not";
  DescribeRestTo(out);
}

void CodeMatcher::DescribeRestTo(std::ostream* out) const {
  *out << " the code " << absl::StatusCodeToString(code_)
       << " and a message that ";
  message_.DescribeTo(out);
}

bool CodeMatcher::Matches(const absl::Status& status,
                          std::ostream* explanation) const {
  if (explanation != nullptr) *explanation << "which is " << status;
  testing::StringMatchResultListener listener;
  const bool matches =
      status.code() == code_ &&
      message_.MatchAndExplain(std::string(status.message()), &listener);
  if (explanation != nullptr) *explanation << listener.str();
  return matches;
}

namespace {

testing::AssertionResult CheckStatus(
    testing::Matcher<const absl::Status&> matcher, const char* text,
    const absl::Status& status) {
  return testing::internal::MakePredicateFormatterFromMatcher(
      std::move(matcher))(text, status);
}

void FailAt(const char* file, int line, const std::string& message) {
  GTEST_FAIL_AT(file, line) << message;
}

}  // namespace

testing::AssertionResult Check(const StatusMatcher<OkMatcher>& matcher,
                               const char* text, const absl::Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return CheckStatus(matcher, text, status);
}

testing::AssertionResult Check(const StatusMatcher<CodeMatcher>& matcher,
                               const char* text, const absl::Status& status) {
  return CheckStatus(matcher, text, status);
}

testing::AssertionResult ValuesDiffer(const char* text,
                                      const std::string& expected,
                                      const std::string& actual) {
  return testing::AssertionFailure()
         << "Value of: " << text
         << "\nExpected: is OK and has a value that is equal to " << expected
         << "\n  Actual: " << actual;
}

bool AssertOk(const absl::Status& status, const char* text, const char* file,
              int line) {
  if (status.ok()) return true;
  FailAt(file, line, Check(IsOk(), text, status).failure_message());
  return false;
}

}  // namespace internal_status_matchers
}  // namespace tenon
