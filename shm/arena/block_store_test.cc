// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/block_store.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kStoredBytes = 4096;

ArenaOptions StoredOptions() {
  return {.name = "stored",
          .segment = {.strategy = SharingStrategy::kFileDescriptor},
          .max_blocks = 8192};
}

// A store that can only make segments.
class PlainStore final : public BlockStore {
 public:
  explicit PlainStore(const Facts& facts)
      : BlockStore(facts), mapped_(StoredOptions()) {}
  absl::StatusOr<std::unique_ptr<StoredSegment>> Create(size_t bytes) override {
    return mapped_.Create(bytes);
  }

 private:
  MappedStore mapped_;
};

// Counts its calls, which may fail.
class CountingStore final : public MappedStore {
 public:
  struct Calls {
    int segments = 0;
    int blocks = 0;
    bool fail_wipe = false;
    bool fail_unprotect = false;
    size_t most_bytes = SIZE_MAX;  // Of a segment.
    bool is_lost = false;
  };

  CountingStore(const ArenaOptions& options, const Facts& facts, Calls& calls)
      : MappedStore(options, facts), calls_(calls) {}

  absl::StatusOr<std::unique_ptr<StoredSegment>> Create(size_t bytes) override {
    ++calls_.segments;
    if (calls_.is_lost) return absl::InternalError("the device is lost");
    if (bytes > calls_.most_bytes) {
      return absl::ResourceExhaustedError("the device is full");
    }
    return MappedStore::Create(bytes);
  }
  absl::Status Wipe(std::byte* block, size_t bytes) override {
    ++calls_.blocks;
    if (calls_.fail_wipe) return absl::InternalError("the fill failed");
    return MappedStore::Wipe(block, bytes);
  }
  void Poison(std::byte* block, size_t bytes) override {
    ++calls_.blocks;
    MappedStore::Poison(block, bytes);
  }
  absl::Status Protect(std::byte* block, size_t bytes) override {
    ++calls_.blocks;
    return MappedStore::Protect(block, bytes);
  }
  absl::Status Unprotect(std::byte* block, size_t bytes) override {
    ++calls_.blocks;
    if (calls_.fail_unprotect) {
      return absl::ResourceExhaustedError("no mapping is left");
    }
    return MappedStore::Unprotect(block, bytes);
  }

 private:
  Calls& calls_;
};

std::shared_ptr<Arena> MakeCounting(const ArenaOptions& options,
                                    CountingStore::Calls& calls,
                                    const BlockStore::Facts& facts = {}) {
  return Arena::Create(options,
                       std::make_unique<CountingStore>(options, facts, calls))
      .value();
}

TEST(BlockStoreTest, OptionsThatItDoesNotSupportAreRefused) {
  const BlockStore::Facts facts = {.kind = MemoryKindId::kCuda,
                                   .device = {kDLCUDA, 0}};
  const auto create = [&](const ArenaOptions& options) {
    return Arena::Create(options, std::make_unique<PlainStore>(facts));
  };
  ArenaOptions options = StoredOptions();
  EXPECT_THAT(create(options), IsOk());
  options.wipe = true;
  EXPECT_THAT(create(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("ArenaOptions::wipe"),
                                              HasSubstr("kind 1 (CUDA)"))));
  options.wipe = false;
  for (const ArenaDebug debug : {ArenaDebug::kPoison, ArenaDebug::kProtect}) {
    options.debug = debug;
    EXPECT_THAT(create(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("ArenaOptions::debug")));
  }
}

TEST(BlockStoreTest, BlocksOfADeviceHaveNoAddressForTheCpu) {
  for (const DLDeviceType type : {kDLCPU, kDLCUDA}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto arena,
        Arena::Create(StoredOptions(),
                      std::make_unique<PlainStore>(
                          BlockStore::Facts{.device = {type, 0}})));
    TENON_ASSERT_OK_AND_ASSIGN(const Block block,
                               arena->TryAllocate(kStoredBytes));
    EXPECT_EQ(block.size(), kStoredBytes);
    EXPECT_NE(block.address(), 0u);
    if (type == kDLCPU) {
      EXPECT_EQ(block.address(), reinterpret_cast<uintptr_t>(block.data()));
      EXPECT_EQ(block.bytes().size(), kStoredBytes);
    } else {
      EXPECT_EQ(block.data(), nullptr);
      EXPECT_TRUE(block.bytes().empty());
    }
    TENON_ASSERT_OK_AND_ASSIGN(const Block next,
                               arena->TryAllocate(kStoredBytes));
    EXPECT_EQ(next.address(), block.address() + kStoredBytes);
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
    EXPECT_EQ(message.size, kStoredBytes);
  }
  EXPECT_EQ(Block().address(), 0u);
}

TEST(BlockStoreTest, TakingAndReleasingAFreeBlockCallsNothingOfIt) {
  CountingStore::Calls calls;
  const auto arena = MakeCounting(StoredOptions(), calls);
  for (int i = 0; i < 1000; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Block block,
                               arena->TryAllocate(kStoredBytes));
    if (i % 2 == 0) {
      EXPECT_THAT(block.Describe(), IsOk());
    }
  }
  EXPECT_EQ(calls.blocks, 0);
  // Each described block is released, and a new one made from time to time.
  EXPECT_LT(calls.segments, 4);
}

TEST(BlockStoreTest, ABlockThatItCannotPrepareStaysFree) {
  ArenaOptions options = StoredOptions();
  options.wipe = true;
  options.debug = ArenaDebug::kProtect;
  options.quota_bytes = kStoredBytes;
  CountingStore::Calls calls;
  const auto arena = MakeCounting(options, calls);
  ASSERT_THAT(arena->TryAllocate(kStoredBytes), IsOk());
  calls.fail_wipe = true;
  EXPECT_THAT(
      arena->TryAllocate(kStoredBytes),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("the fill failed")));
  EXPECT_EQ(arena->Use().blocks_free, 1u);
  calls.fail_wipe = false;
  calls.fail_unprotect = true;
  EXPECT_THAT(arena->TryAllocate(kStoredBytes),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("no mapping is left")));
  calls.fail_unprotect = false;
  TENON_ASSERT_OK_AND_ASSIGN(const Block block,
                             arena->TryAllocate(kStoredBytes));
  EXPECT_EQ(block.data()[0], std::byte{0});
}

// Until another deadline it would wait for a release.
TEST(BlockStoreTest, AnErrorThatIsOfNoShortageIsReturnedAtOnce) {
  CountingStore::Calls calls;
  const auto arena = MakeCounting(StoredOptions(), calls);
  calls.is_lost = true;
  const auto is_lost =
      StatusIs(absl::StatusCode::kInternal, HasSubstr("the device is lost"));
  EXPECT_THAT(arena->Allocate(kStoredBytes, Deadline::Never()), is_lost);
  EXPECT_THAT(arena->TryAllocate(kStoredBytes), is_lost);
  calls.is_lost = false;
  EXPECT_THAT(arena->Allocate(kStoredBytes, Deadline::Never()), IsOk());
}

TEST(BlockStoreTest, SegmentsAreWholeUnitsWithinTheQuota) {
  constexpr size_t kUnit = size_t{64} << 10;
  ArenaOptions options = StoredOptions();
  options.segment_bytes = 1;
  options.quota_bytes = 4 * kUnit + 1;
  CountingStore::Calls calls;
  const auto arena = MakeCounting(
      options, calls, {.segment_unit = kUnit, .largest_segment = 2 * kUnit});
  constexpr size_t kOdd = 12 << 10;  // Five of them in a unit.
  Block blocks[7];
  for (int i = 0; i < 5; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(blocks[i], arena->TryAllocate(kOdd));
  }
  EXPECT_EQ(arena->Use().segments, 1u);
  EXPECT_EQ(arena->Use().segment_bytes, kUnit);
  TENON_ASSERT_OK_AND_ASSIGN(blocks[5], arena->TryAllocate(kOdd));
  EXPECT_EQ(arena->Use().segment_bytes, 2 * kUnit);
  // Larger than a unit.
  TENON_ASSERT_OK_AND_ASSIGN(blocks[6], arena->TryAllocate(kUnit + 1));
  EXPECT_EQ(arena->Use().segment_bytes, 4 * kUnit);
  EXPECT_THAT(arena->TryAllocate(kUnit + 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("the quota is used up")));
}

TEST(BlockStoreTest, GrowsUpToItsLargestSegment) {
  constexpr size_t kLargest = size_t{64} << 20;
  ArenaOptions options = StoredOptions();
  options.segment_bytes = size_t{32} << 20;
  CountingStore::Calls calls;
  const auto arena =
      MakeCounting(options, calls, {.largest_segment = kLargest});
  TENON_ASSERT_OK_AND_ASSIGN(const Block first, arena->TryAllocate(32 << 20));
  EXPECT_EQ(arena->Use().segment_bytes, kLargest / 2);
  TENON_ASSERT_OK_AND_ASSIGN(const Block second, arena->TryAllocate(32 << 20));
  EXPECT_EQ(arena->Use().segment_bytes, kLargest / 2 + kLargest);
}

// Work of the dead process may go on. A watchdog is ten times as long.
TEST(BlockStoreTest, BlocksThatADeadProcessHeldAreNotUsedForAWhile) {
  constexpr absl::Duration kQuarantine = absl::Milliseconds(300);
  for (const absl::Duration quarantine : {absl::ZeroDuration(), kQuarantine}) {
    ArenaOptions options = StoredOptions();
    options.quota_bytes = kStoredBytes;
    CountingStore::Calls calls;
    const auto arena = MakeCounting(options, calls, {.quarantine = quarantine});
    TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(kStoredBytes));
    const uintptr_t address = block.address();
    TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(block));
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
    const SharedObject<std::atomic<bool>> holds;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild holder,
        ForkedChild::Fork({.name = "holder"}, [&](const Reporter&) {
          TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(offer));
          TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(message));
          *holds = true;
          for (;;) pause();
        }));
    const Deadline watchdog = Deadline::After(10 * kQuarantine);
    while (!*holds) ASSERT_FALSE(watchdog.has_passed());
    block.Reset();
    EXPECT_THAT(arena->TryAllocate(kStoredBytes),
                StatusIs(absl::StatusCode::kResourceExhausted));

    const absl::Time killed = absl::Now();
    holder.Kill();
    if (quarantine == kQuarantine) {
      EXPECT_THAT(
          arena->TryAllocate(kStoredBytes),
          StatusIs(
              absl::StatusCode::kResourceExhausted,
              HasSubstr("1 blocks, 4096 bytes (4.0 KiB), are held back for "
                        "300ms after the end of a process")));
      EXPECT_THAT(arena->Allocate(kStoredBytes,
                                  Deadline::After(absl::Milliseconds(20))),
                  StatusIs(absl::StatusCode::kDeadlineExceeded));
      EXPECT_EQ(arena->Use().blocks_quarantined, 1u);
      EXPECT_THAT(arena->Trim(), IsOkAndHolds(0u));
    }
    EXPECT_THAT(arena->Allocate(kStoredBytes, watchdog), IsOk());
    EXPECT_GE(absl::Now() - killed, quarantine);
    TENON_ASSERT_OK_AND_ASSIGN(block, arena->TryAllocate(kStoredBytes));
    EXPECT_EQ(block.address(), address);
  }
}

// A smaller one is tried as long as it is smaller to the store.
TEST(BlockStoreTest, WhereMemoryIsShortASmallerSegmentIsMadeInUnits) {
  constexpr size_t kUnit = size_t{64} << 10;
  ArenaOptions options = StoredOptions();
  options.segment_bytes = 4 * kUnit;
  CountingStore::Calls calls = {.most_bytes = kUnit};
  const auto arena = MakeCounting(options, calls, {.segment_unit = kUnit});
  TENON_ASSERT_OK_AND_ASSIGN(const Block block, arena->TryAllocate(64));
  EXPECT_EQ(calls.segments, 3);
  EXPECT_EQ(arena->Use().segment_bytes, kUnit);

  calls = {.most_bytes = 0};
  const auto none = MakeCounting(options, calls, {.segment_unit = kUnit});
  EXPECT_THAT(none->TryAllocate(64),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("the device is full")));
  // 4, 2 and 1 units, and once more after reclaiming.
  EXPECT_LE(calls.segments, 6);
}

}  // namespace
}  // namespace tenon
