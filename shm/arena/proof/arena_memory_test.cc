// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// An arena with little memory uses all of it.

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr size_t kBlockBytes = 4096;
constexpr size_t kMiB = size_t{1} << 20;

// Segments grow, and the next one would be larger than the remaining memory.
TEST(ArenaMemoryTest, SmallerSegmentsUseWhatIsLeft) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=3m"));
    const auto arena =
        CreateArena({.segment = {.strategy = SharingStrategy::kFileSystem}});
    ASSERT_THAT(arena, IsOk());
    std::vector<Block> blocks;
    absl::Status refused;
    while (refused.ok()) {
      auto block = (*arena)->Allocate(kBlockBytes, Deadline::Passed());
      refused = block.status();
      if (block.ok()) blocks.push_back(*std::move(block));
    }
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_GE(blocks.size() * kBlockBytes, 3 * kMiB - 64 * 1024);
    // And blocks that are free again are found.
    blocks.resize(blocks.size() / 2);
    EXPECT_THAT((*arena)->Allocate(kBlockBytes, Deadline::Passed()), IsOk());
  }));
}

}  // namespace
}  // namespace tenon
