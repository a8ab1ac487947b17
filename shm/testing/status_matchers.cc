// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/status_matchers.h"

#include <ostream>
#include <string>

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

}  // namespace internal_status_matchers
}  // namespace tenon
