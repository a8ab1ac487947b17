// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RunRandomKills: pairs of processes that attach, claim, forward and release at
// full speed, while some of them are killed, or stopped, at random moments.
//
//   TENON_ASSERT_OK_AND_ASSIGN(const RandomKillReport report,
//                              RunRandomKills({.kills = 1000}));
//   EXPECT_TRUE(report.ok()) << report.ToString();
//
// The caller owns the arena and sends blocks to the first process of each pair,
// which forwards them to the second. Each block has unique bytes; a holder
// checks them after claiming it and again before releasing it. At the end the
// owner reclaims all blocks.

#ifndef TENON_SHM_ARENA_PROOF_RANDOM_KILLS_H_
#define TENON_SHM_ARENA_PROOF_RANDOM_KILLS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

struct RandomKillReport {
  bool ok() const { return failures.empty(); }
  std::string ToString() const;

  uint64_t kills = 0;
  uint64_t stops = 0;
  uint64_t sent = 0;        // Blocks sent by the owner.
  uint64_t hand_overs = 0;  // Claims, of first and second receivers.
  // Claims that failed because the sender was killed.
  uint64_t lost = 0;
  uint64_t waits = 0;  // Times that the owner found no free block.
  absl::Duration time;
  std::vector<std::string> failures;
};

struct RandomKillOptions {
  uint64_t kills = 0;  // By SIGKILL.
  uint64_t stops = 0;  // By SIGSTOP, and SIGCONT later.
  size_t pairs = 4;
  size_t blocks = 6;  // The quota. Fewer than all processes could hold.
  SharingStrategy strategy = SharingStrategy::kFileDescriptor;
  std::string shm_prefix;
  uint64_t seed = 1;
  // The run ends early once this has passed.
  absl::Duration budget = absl::Minutes(10);
  size_t max_failures = 10;
  // Called about once a second. May be empty.
  std::function<void(const RandomKillReport&)> progress;
};

// Blocks: some milliseconds for each kill or stop. Call it in a test's main
// thread.
// Errors: kResourceExhausted at the limit of processes or descriptors.
absl::StatusOr<RandomKillReport> RunRandomKills(
    const RandomKillOptions& options);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_PROOF_RANDOM_KILLS_H_
