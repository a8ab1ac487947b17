// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/fork_count.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ForkCountTest, GrowsInEachGeneration) {
  const uint64_t here = ForkCount();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_EQ(ForkCount(), here + 1);
    EXPECT_TRUE(PassesInChild([&] { EXPECT_EQ(ForkCount(), here + 2); }));
    EXPECT_EQ(ForkCount(), here + 1);
  }));
  EXPECT_EQ(ForkCount(), here);
}

TEST(ForkCountTest, SpawningIsNoFork) {
  const uint64_t here = ForkCount();
  char* argv[] = {const_cast<char*>("true"), nullptr};
  pid_t pid;
  ASSERT_EQ(posix_spawnp(&pid, "true", nullptr, nullptr, argv, environ), 0);
  int status;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(ForkCount(), here);
}

TEST(CheckNotForkedTest, HoldsWhereTheHandleWasMade) {
  EXPECT_THAT(CheckNotForked(ForkCount(), "segment 'x'"), IsOk());
}

TEST(CheckNotForkedTest, NamesTheHandleInAChild) {
  const uint64_t here = ForkCount();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(CheckNotForked(here, "segment 'x'"),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("segment 'x'"), HasSubstr("fork"))));
    EXPECT_THAT(CheckNotForked(ForkCount(), "segment 'y'"), IsOk());
  }));
}

}  // namespace
}  // namespace tenon
