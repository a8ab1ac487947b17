// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A sender that wants a receiver to run out of cells, addresses, memory or
// descriptors: arena after arena, with more blocks and larger segments than
// needed. It gets errors that name the limit, and the messages of other senders
// are not affected.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using enum absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

absl::StatusOr<Tensor> CreateBytes(Arena& arena, size_t bytes) {
  return CreateTensor(arena, kDtypeOf<uint8_t>, {static_cast<int64_t>(bytes)},
                      Deadline::Passed());
}

// An arena, and a tensor in it.
struct Sender {
  std::shared_ptr<Arena> arena;
  Tensor sent;

  explicit Sender(uint64_t max_blocks = 8192, size_t bytes = 64)
      : arena(CreateArena(
                  {.segment = {.strategy = SharingStrategy::kFileDescriptor},
                   .max_blocks = max_blocks})
                  .value()),
        sent(CreateBytes(*arena, bytes).value()) {}

  absl::Status OfferTo(ArenaTensorImporter& importer) const {
    return OfferWith(importer, -1);
  }
  // With another segment than its own.
  absl::Status OfferWith(ArenaTensorImporter& importer, int segment) const {
    ArenaOffer offer = Offer(sent).value();
    if (segment >= 0) offer.fds[ArenaOfferFacts::kSegment] = segment;
    return importer.Accept(offer.bytes, Travel(offer.fds));
  }
  absl::StatusOr<Tensor> SendTo(ArenaTensorImporter& importer) const {
    return importer.Claim(Describe(sent).value());
  }
  // The memory of the table.
  int64_t TableBlocks() const {
    struct stat info = {};
    const ArenaOffer offer = Offer(sent).value();
    EXPECT_EQ(fstat(offer.fds[ArenaOfferFacts::kTable], &info), 0);
    return info.st_blocks;
  }
};

TEST(ArenaTensorLimitsTest, ArenasAreTakenUpToTheLimitAndNoFurther) {
  ArenaTensorImporter importer;
  std::vector<Sender> senders(16);
  for (const Sender& sender : senders) {
    ASSERT_THAT(sender.OfferTo(importer), IsOk());
  }
  std::vector<Sender> more(3);
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 100; ++i) {
    for (const Sender& sender : more) {
      ASSERT_THAT(sender.OfferTo(importer),
                  StatusIs(kResourceExhausted,
                           HasSubstr("16 of at most 16 arenas (max_arenas)")));
    }
  }
  EXPECT_EQ(CountOpenFds(), fds);
  EXPECT_THAT(more[0].SendTo(importer), StatusIs(kNotFound));
  for (const Sender& sender : senders) {
    EXPECT_THAT(sender.SendTo(importer), IsOk());
    EXPECT_THAT(sender.OfferTo(importer), IsOk());
  }
  // Another importer's limits are its own.
  ArenaTensorImporter other;
  EXPECT_THAT(more[0].OfferTo(other), IsOk());
}

TEST(ArenaTensorLimitsTest, WhatIsForgottenCountsUntilItsOwnerHasDroppedIt) {
  ArenaTensorImporter importer({.max_arenas = 1});
  const Sender first;
  const Sender second;
  ASSERT_THAT(first.OfferTo(importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor got, first.SendTo(importer));
  EXPECT_THAT(importer.Forget(first.arena->id()), IsOk());
  const auto refused = StatusIs(
      kResourceExhausted, AllOf(HasSubstr("1 of at most 1 arenas"),
                                HasSubstr("of which 1 are forgotten but")));
  // It receives attachments and detachments.
  EXPECT_THAT(first.arena->Holders(), IsOk());
  EXPECT_THAT(second.OfferTo(importer), refused);
  got = Tensor();
  // The owner has not received yet.
  EXPECT_THAT(second.OfferTo(importer), refused);
  EXPECT_THAT(first.arena->Holders(), IsOk());
  EXPECT_THAT(second.OfferTo(importer), IsOk());
}

TEST(ArenaTensorLimitsTest, ArenasOfTooManyBlocksAreRefusedAtOnce) {
  ArenaTensorImporter importer;
  const Sender honest(uint64_t{1} << 20);
  const Sender hostile(uint64_t{1} << 24);
  ASSERT_THAT(honest.OfferTo(importer), IsOk());
  const size_t fds = CountOpenFds();
  const int64_t taken = hostile.TableBlocks();
  // Each would take an eighth of the column.
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(hostile.OfferTo(importer),
                StatusIs(kResourceExhausted,
                         HasSubstr("for 1048576 blocks (max_blocks)")));
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() == fds; }));
  EXPECT_EQ(hostile.TableBlocks(), taken);
  EXPECT_THAT(honest.SendTo(importer), IsOk());
  ArenaTensorImporter generous({.max_blocks = uint64_t{1} << 24});
  EXPECT_THAT(hostile.OfferTo(generous), IsOk());
}

// Of `bytes` bytes, none of which are allocated.
UniqueFd MakeSparseSegment(uint64_t bytes) {
  UniqueFd fd(memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, kColumnSeals), 0);
  return fd;
}

TEST(ArenaTensorLimitsTest, HugeSegmentsAreNotMapped) {
  ArenaTensorImporter importer({.max_bytes = uint64_t{1} << 40});
  const UniqueFd huge = MakeSparseSegment((uint64_t{1} << 40) + 4096);
  const Sender honest;
  const Sender hostile;
  ASSERT_THAT(honest.OfferTo(importer), IsOk());
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(
        hostile.OfferWith(importer, huge.get()),
        StatusIs(kResourceExhausted, AllOf(HasSubstr("1099511631872 bytes"),
                                           HasSubstr("(max_bytes)"))));
  }
  EXPECT_EQ(CountOpenFds(), fds);
  EXPECT_THAT(hostile.SendTo(importer), StatusIs(kNotFound));
  EXPECT_THAT(hostile.OfferTo(importer), IsOk());
  EXPECT_THAT(honest.SendTo(importer), IsOk());
}

TEST(ArenaTensorLimitsTest, BytesOfAllCountTogether) {
  ArenaTensorImporter importer({.max_bytes = 3 * kMiB});
  const Sender two(8192, 2 * kMiB);
  const Sender two_more(8192, 2 * kMiB);
  const Sender small;
  EXPECT_THAT(two.OfferTo(importer), IsOk());
  EXPECT_THAT(two_more.OfferTo(importer), StatusIs(kResourceExhausted));
  EXPECT_THAT(small.OfferTo(importer), IsOk());
  EXPECT_THAT(two.SendTo(importer), IsOk());
  EXPECT_THAT(small.SendTo(importer), IsOk());
}

// Tensors of one arena, each of which has a segment of its own.
std::vector<Tensor> LargeTensors(Arena& arena, int count) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    tensors.push_back(
        CreateBytes(arena, (33 + 8 * static_cast<size_t>(i)) * kMiB).value());
  }
  return tensors;
}

absl::StatusOr<Tensor> Pass(ArenaTensorImporter& importer,
                            const Tensor& tensor) {
  absl::StatusOr<Tensor> claimed = importer.Claim(Describe(tensor).value());
  if (!absl::IsNotFound(claimed.status())) return claimed;
  const ArenaOffer offer = Offer(tensor).value();
  const absl::Status accepted = importer.Accept(offer.bytes, Travel(offer.fds));
  if (!accepted.ok()) return accepted;
  return importer.Claim(Describe(tensor).value());
}

TEST(ArenaTensorLimitsTest, SegmentsOfALiveArenaAreEvictedInTheirOrder) {
  const auto arena = CreateArena({}).value();
  const std::vector<Tensor> sent = LargeTensors(*arena, 4);
  // Two and a half of them.
  ArenaTensorImporter importer({.max_bytes = 110 * kMiB, .forget_idle = true});
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor held, Pass(importer, sent[0]));
  ASSERT_THAT(Pass(importer, sent[1]), IsOk());
  EXPECT_EQ(importer.mapped().segments, 2u);
  // The first is held.
  ASSERT_THAT(Pass(importer, sent[2]), IsOk());
  EXPECT_EQ(importer.mapped().segments, 2u);
  EXPECT_THAT(importer.Claim(Describe(sent[1]).value()), StatusIs(kNotFound));
  EXPECT_THAT(importer.Claim(Describe(sent[2]).value()), IsOk());
  EXPECT_LE(importer.mapped().bytes, 110 * kMiB);
  // It may be offered again; the memory is the same.
  ASSERT_THAT(sent[1].Fill(uint8_t{5}), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor again, Pass(importer, sent[1]));
  EXPECT_EQ(*again.at<const uint8_t>({100}).value(), 5);
  EXPECT_EQ(held.storage(),
            importer.Claim(Describe(sent[0]).value())->storage());
  // With both held there is no room.
  EXPECT_THAT(Pass(importer, sent[2]),
              StatusIs(kResourceExhausted, HasSubstr("(max_bytes)")));
  EXPECT_THAT(arena->Holders(), IsOk());
  EXPECT_EQ(arena->Use().attached, 1u);
}

TEST(ArenaTensorLimitsTest, ASegmentOfAnotherImporterIsNotEvicted) {
  const auto arena = CreateArena({}).value();
  const std::vector<Tensor> sent = LargeTensors(*arena, 3);
  ArenaTensorImporter evicting({.max_segments = 2, .forget_idle = true});
  {
    // It is not offered a segment twice.
    ArenaTensorImporter other;
    ASSERT_THAT(Pass(evicting, sent[0]), IsOk());
    ASSERT_THAT(Pass(evicting, sent[1]), IsOk());
    ASSERT_THAT(Pass(other, sent[0]), IsOk());
    ASSERT_THAT(Pass(evicting, sent[2]), IsOk());
    EXPECT_EQ(evicting.mapped().segments, 2u);
    EXPECT_THAT(other.Claim(Describe(sent[0]).value()), IsOk());
    EXPECT_THAT(evicting.Claim(Describe(sent[1]).value()), StatusIs(kNotFound));
  }
  // Now it can be.
  ASSERT_THAT(Pass(evicting, sent[1]), IsOk());
  EXPECT_THAT(evicting.Claim(Describe(sent[0]).value()), StatusIs(kNotFound));
}

TEST(ArenaTensorLimitsTest, TheMemoryOfTheMachineIsTheLimit) {
  const ArenaTensorImporterOptions options;
  EXPECT_GE(options.max_bytes, 64 * kMiB);
  ArenaTensorImporter importer;
  const UniqueFd more = MakeSparseSegment(options.max_bytes + 4096);
  EXPECT_THAT(Sender().OfferWith(importer, more.get()),
              StatusIs(kResourceExhausted));
}

TEST(ArenaTensorLimitsTest, RetiredSegmentsMakeRoom) {
  ArenaTensorImporter importer({.max_segments = 1});
  Sender sender(8192, kMiB);
  ASSERT_THAT(sender.OfferTo(importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor got, sender.SendTo(importer));
  const Sender other(8192, 2 * kMiB);
  EXPECT_THAT(other.OfferTo(importer),
              StatusIs(kResourceExhausted,
                       HasSubstr("0 more segments (max_segments)")));
  // A mapped segment may be offered any number of times.
  EXPECT_THAT(sender.OfferTo(importer), IsOk());
  got = Tensor();
  sender.sent = Tensor();
  EXPECT_THAT(sender.arena->Trim(), IsOk());
  EXPECT_THAT(other.OfferTo(importer), IsOk());
  EXPECT_THAT(other.SendTo(importer), IsOk());
}

TEST(ArenaTensorLimitsTest, SweepKeepsArenasOfWhichNoTensorIsLeft) {
  ArenaTensorImporter importer;
  const Sender sender;
  ASSERT_THAT(sender.OfferTo(importer), IsOk());
  // A segment is offered once; messages keep coming.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(sender.SendTo(importer), IsOk());
    importer.Sweep();
  }
  EXPECT_THAT(sender.arena->Holders(), IsOk());
  EXPECT_EQ(sender.arena->Use().attached, 1u);
}

TEST(ArenaTensorLimitsTest, ForgetDetachesOnceNoTensorIsLeft) {
  ArenaTensorImporter importer;
  const Sender sender;
  const Sender other;
  ASSERT_THAT(sender.OfferTo(importer), IsOk());
  ASSERT_THAT(other.OfferTo(importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor got, sender.SendTo(importer));
  EXPECT_THAT(importer.Forget(sender.arena->id()), IsOk());
  EXPECT_THAT(importer.Forget(sender.arena->id()), StatusIs(kNotFound));
  EXPECT_THAT(sender.SendTo(importer), StatusIs(kNotFound));
  EXPECT_THAT(got.data<const uint8_t>(), IsOk());
  EXPECT_THAT(sender.arena->Holders(), IsOk());
  EXPECT_EQ(sender.arena->Use().attached, 1u);
  got = Tensor();
  EXPECT_THAT(sender.arena->Holders(), IsOk());
  EXPECT_EQ(sender.arena->Use().attached, 0u);
  EXPECT_THAT(other.SendTo(importer), IsOk());
  // It may be offered again.
  EXPECT_THAT(sender.OfferTo(importer), IsOk());
  EXPECT_THAT(sender.SendTo(importer), IsOk());
}

}  // namespace
}  // namespace tenon
