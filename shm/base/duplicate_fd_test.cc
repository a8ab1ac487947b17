// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/duplicate_fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DuplicateFdTest, IsAnotherDescriptorOfTheSameFile) {
  const UniqueFd counter(eventfd(3, 0));
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd copy,
                             DuplicateFd(counter.get(), "a counter"));
  EXPECT_NE(copy.get(), counter.get());
  EXPECT_EQ(fcntl(copy.get(), F_GETFD), FD_CLOEXEC);
  uint64_t count = 0;
  EXPECT_EQ(read(copy.get(), &count, sizeof(count)), 8);
  EXPECT_EQ(count, 3u);
}

TEST(DuplicateFdTest, ADescriptorThatIsNotOpenIsAnInvalidArgument) {
  EXPECT_THAT(DuplicateFd(-1, "a counter"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("file descriptor -1 is not open: a counter")));
}

TEST(DuplicateFdTest, ALimitOfDescriptorsNamesTheObject) {
  const auto copy = [] {
    const FewFds none;
    return DuplicateFd(STDERR_FILENO, "a counter");
  }();
  EXPECT_THAT(copy, StatusIs(absl::StatusCode::kResourceExhausted,
                             AllOf(HasSubstr("F_DUPFD_CLOEXEC"),
                                   HasSubstr("a counter"))));
}

}  // namespace
}  // namespace tenon
