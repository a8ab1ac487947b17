// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/reclaimer.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/block_shelves.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/ledger/attach_message.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using enum absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr RandomId kArena = {1, 2};
constexpr size_t kBlockBytes = 64;
constexpr size_t kClass = SizeClassOf(kBlockBytes);
constexpr size_t kBatch = 64;
constexpr size_t kBlocks = 3 * kBatch;

// An arena's parts, and one attached process (this one) with a column.
class ReclaimerTest : public testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(OwnedSegment * made, segments_.Add(kBlockBytes));
    ASSERT_EQ(made->listed.block_count, kBlocks);
    shelves_.PutFree(kClass, {shelves_.AddAndTake(*made)});
    ASSERT_TRUE(holder_.Send(attachments_.socket()));
  }

  // All blocks, described and released in the order of their numbers.
  void ReleaseAll() {
    while (OwnedBlock* block = shelves_.TakeFree(kClass)) {
      block->exposed.store(true);
      block->references.store(0);
      shelves_.Release(*block);
    }
  }
  // `count` further ones.
  void Release(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      OwnedBlock* block = shelves_.TakeFree(kClass);
      ASSERT_NE(block, nullptr);
      block->exposed.store(true);
      block->references.store(0);
      shelves_.Release(*block);
    }
  }
  // An attachment of this process with the pidfd of another one.
  void SendRefused(const TestAttach& attach) const {
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd other, PidFd::Open(1));
    TestAttach wrong(kArena, 8192, &column_);
    wrong.fds[AttachMessage::kProcess] = other.fd();
    wrong.fds[AttachMessage::kLease] = attach.owners_lease.get();
    ASSERT_TRUE(wrong.Send(attachments_.socket()));
  }
  size_t CountWithheld() {
    ArenaUse use;
    reclaimer_.Report(use);
    return use.blocks_withheld;
  }
  void Hold(uint64_t block) {
    StdAtomics::FetchAdd(column_.cells()[block],
                         LeaseCell::kClaim + LeaseCell::kHeld,
                         std::memory_order_seq_cst);
  }
  size_t CountReleased() { return shelves_.CountReleased(kClass); }

  const ArenaOptions options_ = {
      .segment = {.strategy = SharingStrategy::kFileDescriptor},
      .quota_bytes_per_holder = 4 * kBlockBytes,
      .max_blocks = 8192,
      .segment_bytes = kBlocks * kBlockBytes};
  MappedStore store_{options_};
  ArenaTable table_ =
      ArenaTable::Create({.arena = kArena, .max_blocks = 8192}).value();
  Attachments attachments_ = Attachments::Create(kArena, 8192).value();
  SegmentTable segments_{options_, store_, table_, attachments_};
  BlockShelves shelves_{options_, store_, table_};
  Reclaimer reclaimer_{options_, table_, attachments_, segments_, shelves_};
  const TestColumn column_;
  const TestAttach holder_{kArena, 8192, &column_};
};

TEST_F(ReclaimerTest, PollingReceivesAttachments) {
  reclaimer_.PollInbox();
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

TEST_F(ReclaimerTest, SomeIsTheFirstBatchWithAFreeBlock) {
  ReleaseAll();
  for (uint64_t i = 0; i < kBatch; ++i) Hold(i);
  Hold(kBatch + 1);
  reclaimer_.ReclaimSome(kClass);
  EXPECT_EQ(CountReleased(), kBlocks - kBatch + 1);
  // The third batch was not tested, and is the oldest now.
  std::vector<OwnedBlock*> batch;
  shelves_.TakeReleased(kClass, 1, batch);
  EXPECT_EQ(batch[0]->number, 2 * kBatch);
}

TEST_F(ReclaimerTest, AllIsAllThatIsNotHeld) {
  ReleaseAll();
  Hold(5);
  reclaimer_.ReclaimAll();
  EXPECT_EQ(CountReleased(), 1u);
  ArenaUse use;
  reclaimer_.Report(use);
  EXPECT_EQ(use.attached, 1u);
  EXPECT_EQ(use.failures, 2u);  // In both tests of its batch.
}

TEST_F(ReclaimerTest, WhatADetachedProcessHeldIsReclaimed) {
  ReleaseAll();
  for (uint64_t i = 0; i < kBlocks; ++i) Hold(i);
  reclaimer_.ReclaimSome(kClass);
  EXPECT_EQ(CountReleased(), kBlocks);
  holder_.End();
  reclaimer_.ReclaimSome(kClass);
  EXPECT_EQ(CountReleased(), kBlocks - kBatch);
}

// Those that were handed out before the refusal, and no others.
TEST_F(ReclaimerTest, WhatARefusedProcessMayHoldIsWithheld) {
  attachments_.PublishRefused(table_.refused());
  const TestAttach first{kArena, 8192, &column_};
  const TestAttach second{kArena, 8192, &column_};
  Release(kBatch);
  SendRefused(first);
  reclaimer_.ReclaimSome(kClass);
  EXPECT_EQ(CountReleased(), 0u);
  EXPECT_EQ(CountWithheld(), kBatch);
  for (int i = 0; i < 10; ++i) {
    Release(2 * kBatch);
    reclaimer_.ReclaimAll();
    EXPECT_EQ(CountReleased(), 0u);
    EXPECT_EQ(CountWithheld(), kBatch);
  }
  EXPECT_THAT(reclaimer_.DescribeShortage(),
              AllOf(HasSubstr("64 blocks, 4096 bytes (4.0 KiB), are withheld"),
                    HasSubstr(absl::StrCat("pid ", getpid(), " was refused")),
                    Not(HasSubstr("no block can be reclaimed"))));
  // The process is refused again, and may hold blocks that were handed out in
  // between.
  Release(kBatch);
  SendRefused(second);
  reclaimer_.ReclaimAll();
  EXPECT_EQ(CountWithheld(), 2 * kBatch);
  second.End();
  reclaimer_.ReclaimSome(kClass);
  EXPECT_EQ(CountReleased(), 0u);
  EXPECT_EQ(CountWithheld(), kBatch);
  first.End();
  reclaimer_.ReclaimSome(kClass);
  EXPECT_EQ(CountReleased(), 0u);
  EXPECT_EQ(CountWithheld(), 0u);
  Release(kBlocks);
}

// A reclaimer for memory to which a process may write for a while after its
// end. A watchdog is ten times as long.
class QuarantineTest : public ReclaimerTest {
 protected:
  static constexpr absl::Duration kLength = absl::Milliseconds(200);

  // Reclaims until `blocks` are neither released nor quarantined.
  void ReclaimAllButReleased(size_t blocks) {
    const Deadline watchdog = Deadline::After(10 * kLength);
    while (CountQuarantined() > 0) {
      ASSERT_FALSE(watchdog.has_passed());
      usleep(1000);
      slow_.ReclaimSome(kClass);
    }
    slow_.ReclaimAll();  // Some may have been ready since.
    EXPECT_EQ(CountReleased(), blocks);
  }
  size_t CountQuarantined() {
    ArenaUse use;
    slow_.Report(use);
    return use.blocks_quarantined;
  }

  Reclaimer slow_{options_, table_, attachments_, segments_, shelves_, kLength};
};

TEST_F(QuarantineTest, BlocksThatAnEndedProcessHeldRestAndNoOthers) {
  ReleaseAll();
  Hold(3);
  Hold(4);
  slow_.ReclaimAll();
  EXPECT_EQ(CountReleased(), 2u);
  const absl::Time ended = absl::Now();
  holder_.End();
  slow_.ReclaimAll();
  EXPECT_EQ(CountReleased(), 0u);
  EXPECT_EQ(CountQuarantined(), 2u);
  EXPECT_THAT(slow_.DescribeShortage(),
              HasSubstr("2 blocks, 128 bytes, are held back for 200ms"));
  // Other blocks are used and reclaimed meanwhile.
  Release(kBatch);
  slow_.ReclaimAll();
  EXPECT_EQ(CountReleased(), 0u);
  EXPECT_GE(CountQuarantined(), 2u);
  ReclaimAllButReleased(0);
  EXPECT_GE(absl::Now() - ended, kLength);
  // All are on their shelf.
  Release(kBlocks);
}

// Though no call needs a block, and so none is put on its shelf.
TEST_F(QuarantineTest, ReportsCountABlockOnlyWhileItMayNotBeUsed) {
  ReleaseAll();
  Hold(3);
  holder_.End();
  slow_.ReclaimAll();
  EXPECT_EQ(CountQuarantined(), 1u);
  absl::SleepFor(kLength);
  EXPECT_EQ(CountQuarantined(), 0u);
  EXPECT_THAT(slow_.DescribeShortage(), Not(HasSubstr("held back")));
}

// The owner releases it after the end of the process.
TEST_F(QuarantineTest, ABlockThatIsReleasedLaterRestsAsWell) {
  OwnedBlock* const block = shelves_.TakeFree(kClass);
  Hold(block->number);
  slow_.ReclaimAll();
  holder_.End();
  slow_.ReclaimAll();
  EXPECT_EQ(CountQuarantined(), 0u);
  block->exposed.store(true);
  block->references.store(0);
  shelves_.Release(*block);
  slow_.ReclaimAll();
  EXPECT_EQ(CountQuarantined(), 1u);
  ReclaimAllButReleased(0);
}

// Its cells are not read, so it may have held any block.
TEST_F(QuarantineTest, AllBlocksRestAfterTheEndOfARefusedProcess) {
  attachments_.PublishRefused(table_.refused());
  const TestAttach refused{kArena, 8192, &column_};
  Release(kBatch);
  SendRefused(refused);
  slow_.ReclaimAll();
  EXPECT_EQ(CountQuarantined(), 0u);
  refused.End();
  slow_.ReclaimAll();
  EXPECT_EQ(CountQuarantined(), kBatch);
  ReclaimAllButReleased(0);
}

TEST_F(ReclaimerTest, HoldersAreThisProcessAndTheAttached) {
  shelves_.TakeFree(kClass);
  Hold(7);
  Hold(8);
  const std::vector<HolderUse> holders = reclaimer_.Holders();
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].column, column_.id());
  EXPECT_EQ(holders[0].bytes, 2 * kBlockBytes);
  EXPECT_EQ(holders[1].column, RandomId{});
  EXPECT_EQ(holders[1].blocks, 1u);
  EXPECT_THAT(reclaimer_.DescribeShortage(), HasSubstr("2 blocks, 128 bytes"));
}

TEST_F(ReclaimerTest, CellsAreReadAgainWhenTheCreditIsUsedUp) {
  Hold(0);
  EXPECT_THAT(reclaimer_.CheckHolder(column_.id(), 2 * kBlockBytes), IsOk());
  // Not claimed: the bytes that were sent do not count any more.
  EXPECT_THAT(reclaimer_.CheckHolder(column_.id(), 3 * kBlockBytes), IsOk());
  EXPECT_THAT(reclaimer_.CheckHolder(column_.id(), 4 * kBlockBytes),
              StatusIs(kResourceExhausted, HasSubstr("holds 64 bytes")));
  EXPECT_THAT(reclaimer_.CheckHolder(RandomId{9, 9}, 5 * kBlockBytes),
              StatusIs(kResourceExhausted));
}

}  // namespace
}  // namespace tenon
