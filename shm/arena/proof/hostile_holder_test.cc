// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process that attaches to an arena can send its owner any message. Each
// malformed one is rejected, and the owner continues.

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kBlocks = ColumnLayout::kCellsAlignment;
constexpr size_t kQuota = 16 * 4096;
constexpr auto kFileDescriptor = SharingStrategy::kFileDescriptor;

class HostileHolderTest : public testing::Test {
 protected:
  void SetUp() override {
    // So that there are blocks to hold, and cells to be reserved.
    block_ = arena_->TryAllocate(4096).value();
    offer_ = arena_->Offer(block_).value();
  }

  // Checks the owner afterwards: all blocks that it had released can be reused.
  void ExpectOwnerGoesOn() {
    for (int round = 0; round < 3; ++round) {
      std::vector<Block> blocks;
      for (int i = 0; i < 15; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(blocks.emplace_back(),
                                   arena_->TryAllocate(4096));
        EXPECT_THAT(blocks.back().Describe(), IsOk());
      }
    }
  }

  // Stays: with its lease the attachment would end.
  TestAttach& NewAttach() {
    return attaches_.emplace_back(arena_->id(), kBlocks, &column_);
  }
  int inbox() const { return offer_.fds[ArenaOfferFacts::kInbox]; }

  bool IsRefused(const TestAttach& attach) {
    EXPECT_TRUE(attach.Send(inbox()));
    return LastWasRefused();
  }
  bool LastWasRefused() {
    const ArenaUse before = arena_->Use();
    const size_t fds = CountOpenFds();
    EXPECT_THAT(arena_->Holders(), IsOk());  // Receives from the inbox.
    const ArenaUse after = arena_->Use();
    EXPECT_EQ(after.attached + after.refused,
              before.attached + before.refused + 1);
    const bool refused = after.refused > before.refused;
    if (refused) {
      EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
    }
    return refused;
  }
  // With `fd` at the position of a valid descriptor.
  bool IsRefusedWith(size_t place, int fd) {
    TestAttach& attach = NewAttach();
    attach.fds[place] = fd;
    return IsRefused(attach);
  }

  const std::shared_ptr<Arena> arena_ =
      CreateArena({.name = "victim",
                   .segment = {.strategy = kFileDescriptor},
                   .quota_bytes = kQuota,
                   .max_blocks = kBlocks})
          .value();
  Block block_;
  ArenaOffer offer_;
  const TestColumn column_;
  std::deque<TestAttach> attaches_;
};

constexpr size_t kColumnPlace = AttachMessage::kColumn;
constexpr size_t kProcessPlace = AttachMessage::kProcess;

TEST_F(HostileHolderTest, GoodOneIsAttached) {
  EXPECT_FALSE(IsRefused(NewAttach()));
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, ColumnsThatLackASealAreRefused) {
  for (const int seal :
       {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL}) {
    const TestColumn column({.seals = kColumnSeals & ~seal});
    EXPECT_TRUE(IsRefusedWith(kColumnPlace, column.fd())) << seal;
  }
  const TestColumn unsealed({.seals = 0});
  EXPECT_TRUE(IsRefusedWith(kColumnPlace, unsealed.fd()));
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, ColumnsOfAWrongSizeAreRefused) {
  const size_t needed = ColumnLayout::CellAt(kBlocks);
  for (const size_t bytes :
       {size_t{1}, size_t{4096}, ColumnLayout::kCellsAt, needed - 1}) {
    const TestColumn column({.bytes = bytes});
    EXPECT_TRUE(IsRefusedWith(kColumnPlace, column.fd())) << bytes;
  }
  // A column that fits the cells is large enough.
  const TestColumn exact({.bytes = needed});
  EXPECT_FALSE(IsRefusedWith(kColumnPlace, exact.fd()));
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, HeadersOfSomethingElseAreRefused) {
  const TestColumn other_magic({.magic = 1});
  EXPECT_TRUE(IsRefusedWith(kColumnPlace, other_magic.fd()));
  for (const uint64_t version : {uint64_t{1}, ColumnLayout::Version() + 1ul}) {
    const TestColumn column({.version = version});
    EXPECT_TRUE(IsRefusedWith(kColumnPlace, column.fd()));
  }
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, WhatIsNoMemoryIsRefusedAsAColumn) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const UniqueFd read_end(pipe_fds[0]);
  const UniqueFd write_end(pipe_fds[1]);
  const char* tmp = getenv("TEST_TMPDIR");
  std::string path =
      absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/disk.XXXXXX");
  const UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(ftruncate(file.get(), ColumnLayout::kBytes), 0);
  const UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  const UniqueFd directory(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const int fd : {read_end.get(), write_end.get(), file.get(),
                       device.get(), directory.get(), inbox()}) {
    EXPECT_TRUE(IsRefusedWith(kColumnPlace, fd)) << fd;
  }
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, ColumnThatCannotBeReservedIsRefused) {
  const UniqueFd read_only = ReopenReadOnly(column_.fd());
  ASSERT_TRUE(read_only.valid());
  EXPECT_TRUE(IsRefusedWith(kColumnPlace, read_only.get()));
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, WhatIsNoProcessIsRefusedAsOne) {
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  for (const int fd : {event.get(), column_.fd(), inbox()}) {
    EXPECT_TRUE(IsRefusedWith(kProcessPlace, fd)) << fd;
  }
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, WhatIsNoLocalStreamIsRefusedAsALease) {
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  const UniqueFd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const int fd : {event.get(), column_.fd(), inbox(), tcp.get()}) {
    EXPECT_TRUE(IsRefusedWith(AttachMessage::kLease, fd)) << fd;
  }
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, WrongNumbersInTheMessageAreRefused) {
  const auto refused = [&](auto change) {
    TestAttach& attach = NewAttach();
    change(attach.message);
    return IsRefused(attach);
  };
  using M = AttachMessage;
  EXPECT_TRUE(refused([](M& m) { m.magic ^= 1; }));
  EXPECT_TRUE(refused([](M& m) { m.arena.low ^= 1; }));
  for (const uint64_t version : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    EXPECT_TRUE(refused([&](M& m) { m.version = version; }));
  }
  for (const uint64_t cells :
       {uint64_t{0}, kBlocks - 1, kBlocks + 1, 2 * kBlocks, UINT64_MAX}) {
    EXPECT_TRUE(refused([&](M& m) { m.cells = cells; })) << cells;
  }
  for (const uint64_t first :
       {uint64_t{1}, uint64_t{512}, kBlocks - 1, ColumnLayout::kCells,
        ColumnLayout::kCells - kBlocks + 1, uint64_t{1} << 61,
        (uint64_t{1} << 61) - kBlocks, UINT64_MAX, UINT64_MAX - kBlocks + 1}) {
    EXPECT_TRUE(refused([&](M& m) { m.first_cell = first; })) << first;
  }
  // The last possible range.
  EXPECT_FALSE(
      refused([](M& m) { m.first_cell = ColumnLayout::kCells - kBlocks; }));
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, PacketsOfAnotherSizeAreRefused) {
  const TestAttach& attach = NewAttach();
  std::string bytes(reinterpret_cast<const char*>(&attach.message),
                    sizeof(attach.message));
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_TRUE(SendPacket(inbox(), bytes.substr(0, size), attach.fds));
    EXPECT_TRUE(LastWasRefused()) << size;
  }
  for (const size_t more : {1, 8, 5000}) {
    ASSERT_TRUE(
        SendPacket(inbox(), bytes + std::string(more, 'x'), attach.fds));
    EXPECT_TRUE(LastWasRefused()) << more;
  }
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, TooFewDescriptorsAreRefusedAndTooManyClosed) {
  for (const size_t count : {0, 1, 2}) {
    TestAttach& attach = NewAttach();
    attach.fds.resize(count);
    EXPECT_TRUE(IsRefused(attach)) << count;
  }
  for (const size_t count : {4, 253}) {  // 253 is all that one packet carries.
    TestAttach& attach = NewAttach();
    attach.fds.resize(count, column_.fd());
    const size_t before = CountOpenFds();
    EXPECT_FALSE(IsRefused(attach)) << count;
    EXPECT_EQ(CountOpenFds(), before + AttachMessage::kFds);
    TestAttach& faulty = NewAttach();
    faulty.fds.resize(count, column_.fd());
    faulty.fds[kProcessPlace] = column_.fd();
    EXPECT_TRUE(IsRefused(faulty)) << count;
  }
  ExpectOwnerGoesOn();
}

TEST_F(HostileHolderTest, NameAndIdAreTheHoldersWord) {
  // Not zero-terminated, and not printable.
  const TestColumn column({.name = std::string(40, '\x1b')});
  column.words()[0] = LeaseCell::kHeld;
  ASSERT_FALSE(IsRefusedWith(kColumnPlace, column.fd()));
  TENON_ASSERT_OK_AND_ASSIGN(const auto holders, arena_->Holders());
  ASSERT_EQ(holders.size(), 2u);
  for (const HolderUse& holder : holders) {
    if (holder.column.is_zero()) continue;
    EXPECT_EQ(holder.name, std::string(40, '?'));
    EXPECT_EQ(holder.column, column.id());
  }
}

TEST_F(HostileHolderTest, CellsOfAnyValueAreHeldOrNot) {
  ASSERT_FALSE(IsRefused(NewAttach()));
  EXPECT_THAT(block_.Describe(), IsOk());
  block_.Reset();
  for (const uint64_t cell : {uint64_t{1}, uint64_t{0xffffffff}, UINT64_MAX}) {
    for (uint64_t b = 0; b < 16; ++b) column_.words()[b] = cell;
    std::vector<Block> blocks;
    for (;;) {
      auto block = arena_->TryAllocate(4096);
      if (!block.ok()) {
        EXPECT_THAT(block, StatusIs(absl::StatusCode::kResourceExhausted,
                                    AllOf(HasSubstr("'test_column' (running)"),
                                          HasSubstr("quota"))));
        break;
      }
      EXPECT_THAT(block->Describe(), IsOk());
      blocks.push_back(*std::move(block));
    }
    EXPECT_LE(blocks.size(), 16u);
  }
  for (const uint64_t cell : {uint64_t{1} << 32, UINT64_MAX << 32}) {
    for (uint64_t b = 0; b < 16; ++b) column_.words()[b] = cell;
    ExpectOwnerGoesOn();
  }
}

// A process releases more often than it claimed, which harms only itself: the
// block seems to be held until it detaches or dies.
TEST_F(HostileHolderTest, ReleasingTooOftenKeepsTheBlockAndNothingElse) {
  const TestAttach& attach = NewAttach();
  ASSERT_FALSE(IsRefused(attach));
  EXPECT_FALSE(Lease<>::Release(column_.cells()[0]));
  EXPECT_EQ(LeaseCell::Held(column_.words()[0]), 0u);
  column_.words()[0].fetch_sub(1);  // As in a faulty program.
  EXPECT_THAT(block_.Describe(), IsOk());
  block_.Reset();
  TENON_ASSERT_OK_AND_ASSIGN(auto holders, arena_->Holders());
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].blocks, 1u);
  ExpectOwnerGoesOn();
  attach.End();
  TENON_ASSERT_OK_AND_ASSIGN(holders, arena_->Holders());
  EXPECT_TRUE(holders.empty());
}

}  // namespace
}  // namespace tenon
