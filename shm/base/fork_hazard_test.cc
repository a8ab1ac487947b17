// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/fork_hazard.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

// In a child: a hazard ends with its process.
TEST(ForkHazardTest, TheFirstHazardIsReportedHereAndInForkedChildren) {
  EXPECT_TRUE(PassesInChild([] {
    EXPECT_THAT(CheckNoForkHazard(), IsOk());
    NoteForkHazard("a library has been loaded");
    NoteForkHazard("another one has been loaded");
    const auto is_reported = StatusIs(
        absl::StatusCode::kFailedPrecondition,
        "a library has been loaded in this process, and cannot be used in a "
        "child that is forked from it; use StartMethod::kSpawn");
    EXPECT_THAT(CheckNoForkHazard(), is_reported);
    EXPECT_TRUE(
        PassesInChild([&] { EXPECT_THAT(CheckNoForkHazard(), is_reported); }));
  }));
  EXPECT_THAT(CheckNoForkHazard(), IsOk());
}

}  // namespace
}  // namespace tenon
