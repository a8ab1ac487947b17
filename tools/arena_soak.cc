// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Kills receivers of an arena's blocks at random moments, and reports the cost
// for this process.
//
//   bazel run -c opt //tools:arena_soak                  # 1,000,000 kills
//   bazel run -c opt //tools:arena_soak -- 50000         # so many
//   bazel run -c opt //tools:arena_soak -- 50000 fs      # with names
//
// Prints its progress, and at the end a summary: exits 1 if a byte was wrong, a
// block was not reclaimed, or memory, descriptors, mappings, processes or names
// have grown since the start.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/proof/random_kills.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/tools/soak.h"

namespace tenon {
namespace {

constexpr uint64_t kRoundKills = 50'000;

void Add(RandomKillReport& total, const RandomKillReport& round) {
  total.kills += round.kills;
  total.sent += round.sent;
  total.hand_overs += round.hand_overs;
  total.lost += round.lost;
  total.waits += round.waits;
  total.time += round.time;
  total.failures.insert(total.failures.end(), round.failures.begin(),
                        round.failures.end());
}

int Soak(uint64_t kills, SharingStrategy strategy) {
  const std::string prefix = UniqueShmPrefix();
  RandomKillOptions options;
  options.strategy = strategy;
  options.shm_prefix = prefix;
  options.budget = absl::Hours(24);
  RandomKillReport total;
  Holdings start;
  // A small first round, for allocations that happen only once.
  for (uint64_t left = kills; left > 0 && total.ok(); options.seed += 1) {
    const bool first = total.kills == 0;
    options.kills =
        first ? std::min<uint64_t>(left, 100) : std::min(left, kRoundKills);
    const absl::StatusOr<RandomKillReport> round = RunRandomKills(options);
    if (!round.ok()) {
      std::cout << round.status() << "\n";
      return 1;
    }
    left -= options.kills;
    Add(total, *round);
    const Holdings now = TakeHoldings(0, prefix);
    if (first) start = now;
    std::cout << total.ToString() << "  " << now.ToString() << std::endl;
  }
  const Holdings end = TakeHoldings(0, prefix);
  const absl::Status flat = CheckFlat("the owner", start, end);
  std::cout << "at the start: " << start.ToString()
            << "\nat the end:   " << end.ToString() << "\n";
  if (!flat.ok()) std::cout << flat << "\n";
  const bool whole = total.ok() && flat.ok();
  std::cout << (whole ? "whole" : "BROKEN") << "\n";
  return whole ? 0 : 1;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  uint64_t kills = 1'000'000;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &kills)) {
    std::cerr << "usage: arena_soak [kills] [fs]\n";
    return 2;
  }
  const bool names = argc > 2 && std::string(argv[2]) == "fs";
  return tenon::Soak(kills, names ? tenon::SharingStrategy::kFileSystem
                                  : tenon::SharingStrategy::kFileDescriptor);
}
