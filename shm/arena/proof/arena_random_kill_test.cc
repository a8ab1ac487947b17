// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Receivers and forwarders killed and stopped at random moments. The number of
// kills: TENON_RANDOM_KILLS in the environment.

#include <cstdint>
#include <iostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/arena/proof/random_kills.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

class ArenaRandomKillTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  RandomKillReport Run(RandomKillOptions options) {
    options.strategy = GetParam();
    options.shm_prefix = UniqueShmPrefix();
    // Each run uses another seed, and prints it for a repetition.
    options.seed = NumberFromEnvironment(
        "TENON_RANDOM_SEED",
        static_cast<uint64_t>(absl::ToUnixMicros(absl::Now())));
    const CensusOptions census = {.shm_prefix = options.shm_prefix};
    const Census before = TakeCensus(census);
    const absl::StatusOr<RandomKillReport> report = RunRandomKills(options);
    EXPECT_THAT(report, IsOk());
    EXPECT_TRUE(ExpectSame(before, TakeCensus(census)));
    if (!report.ok()) return {};
    std::cout << "seed " << options.seed << ": " << report->ToString();
    EXPECT_TRUE(report->ok()) << report->ToString();
    EXPECT_GT(report->hand_overs, 0u);
    return *report;
  }
};

// Of each strategy and kind of memory: 5,000 kills in all.
TEST_P(ArenaRandomKillTest, Killed) {
  const uint64_t kills = NumberFromEnvironment("TENON_RANDOM_KILLS", 1'250);
  EXPECT_EQ(Run({.kills = kills}).kills, kills);
}

// No process dies: so no message is lost.
TEST_P(ArenaRandomKillTest, Stopped) {
  const RandomKillReport report = Run({.stops = 500});
  EXPECT_EQ(report.stops, 500u);
  EXPECT_EQ(report.lost, 0u);
}

TEST_P(ArenaRandomKillTest, KilledAndStopped) {
  Run({.kills = 250, .stops = 250});
}

INSTANTIATE_TEST_SUITE_P(Strategies, ArenaRandomKillTest,
                         testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                         [](const auto& strategy) {
                           return strategy.param == SharingStrategy::kFileSystem
                                      ? "FileSystem"
                                      : "FileDescriptor";
                         });

}  // namespace
}  // namespace tenon
