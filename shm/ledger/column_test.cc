// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/column.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr uint64_t kUnit = ColumnLayout::kCellsAlignment;
constexpr RandomId kArena = {1, 2};

// As other processes read it.
template <typename T>
T ReadAt(const Column& column, size_t offset) {
  T value;
  EXPECT_EQ(
      pread(column.fd(), &value, sizeof(value), static_cast<off_t>(offset)),
      static_cast<ssize_t>(sizeof(value)));
  return value;
}

ColumnDirectoryEntry EntryOf(const Column& column, const ColumnRange& range) {
  return ReadAt<ColumnDirectoryEntry>(
      column, sizeof(ColumnHeader) +
                  range.directory_entry * sizeof(ColumnDirectoryEntry));
}

struct LeaseEnds {
  UniqueFd holders;
  UniqueFd owners;
};
LeaseEnds MakeLease() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class ColumnTest : public testing::Test {
 protected:
  const std::shared_ptr<Column> column_ = Column::OfThisProcess().value();
};

TEST_F(ColumnTest, ThereIsOneAsLongAsItIsUsed) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto again, Column::OfThisProcess());
  EXPECT_EQ(again, column_);
}

TEST(ColumnLifeTest, AfterTheLastUseThereIsANewOne) {
  const size_t fds = CountOpenFds();
  auto column = Column::OfThisProcess().value();
  const RandomId id = column->id();
  EXPECT_EQ(CountOpenFds(), fds + 1);
  column.reset();
  EXPECT_EQ(CountOpenFds(), fds);
  EXPECT_NE(Column::OfThisProcess().value()->id(), id);
}

TEST_F(ColumnTest, SaysWhoseItIs) {
  const auto header = ReadAt<ColumnHeader>(*column_, 0);
  EXPECT_EQ(header.magic, ColumnLayout::kMagic);
  EXPECT_EQ(header.version, ColumnLayout::Version());
  EXPECT_EQ(header.id, column_->id());
  EXPECT_EQ(header.pid, static_cast<uint64_t>(getpid()));
  EXPECT_STREQ(header.name, program_invocation_short_name);
  EXPECT_EQ(fcntl(column_->fd(), F_GET_SEALS) & kColumnSeals, kColumnSeals);
}

TEST_F(ColumnTest, RangesAreApartAndBeginAtPages) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto a, column_->Enter(kArena, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const auto b, column_->Enter({3, 4}, kUnit + 1));
  TENON_ASSERT_OK_AND_ASSIGN(const auto c, column_->Enter({5, 6}, kUnit));
  EXPECT_EQ(b.first_cell, a.first_cell + kUnit);
  EXPECT_EQ(c.first_cell, b.first_cell + 2 * kUnit);
  for (const ColumnRange& range : {a, b, c}) {
    EXPECT_EQ(ColumnLayout::CellAt(range.first_cell) % 4096, 0u);
    column_->Leave(range, UniqueFd());
  }
}

TEST_F(ColumnTest, DirectoryListsWhatIsEntered) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto range, column_->Enter(kArena, 100));
  ColumnDirectoryEntry entry = EntryOf(*column_, range);
  EXPECT_EQ(entry.used, 1u);
  EXPECT_EQ(entry.arena, kArena);
  EXPECT_EQ(entry.first_cell, range.first_cell);
  EXPECT_EQ(entry.cells, 100u);
  column_->Leave(range, UniqueFd());
  EXPECT_EQ(EntryOf(*column_, range).used, 0u);
}

TEST_F(ColumnTest, CellsThatAreReservedCanBeClaimed) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto range, column_->Enter(kArena, kUnit));
  ASSERT_THAT(column_->Reserve(range, 1000, 24), IsOk());
  const SharedWord<uint64_t> generation{5};
  EXPECT_TRUE(Lease<>::Claim(range.cells[1000], generation, 5));
  EXPECT_FALSE(Lease<>::Claim(range.cells[1023], generation, 6));
  EXPECT_EQ(
      ReadAt<uint64_t>(*column_, ColumnLayout::CellAt(range.first_cell + 1000)),
      LeaseProtocol::kClaimStep);
  EXPECT_TRUE(Lease<>::Release(range.cells[1000]));
  EXPECT_FALSE(Lease<>::Release(range.cells[1000]));
  EXPECT_FALSE(Lease<>::Release(range.cells[1001]));
  column_->Leave(range, UniqueFd());
}

TEST_F(ColumnTest, WithoutLeaseTheCellsAreFreeAtOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto first, column_->Enter(kArena, 10));
  column_->Leave(first, UniqueFd());
  TENON_ASSERT_OK_AND_ASSIGN(const auto second, column_->Enter({3, 4}, 10));
  EXPECT_EQ(second.first_cell, first.first_cell);
  column_->Leave(second, UniqueFd());
}

TEST_F(ColumnTest, CellsStayTakenUntilTheOwnerHasSaidSo) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto first, column_->Enter(kArena, 10));
  LeaseEnds lease = MakeLease();
  column_->Leave(first, std::move(lease.holders));
  TENON_ASSERT_OK_AND_ASSIGN(const auto second, column_->Enter(kArena, 10));
  EXPECT_NE(second.first_cell, first.first_cell);
  ASSERT_EQ(write(lease.owners.get(), "", 1), 1);
  TENON_ASSERT_OK_AND_ASSIGN(const auto third, column_->Enter(kArena, 10));
  EXPECT_EQ(third.first_cell, first.first_cell);
  column_->Leave(second, UniqueFd());
  column_->Leave(third, UniqueFd());
}

TEST_F(ColumnTest, CellsStayTakenUntilTheOwnerHasGone) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto first, column_->Enter(kArena, 10));
  LeaseEnds lease = MakeLease();
  column_->Leave(first, std::move(lease.holders));
  lease.owners.Reset();
  TENON_ASSERT_OK_AND_ASSIGN(const auto second, column_->Enter(kArena, 10));
  EXPECT_EQ(second.first_cell, first.first_cell);
  column_->Leave(second, UniqueFd());
}

// A process that has made an inbox, of which this one has the sending end.
struct InboxOwner {
  ForkedChild process;
  UniqueFd inbox;
};
InboxOwner StartInboxOwner() {
  int carrier[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, carrier), 0);
  const UniqueFd here(carrier[0]), there(carrier[1]);
  auto process = ForkedChild::Fork({.name = "owner"}, [&](const Reporter&) {
    int inbox[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, inbox), 0);
    ASSERT_TRUE(SendPacket(there.get(), "", {inbox[1]}));
    for (;;) pause();
  });
  ReceivedPacket packet = ReceivePacket(here.get());
  return {*std::move(process), std::move(packet.fds.at(0))};
}

// Whose end of the lease a forked child may keep open.
TEST_F(ColumnTest, CellsStayTakenUntilTheOwnerHasEnded) {
  for (const bool at_the_limit : {false, true}) {
    InboxOwner owner = StartInboxOwner();
    TENON_ASSERT_OK_AND_ASSIGN(const auto first, column_->Enter(kArena, 10));
    LeaseEnds lease = MakeLease();
    auto until_free = std::make_shared<int>();
    const std::weak_ptr<int> is_taken = until_free;
    {
      std::optional<FewFds> few;
      if (at_the_limit) few.emplace();
      column_->Leave(first, std::move(lease.holders), std::move(owner.inbox),
                     std::move(until_free));
    }
    column_->FreeDropped();
    EXPECT_FALSE(is_taken.expired());
    owner.process.Kill();
    column_->FreeDropped();
    EXPECT_TRUE(is_taken.expired());
    TENON_ASSERT_OK_AND_ASSIGN(const auto second, column_->Enter(kArena, 10));
    EXPECT_EQ(second.first_cell, first.first_cell);
    column_->Leave(second, UniqueFd());
  }
}

TEST_F(ColumnTest, MoreArenasThanItCanListAreRefused) {
  std::vector<ColumnRange> ranges;
  for (uint64_t i = 0; i < ColumnLayout::kMaxArenas; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(ranges.emplace_back(),
                               column_->Enter({1, i}, 1));
  }
  EXPECT_THAT(column_->Enter(kArena, 1),
              StatusIs(kResourceExhausted, HasSubstr("512 arenas")));
  column_->Leave(ranges.back(), UniqueFd());
  TENON_ASSERT_OK_AND_ASSIGN(ranges.back(), column_->Enter(kArena, 1));
  for (const ColumnRange& range : ranges) column_->Leave(range, UniqueFd());
}

TEST_F(ColumnTest, MoreCellsThanItHasAreRefused) {
  for (const uint64_t cells : {ColumnLayout::kCells + 1, UINT64_MAX}) {
    EXPECT_THAT(column_->Enter(kArena, cells),
                StatusIs(kResourceExhausted, HasSubstr(absl::StrCat(cells))));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const auto all,
                             column_->Enter(kArena, ColumnLayout::kCells));
  EXPECT_THAT(column_->Enter(kArena, 1),
              StatusIs(kResourceExhausted,
                       AllOf(HasSubstr("free cells"),
                             HasSubstr(absl::StrCat(ColumnLayout::kCells)))));
  column_->Leave(all, UniqueFd());
  TENON_ASSERT_OK_AND_ASSIGN(const auto one, column_->Enter(kArena, 1));
  column_->Leave(one, UniqueFd());
}

TEST_F(ColumnTest, ForkedChildHasAColumnOfItsOwn) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto range, column_->Enter(kArena, 1));
  ASSERT_THAT(column_->Reserve(range, 0, 1), IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_EQ(msync(range.cells, 4096, MS_ASYNC), -1);
    EXPECT_EQ(errno, ENOMEM);
    TENON_ASSERT_OK_AND_ASSIGN(const auto own, Column::OfThisProcess());
    EXPECT_NE(own->id(), column_->id());
    EXPECT_EQ(ReadAt<ColumnHeader>(*own, 0).pid,
              static_cast<uint64_t>(getpid()));
    EXPECT_THAT(own->Enter(kArena, 1), IsOk());
  }));
  column_->Leave(range, UniqueFd());
}

}  // namespace
}  // namespace tenon
