// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// An arena's owner can offer anything to a process that attaches. That process
// gets errors, or bytes inside its mappings.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/unix_socket.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using Layout = ArenaTableLayout;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr uint64_t kBlocks = 8192;
constexpr size_t kBlockBytes = 4096;
constexpr uint64_t kSegmentBlocks = 16;
constexpr uint32_t kSegmentId = 3;

// An owner whose table is as the test writes it, also from forked children.
class FakeOwner {
 public:
  explicit FakeOwner(uint64_t max_blocks = kBlocks,
                     size_t bytes = Layout::Bytes(kBlocks))
      : memory_({.bytes = bytes}),
        segment_(Segment::CreateOwnerWritten(
                     kSegmentBlocks * kBlockBytes,
                     {.strategy = SharingStrategy::kFileDescriptor})
                     .value()) {
    ArenaHeader header;
    header.arena = RandomId::New().value();
    header.max_blocks = max_blocks;
    header.kind = static_cast<uint64_t>(MemoryUnderTest());
    strcpy(header.name, "hostile");
    arena_ = header.arena;
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    inbox_.Reset(ends[0]);
    attach_end_.Reset(ends[1]);
    header.inbox_cookie = SocketCookie(attach_end_.get()).value();
    std::memcpy(memory_.data(), &header, sizeof(header));
    const ArenaSegment listed = {
        .id_and_state = uint64_t{kSegmentId} << 32 | ArenaSegment::kLive,
        .block_bytes = kBlockBytes,
        .block_count = kSegmentBlocks,
        .first_block = 32,
        .file = FileIdentity::Of(segment_.segment.fd()).value()};
    if (bytes >= Layout::kGenerationsAt) {
      std::memcpy(slot(), &listed, sizeof(listed));
    }
    std::memset(segment_.mapping.data(), 0x5a, segment_.mapping.size_bytes());
  }

  ArenaHeader* header() {
    return reinterpret_cast<ArenaHeader*>(memory_.data());
  }
  ArenaSegment* slot() {
    return reinterpret_cast<ArenaSegment*>(memory_.data() +
                                           Layout::kSegmentsAt) +
           kSegmentId;
  }
  std::atomic<uint64_t>* words(size_t offset) {
    return reinterpret_cast<std::atomic<uint64_t>*>(memory_.data() + offset);
  }
  std::atomic<uint64_t>* generations() { return words(Layout::kGenerationsAt); }
  int inbox() const { return inbox_.get(); }
  ArenaOffer Offer() const {
    return {ArenaOfferFacts{arena_, kSegmentId,
                            SharingStrategy::kFileDescriptor, ""}
                .ToBytes(),
            {memory_.fd(), attach_end_.get(), segment_.segment.fd()}};
  }
  absl::StatusOr<std::shared_ptr<AttachedArena>> AttachWith(size_t place,
                                                            int fd) const {
    ArenaOffer offer = Offer();
    offer.fds[place] = fd;
    return AttachTo(offer);
  }
  BlockDescriptor Message(uint32_t block) const {
    return {.arena = arena_,
            .segment = kSegmentId,
            .block = block,
            .generation = 0,
            .offset = 0,
            .size = kBlockBytes};
  }
  // Receives sent messages, to make room for more.
  void Drain() {
    char byte;
    while (recv(inbox_.get(), &byte, 1, MSG_DONTWAIT) >= 0) {
    }
  }

 private:
  TestColumn memory_;  // Any control memory would do.
  Segment::OwnerWritten segment_;
  RandomId arena_;
  UniqueFd inbox_;
  UniqueFd attach_end_;
};

int64_t Rounds() {
  const char* text = getenv("TENON_FLIPPER_ATTACHES");
  int64_t rounds = 3000;
  if (text != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &rounds)) << text;
  }
  return rounds;
}

TEST(HostileOwnerTest, GoodOneIsAttachedTo) {
  const FakeOwner owner;
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(owner.Offer()));
  TENON_ASSERT_OK_AND_ASSIGN(const Hold hold,
                             attached->Claim(owner.Message(47)));
  EXPECT_EQ(hold.data()[kBlockBytes - 1], std::byte{0x5a});
}

// A process offers the true table of another one, with one part replaced by its
// own: no owner would see the claims, or they would be on other memory.
TEST(HostileOwnerTest, PartsThatAreNotTheOwnersAreRefused) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena());
  TENON_ASSERT_OK_AND_ASSIGN(const Block block,
                             arena->TryAllocate(kBlockBytes));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer good, arena->Offer(block));
  const FakeOwner other;
  for (const size_t place :
       {ArenaOfferFacts::kInbox, ArenaOfferFacts::kSegment}) {
    ArenaOffer forged = good;
    if (place >= forged.fds.size()) continue;  // Found by name.
    forged.fds[place] = other.Offer().fds[place];
    EXPECT_THAT(AttachTo(forged), StatusIs(kInvalidArgument)) << place;
  }
  // Nor can they be added once the process is attached.
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(good));
  for (const size_t place :
       {ArenaOfferFacts::kTable, ArenaOfferFacts::kInbox}) {
    ArenaOffer forged = good;
    forged.fds[place] = other.Offer().fds[place];
    EXPECT_THAT(attached->Add(forged.bytes, Travel(forged.fds)),
                StatusIs(kInvalidArgument))
        << place;
  }
  EXPECT_THAT(attached->Add(good.bytes, Travel(good.fds)), IsOk());
}

// It would be closed with the socket, and might block.
TEST(HostileOwnerTest, WhatLiesInTheSocketIsFound) {
  FakeOwner owner;
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(SendPacket(owner.inbox(), "", {}));
  ASSERT_TRUE(SendPacket(owner.inbox(), "", {event.get()}));
  EXPECT_THAT(
      AttachTo(owner.Offer()),
      StatusIs(kInvalidArgument, HasSubstr("contains unread messages")));
  // And no further message can be sent into it.
  EXPECT_FALSE(SendPacket(owner.inbox(), "x", {}));
}

TEST(HostileOwnerTest, TablesThatAreNoneAreRefused) {
  const FakeOwner owner;
  const UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  const TestColumn column;
  const UniqueFd read_only = ReopenReadOnly(owner.Offer().fds[0]);
  const size_t fds = CountOpenFds();
  for (const int fd : {file.get(), device.get(), column.fd(), read_only.get(),
                       owner.inbox(), owner.Offer().fds[2]}) {
    EXPECT_FALSE(owner.AttachWith(ArenaOfferFacts::kTable, fd).ok()) << fd;
  }
  for (const int seal :
       {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL}) {
    const TestColumn unsealed({.seals = kColumnSeals & ~seal});
    EXPECT_THAT(
        owner.AttachWith(ArenaOfferFacts::kTable, unsealed.fd()),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("F_SEAL")));
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

TEST(HostileOwnerTest, TableWithoutItsWordsIsRefused) {
  for (const size_t bytes :
       {size_t{4096}, size_t{Layout::kGenerationsAt}, Layout::StatesAt(kBlocks),
        Layout::Bytes(kBlocks) - 4096}) {
    const FakeOwner owner(kBlocks, bytes);
    EXPECT_THAT(AttachTo(owner.Offer()), StatusIs(kInvalidArgument)) << bytes;
  }
}

TEST(HostileOwnerTest, AbsurdNumbersAreRefused) {
  for (const uint64_t blocks : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 60,
                                UINT64_MAX, UINT64_MAX - 8191}) {
    const FakeOwner owner(blocks);
    EXPECT_THAT(AttachTo(owner.Offer()), StatusIs(kInvalidArgument)) << blocks;
  }
  for (const uint64_t number :
       {uint64_t{0}, kBlocks + 1, uint64_t{1} << 62, UINT64_MAX}) {
    for (uint64_t ArenaSegment::*const field :
         {&ArenaSegment::block_bytes, &ArenaSegment::block_count,
          &ArenaSegment::first_block}) {
      if (number == 0 && field == &ArenaSegment::first_block) continue;
      FakeOwner owner;
      owner.slot()->*field = number;
      EXPECT_FALSE(AttachTo(owner.Offer()).ok()) << number;
    }
  }
}

TEST(HostileOwnerTest, SegmentSmallerThanListedIsRefused) {
  FakeOwner owner;
  owner.slot()->block_count = kSegmentBlocks + 1;
  EXPECT_THAT(AttachTo(owner.Offer()),
              StatusIs(kInvalidArgument, HasSubstr("17 blocks of 4096")));
  owner.slot()->block_count = kSegmentBlocks;
  owner.slot()->block_bytes = kBlockBytes + 1;
  EXPECT_THAT(AttachTo(owner.Offer()), StatusIs(kInvalidArgument));
}

TEST(HostileOwnerTest, SegmentsThatAreNoneAreRefused) {
  const FakeOwner owner;
  const UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const TestColumn unsealed({.bytes = 1 << 16, .seals = 0});
  for (const int fd : {file.get(), unsealed.fd(), owner.inbox()}) {
    EXPECT_FALSE(owner.AttachWith(ArenaOfferFacts::kSegment, fd).ok()) << fd;
  }
  FakeOwner liar;
  liar.header()->shared_writable = 1;  // But the segment is not.
  EXPECT_FALSE(AttachTo(liar.Offer()).ok());
}

TEST(HostileOwnerTest, InboxesThatAreNoneAreRefused) {
  const FakeOwner owner;
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const UniqueFd read_end(pipe_fds[0]);
  const UniqueFd write_end(pipe_fds[1]);
  const UniqueFd stream(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd datagram(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const int fd : {read_end.get(), write_end.get(), stream.get(),
                       datagram.get(), owner.Offer().fds[0]}) {
    EXPECT_THAT(owner.AttachWith(ArenaOfferFacts::kInbox, fd),
                StatusIs(kInvalidArgument, HasSubstr("socket")));
  }
  const UniqueFd nobody(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_THAT(owner.AttachWith(ArenaOfferFacts::kInbox, nobody.get()),
              StatusIs(kInvalidArgument, HasSubstr("is not the inbox")));
}

TEST(HostileOwnerTest, InboxThatNobodyReadsIsAnErrorAndNoWait) {
  const FakeOwner owner;
  while (SendPacket(owner.Offer().fds[1], "x", {})) {
  }
  const size_t fds = CountOpenFds();
  EXPECT_THAT(AttachTo(owner.Offer()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("inbox of the arena is full")));
  EXPECT_EQ(CountOpenFds(), fds);
}

TEST(HostileOwnerTest, PartsOfTwoArenasAreRefused) {
  const FakeOwner one;
  const FakeOwner two;
  EXPECT_THAT(one.AttachWith(ArenaOfferFacts::kTable, two.Offer().fds[0]),
              StatusIs(kInvalidArgument, HasSubstr("another arena")));
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(one.Offer()));
  EXPECT_THAT(attached->Add(two.Offer().bytes, Travel(two.Offer().fds)),
              StatusIs(kInvalidArgument, HasSubstr("another arena")));
  EXPECT_THAT(attached->Claim(two.Message(32)),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(HostileOwnerTest, ArenasThatFillTheColumnEndInAnErrorForTheLast) {
  std::vector<std::shared_ptr<AttachedArena>> attached;
  absl::Status last;
  for (int i = 0; i < 100 && last.ok(); ++i) {
    const FakeOwner owner(Layout::kMaxBlocks,
                          Layout::Bytes(Layout::kMaxBlocks));
    auto arena = AttachTo(owner.Offer());
    if (arena.ok()) attached.push_back(*std::move(arena));
    last = arena.status();
  }
  EXPECT_THAT(last, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("free cells")));
  attached.clear();
  EXPECT_THAT(AttachTo(FakeOwner().Offer()), IsOk());
}

// The generations change: a claim succeeds or fails, and holds stay consistent.
TEST(HostileOwnerTest, GenerationsThatMoveAreErrorsOrBlocks) {
  FakeOwner owner;
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(owner.Offer()));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto flipper,
      ForkedChild::Fork({.watchdog = absl::Minutes(10)}, [&](const Reporter&) {
        for (uint64_t i = 0;; ++i) {
          owner.generations()[32] = i & 1;
        }
      }));
  int64_t good = 0;
  int64_t bad = 0;
  const Deadline deadline = Deadline::After(absl::Minutes(5));
  while (good + bad < 100 * Rounds() || good == 0 || bad == 0) {
    const auto hold = attached->Claim(owner.Message(32));
    if (hold.ok()) {
      ASSERT_EQ(hold->data()[0], std::byte{0x5a});
    } else {
      ASSERT_THAT(hold, StatusIs(absl::StatusCode::kDataLoss));
    }
    ++(hold.ok() ? good : bad);
    ASSERT_FALSE(deadline.has_passed()) << good << ", " << bad;
  }
}

// All of the table changes, while others attach, claim and add.
[[noreturn]] void FlipForEver(FakeOwner& owner) {
  const ArenaHeader good_header = *owner.header();
  const ArenaSegment good_slot = *owner.slot();
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   16,
                                   17,
                                   32,
                                   4096,
                                   kBlocks,
                                   1ull << 24,
                                   1ull << 32,
                                   ~0ull,
                                   1ull << 63,
                                   3ull << 32 | 1,
                                   3ull << 32 | 2};
  constexpr size_t kHeaderWords = sizeof(ArenaHeader) / 8;
  constexpr size_t kSlotWords = sizeof(ArenaSegment) / 8;
  const size_t slot_at =
      Layout::kSegmentsAt + kSegmentId * sizeof(ArenaSegment);
  std::mt19937_64 random(1);
  const auto number = [&] {
    const uint64_t r = random();
    return r % 4 == 0 ? r : kNumbers[(r >> 8) % std::size(kNumbers)];
  };
  for (;;) {
    const uint64_t r = random();
    owner.words(slot_at)[r % kSlotWords] = number();
    if (r % 8 == 0) owner.words(0)[(r >> 8) % kHeaderWords] = number();
    owner.generations()[32 + (r >> 16) % 16] = number();
    if ((r >> 24) % 4 != 0) continue;
    // Valid again, so that all checks are reached.
    std::memcpy(owner.slot(), &good_slot, sizeof(good_slot));
    std::memcpy(owner.header(), &good_header, sizeof(good_header));
  }
}

void ClaimAround(const std::shared_ptr<AttachedArena>& arena,
                 const BlockDescriptor& message, std::mt19937_64& random) {
  for (int i = 0; i < 20; ++i) {
    BlockDescriptor wanted = message;
    wanted.block = static_cast<uint32_t>(random() % 64);
    const auto hold = arena->Claim(wanted);
    if (!hold.ok()) {
      ASSERT_FALSE(hold.status().message().empty());
      continue;
    }
    for (const size_t at : {size_t{0}, kBlockBytes - 1}) {
      ASSERT_EQ(hold->data()[at], std::byte{0x5a});
    }
  }
}

TEST(HostileOwnerTest, TableThatMovesGivesErrorsOrBytesOfItsSegment) {
  FakeOwner owner;
  const ArenaOffer offer = owner.Offer();
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto flipper,
      ForkedChild::Fork({.watchdog = absl::Minutes(10)},
                        [&](const Reporter&) { FlipForEver(owner); }));
  std::mt19937_64 random(2);
  int64_t good = 0;
  int64_t bad = 0;
  const size_t fds = CountOpenFds();
  const Deadline deadline = Deadline::After(absl::Minutes(5));
  while (good + bad < Rounds() || good == 0 || bad == 0) {
    const auto arena = AttachTo(offer);
    owner.Drain();
    ++(arena.ok() ? good : bad);
    ASSERT_FALSE(deadline.has_passed()) << good << ", " << bad;
    if (!arena.ok()) {
      ASSERT_FALSE(arena.status().message().empty());
      continue;
    }
    ClaimAround(*arena, owner.Message(0), random);
    (*arena)->Sweep();
    (void)(*arena)->Add(offer.bytes, Travel(offer.fds));
    ClaimAround(*arena, owner.Message(0), random);
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() == fds; }));
}

}  // namespace
}  // namespace tenon
