// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The lease protocol among threads. ThreadSanitizer sees each read of a block
// that does not happen before its reuse.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/ledger/lease_stress.h"

namespace tenon {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Whichever comes first.
constexpr uint64_t kReclaimed = 20'000'000;
constexpr absl::Duration kBudget = absl::Milliseconds(10500);
constexpr int kWorkers = 4;

TEST(LeaseThreadTest, NobodySeesTheBytesOfAnotherGeneration) {
  const auto shared = std::make_unique<StressShared>();
  std::vector<SharedWord<uint64_t>> all_cells(StressShared::kMembers *
                                              StressShared::kBlocks);
  StressCells cells;
  for (size_t m = 0; m < cells.size(); ++m) {
    cells[m] = &all_cells[m * StressShared::kBlocks];
  }

  StressOwner owner(*shared, cells);
  std::vector<std::thread> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&shared, &cells, self = owner.Join()] {
      StressMember(*shared, cells, self).Run();
    });
  }
  const Deadline enough = Deadline::After(kBudget);
  while (owner.reclaimed() < kReclaimed &&
         enough.Remaining() > absl::ZeroDuration()) {
    for (int i = 0; i < 64; ++i) owner.Step();
  }
  EXPECT_TRUE(owner.Drain(Deadline::After(absl::Seconds(60))))
      << "blocks did not come back";
  owner.End();
  for (std::thread& worker : workers) worker.join();

  EXPECT_EQ(StdAtomics::Load(shared->wrong_bytes, kRelaxed), 0);
  EXPECT_EQ(StdAtomics::Load(shared->losses, kRelaxed), 0)
      << "a claim failed though nobody died";
  EXPECT_GT(owner.reclaimed(), StressShared::kBlocks);
  EXPECT_GT(StdAtomics::Load(shared->claims, kRelaxed), owner.reclaimed());
  for (const SharedWord<uint64_t>& cell : all_cells) {
    EXPECT_EQ(LeaseCell::Held(StdAtomics::Load(cell, kRelaxed)), 0);
  }
  RecordProperty("reclaimed", std::to_string(owner.reclaimed()));
  RecordProperty("claims",
                 std::to_string(StdAtomics::Load(shared->claims, kRelaxed)));
  RecordProperty("tests", std::to_string(owner.tests()));
  RecordProperty("failures", std::to_string(owner.failures()));
}

}  // namespace
}  // namespace tenon
