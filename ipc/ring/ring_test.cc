// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/ring.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/system_fence.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using absl::StatusCode::kDataLoss;
using absl::StatusCode::kDeadlineExceeded;
using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kOutOfRange;
using absl::StatusCode::kResourceExhausted;
using absl::StatusCode::kUnavailable;

const Deadline kAtOnce = Deadline::Passed();
Deadline TestDeadline() { return Deadline::After(absl::Seconds(30)); }

std::unique_ptr<RingProducer> MakeTestRing(
    size_t capacity, RingPolicy policy = RingPolicy::kWait) {
  return RingProducer::Create(
             {.name = "test", .capacity = capacity, .policy = policy})
      .value();
}

TEST(RingTest, DeliversInOrderRoundAndRound) {
  const auto ring = MakeTestRing(4);
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_THAT(PutRecord(*ring, 2 * i, kAtOnce), IsOk());
    ASSERT_THAT(PutRecord(*ring, 2 * i + 1, kAtOnce), IsOk());
    ASSERT_THAT(GetRecord(*reader, 2 * i, kAtOnce), IsOk());
    ASSERT_THAT(GetRecord(*reader, 2 * i + 1, kAtOnce), IsOk());
  }
  EXPECT_EQ(ring->put(), 200u);
  EXPECT_EQ(ring->acknowledged(), 200u);
}

// By a kernel that refuses the fence from the first sleep on.
TEST(RingTest, AnEndOfARingWhoseSleepersDoNotFenceSleepsWithoutTheSystemCall) {
  EXPECT_TRUE(PassesInChild([] {
    if (!JoinSystemFence()) GTEST_SKIP() << "no membarrier";
    const auto soon = [] { return Deadline::After(absl::Milliseconds(5)); };
    const auto fenced = MakeTestRing(1);
    TENON_ASSERT_OK_AND_ASSIGN(const auto fenced_reader, AddReaderTo(*fenced));
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto ring,
        RingProducer::Create({.capacity = 1, .sleeper_fences = false}));
    TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
    ASSERT_TRUE(FailSystemCall({.number = SYS_membarrier, .error = EPERM}));
    EXPECT_THAT(
        GetRecord(*fenced_reader, 0, soon()),
        StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("membarrier")));
    EXPECT_THAT(GetRecord(*reader, 0, soon()), StatusIs(kDeadlineExceeded));
    ASSERT_THAT(PutRecord(*ring, 0, kAtOnce), IsOk());
    EXPECT_THAT(PutRecord(*ring, 1, soon()), StatusIs(kDeadlineExceeded));
    EXPECT_THAT(GetRecord(*reader, 0, kAtOnce), IsOk());
  }));
}

TEST(RingTest, AnOfferThatCannotBeAttachedToNowCanBeLater) {
  const auto ring = MakeTestRing(4);
  TENON_ASSERT_OK_AND_ASSIGN(RingOffer offer, ring->Offer());
  std::unique_ptr<RingReader> reader;
  rlim_t room = 0;
  for (; reader == nullptr; ++room) {
    ASSERT_LT(room, 50u);
    absl::StatusOr<std::unique_ptr<RingReader>> attached =
        absl::UnknownError("");
    {
      const FewFds few(room);
      attached = RingReader::Attach(std::move(offer));
    }
    if (attached.ok()) {
      reader = *std::move(attached);
    } else {
      ASSERT_THAT(attached, StatusIs(kResourceExhausted)) << "with " << room;
    }
  }
  EXPECT_GT(room, 2u);
  // It has been taken whole.
  EXPECT_FALSE(offer.fds.memory.valid());
  EXPECT_FALSE(offer.fds.process.valid());
  EXPECT_FALSE(offer.fds.bell.valid());
  TENON_ASSERT_OK_AND_ASSIGN(RingReply reply, reader->Reply());
  ASSERT_THAT(ring->AddReader(std::move(reply)), IsOk());
  ASSERT_THAT(PutRecord(*ring, 1, kAtOnce), IsOk());
  EXPECT_THAT(GetRecord(*reader, 1, kAtOnce), IsOk());
}

TEST(RingTest, IsFullAtItsCapacityAndEmptyAgain) {
  for (const size_t capacity : {1, 2, 8}) {
    const auto ring = MakeTestRing(capacity);
    TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < capacity; ++i) {
        ASSERT_THAT(PutRecord(*ring, i, kAtOnce), IsOk());
      }
      const Record record = MakeRecord(0);
      EXPECT_THAT(ring->TryPut(BytesOf(record)), IsOkAndHolds(false));
      EXPECT_THAT(PutRecord(*ring, 9, Deadline::After(absl::Milliseconds(5))),
                  StatusIs(kDeadlineExceeded,
                           AllOf(HasSubstr("reader 1 (pid"),
                                 HasSubstr("has not read the last"))));
      for (size_t i = 0; i < capacity; ++i) {
        ASSERT_THAT(GetRecord(*reader, i, kAtOnce), IsOk());
      }
      Record out;
      EXPECT_THAT(reader->TryGet(BytesOf(out)), IsOkAndHolds(0u));
      EXPECT_THAT(
          reader->Get(BytesOf(out), Deadline::After(absl::Milliseconds(5))),
          StatusIs(kDeadlineExceeded, HasSubstr("pid")));
    }
  }
}

TEST(RingTest, PutsAndGetsInBatches) {
  const auto ring = MakeTestRing(8);
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  std::vector<Record> in, out(16);
  for (uint64_t i = 0; i < 5; ++i) in.push_back(MakeRecord(i));
  const auto bytes = std::as_bytes(std::span(in));
  const auto into = std::as_writable_bytes(std::span(out));
  for (int round = 0; round < 20; ++round) {
    ASSERT_THAT(ring->TryPut(bytes), IsOkAndHolds(true));
    // All or nothing.
    ASSERT_THAT(ring->TryPut(bytes), IsOkAndHolds(false));
    ASSERT_THAT(reader->Get(into, kAtOnce), IsOkAndHolds(5u));
    for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(out[i], in[i]);
  }
  ASSERT_THAT(ring->TryPut(bytes), IsOkAndHolds(true));
  ASSERT_THAT(reader->Get(into.first(2 * sizeof(Record) + 1), kAtOnce),
              IsOkAndHolds(2u));
  ASSERT_THAT(reader->Get(into, kAtOnce), IsOkAndHolds(3u));
}

TEST(RingTest, RefusesSizesThatDoNotFit) {
  const auto ring = MakeTestRing(4);
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  std::vector<std::byte> bytes(5 * 64);
  for (const size_t size : {0, 1, 63, 65, 5 * 64}) {
    EXPECT_THAT(ring->TryPut(std::span(bytes).first(size)),
                StatusIs(kInvalidArgument, HasSubstr("1 to 4 records of 64")));
  }
  EXPECT_THAT(reader->TryGet(std::span(bytes).first(63)),
              StatusIs(kInvalidArgument));
}

TEST(RingTest, RefusesOptionsThatCannotBe) {
  for (const RingOptions& options : std::vector<RingOptions>{
           {.record_bytes = 0},
           {.record_bytes = 12},
           {.record_bytes = 64 * 1024 + 8},
           {.capacity = 0},
           {.capacity = 3},
           {.capacity = size_t{1} << 25},
           {.record_bytes = 64 * 1024, .capacity = size_t{1} << 15},
           {.policy = static_cast<RingPolicy>(3)}}) {
    EXPECT_THAT(RingProducer::Create(options), StatusIs(kInvalidArgument));
  }
}

TEST(RingTest, TheTailIsTheAcknowledgement) {
  const auto ring = MakeTestRing(4);
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  std::array<Record, 4> out;
  const auto into = std::as_writable_bytes(std::span(out));
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kAtOnce), IsOk());
  }
  EXPECT_THAT(reader->Advance(1), StatusIs(kInvalidArgument));
  ASSERT_THAT(reader->Peek(into, kAtOnce), IsOkAndHolds(3u));
  EXPECT_EQ(ring->acknowledged(), 0u);
  ASSERT_THAT(reader->Advance(2), IsOk());
  EXPECT_EQ(ring->acknowledged(), 2u);
  ASSERT_THAT(reader->Peek(into, kAtOnce), IsOkAndHolds(1u));
  EXPECT_EQ(out[0], MakeRecord(2));
  EXPECT_THAT(reader->Advance(2), StatusIs(kInvalidArgument));
  ASSERT_THAT(reader->Advance(1), IsOk());
  EXPECT_EQ(ring->acknowledged(), 3u);
}

TEST(RingTest, EveryReaderGetsEverythingSinceItCame) {
  const auto ring = MakeTestRing(8);
  TENON_ASSERT_OK_AND_ASSIGN(const auto first, AddReaderTo(*ring));
  ASSERT_THAT(PutRecord(*ring, 0, kAtOnce), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto second, AddReaderTo(*ring));
  ASSERT_THAT(PutRecord(*ring, 1, kAtOnce), IsOk());
  EXPECT_THAT(GetRecord(*first, 0, kAtOnce), IsOk());
  EXPECT_THAT(GetRecord(*first, 1, kAtOnce), IsOk());
  EXPECT_EQ(ring->acknowledged(), 1u);
  EXPECT_THAT(GetRecord(*second, 1, kAtOnce), IsOk());
  EXPECT_EQ(ring->acknowledged(), 2u);
}

TEST(RingTest, AReaderThatIsNotAddedYetWaits) {
  const auto ring = MakeTestRing(8);
  TENON_ASSERT_OK_AND_ASSIGN(RingOffer offer, ring->Offer());
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader,
                             RingReader::Attach(std::move(offer)));
  EXPECT_THAT(GetRecord(*reader, 0, kAtOnce), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(PutRecord(*ring, 0, kAtOnce),
              StatusIs(kFailedPrecondition, HasSubstr("no reader yet")));
  TENON_ASSERT_OK_AND_ASSIGN(RingReply reply, reader->Reply());
  EXPECT_THAT(ring->AddReader(std::move(reply)), IsOkAndHolds(1u));
  ASSERT_THAT(PutRecord(*ring, 0, kAtOnce), IsOk());
  EXPECT_THAT(GetRecord(*reader, 0, kAtOnce), IsOk());
}

TEST(RingTest, AReplyIsGoodOnce) {
  const auto ring = MakeTestRing(8);
  const auto other = MakeTestRing(8);
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  TENON_ASSERT_OK_AND_ASSIGN(RingReply again, reader->Reply());
  EXPECT_THAT(ring->AddReader(std::move(again)), StatusIs(kInvalidArgument));
  TENON_ASSERT_OK_AND_ASSIGN(RingReply stray, reader->Reply());
  EXPECT_THAT(other->AddReader(std::move(stray)), StatusIs(kInvalidArgument));
}

TEST(RingTest, AnotherVersionIsNamed) {
  const auto ring = MakeTestRing(8);
  TENON_ASSERT_OK_AND_ASSIGN(RingOffer offer, ring->Offer());
  offer.message.geometry.version = 7;
  EXPECT_THAT(RingReader::Attach(std::move(offer)),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("version 7"), HasSubstr("version 1"))));
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
}

TEST(RingTest, AReaderThatLeavesIsPassedOver) {
  const auto ring = MakeTestRing(2);
  TENON_ASSERT_OK_AND_ASSIGN(auto leaves, AddReaderTo(*ring));
  TENON_ASSERT_OK_AND_ASSIGN(const auto stays, AddReaderTo(*ring));
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kAtOnce), IsOk());
    ASSERT_THAT(GetRecord(*stays, i, kAtOnce), IsOk());
  }
  EXPECT_EQ(ring->acknowledged(), 0u);
  leaves.reset();
  EXPECT_EQ(ring->acknowledged(), 2u);
  const std::vector<RingEnd> ended = ring->TakeEnded();
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].reader, 1u);
  EXPECT_THAT(ended[0].status, StatusIs(kUnavailable, HasSubstr("has left")));
  EXPECT_THAT(ring->TakeEnded(), IsEmpty());
  ASSERT_THAT(PutRecord(*ring, 2, kAtOnce), IsOk());
  EXPECT_THAT(GetRecord(*stays, 2, kAtOnce), IsOk());
}

TEST(RingTest, WithoutReadersPutSaysWhyTheLastOneIsGone) {
  const auto ring = MakeTestRing(2);
  TENON_ASSERT_OK_AND_ASSIGN(auto reader, AddReaderTo(*ring));
  reader.reset();
  ASSERT_THAT(ring->CheckReaders(), IsOk());
  EXPECT_THAT(PutRecord(*ring, 0, kAtOnce),
              StatusIs(kUnavailable, HasSubstr("has left")));
}

TEST(RingTest, PlacesAreUsedAgain) {
  const auto ring = MakeTestRing(2);
  for (uint64_t i = 0; i < 3 * RingGeometry::kMaxReaders; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
    ASSERT_THAT(PutRecord(*ring, i, kAtOnce), IsOk());
    ASSERT_THAT(GetRecord(*reader, i, kAtOnce), IsOk());
    ring->acknowledged();
  }
  ring->acknowledged();
  EXPECT_EQ(ring->num_readers(), 0u);
  std::vector<RingOffer> offers;
  for (uint64_t i = 0; i < RingGeometry::kMaxReaders; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(offers.emplace_back(), ring->Offer());
  }
  EXPECT_THAT(ring->Offer(), StatusIs(kResourceExhausted));
  EXPECT_THAT(ring->RemoveReader(offers[0].message.number), IsOk());
  EXPECT_THAT(ring->Offer(), IsOk());
}

TEST(RingTest, ARemovedReaderFindsOut) {
  const auto ring = MakeTestRing(2);
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  ASSERT_THAT(PutRecord(*ring, 0, kAtOnce), IsOk());
  EXPECT_THAT(ring->RemoveReader(7), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ring->RemoveReader(1), IsOk());
  EXPECT_THAT(GetRecord(*reader, 0, kAtOnce),
              StatusIs(kDataLoss, HasSubstr("not read 1 records")));
  EXPECT_THAT(GetRecord(*reader, 0, kAtOnce), StatusIs(kDataLoss));
}

TEST(RingTest, DropOldestTellsHowManyWereLost) {
  const auto ring = MakeTestRing(4, RingPolicy::kDropOldest);
  EXPECT_THAT(PutRecord(*ring, 0, kAtOnce), IsOk());  // Needs no reader.
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  for (uint64_t i = 0; i < 11; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kAtOnce), IsOk());
  }
  EXPECT_THAT(GetRecord(*reader, 7, kAtOnce),
              StatusIs(kDataLoss, HasSubstr("7 records were overwritten")));
  for (uint64_t i = 7; i < 11; ++i) {
    EXPECT_THAT(GetRecord(*reader, i, kAtOnce), IsOk());
  }
  EXPECT_EQ(reader->lost(), 7u);
  EXPECT_EQ(ring->acknowledged(), ring->put());
  ASSERT_THAT(PutRecord(*ring, 11, kAtOnce), IsOk());
  EXPECT_THAT(GetRecord(*reader, 11, kAtOnce), IsOk());
}

TEST(RingTest, DropReaderDropsSlowReaders) {
  const auto ring = MakeTestRing(4, RingPolicy::kDropReader);
  TENON_ASSERT_OK_AND_ASSIGN(const auto slow, AddReaderTo(*ring));
  TENON_ASSERT_OK_AND_ASSIGN(const auto fast, AddReaderTo(*ring));
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kAtOnce), IsOk());
    ASSERT_THAT(GetRecord(*fast, i, kAtOnce), IsOk());
  }
  EXPECT_THAT(GetRecord(*slow, 0, kAtOnce),
              StatusIs(kDataLoss, HasSubstr("not read 10 records")));
  const std::vector<RingEnd> ended = ring->TakeEnded();
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_THAT(ended[0].status,
              StatusIs(kResourceExhausted, HasSubstr("reader 1 ")));
}

TEST(RingTest, WhatWasPutIsReadAfterTheEnd) {
  auto ring = MakeTestRing(4);
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kAtOnce), IsOk());
  }
  EXPECT_THAT(ring->Close(kAtOnce),
              StatusIs(kDeadlineExceeded, HasSubstr("last 3 records")));
  EXPECT_THAT(PutRecord(*ring, 3, kAtOnce), StatusIs(kFailedPrecondition));
  ASSERT_THAT(GetRecord(*reader, 0, kAtOnce), IsOk());
  ring.reset();
  ASSERT_THAT(GetRecord(*reader, 1, TestDeadline()), IsOk());
  ASSERT_THAT(GetRecord(*reader, 2, TestDeadline()), IsOk());
  EXPECT_THAT(GetRecord(*reader, 3, TestDeadline()),
              StatusIs(kOutOfRange, HasSubstr("closed")));
}

TEST(RingTest, CloseIsDoneWhenAllHaveRead) {
  const auto ring = MakeTestRing(4);
  TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
  ASSERT_THAT(PutRecord(*ring, 0, kAtOnce), IsOk());
  ASSERT_THAT(GetRecord(*reader, 0, kAtOnce), IsOk());
  EXPECT_THAT(ring->Close(kAtOnce), IsOk());
  EXPECT_THAT(ring->Close(kAtOnce), IsOk());
}

TEST(RingTest, RecordsOfOtherSizes) {
  for (const size_t bytes : {8, 24, 64, 4096, 65536}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto ring,
        RingProducer::Create({.record_bytes = bytes, .capacity = 2}));
    TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
    std::vector<std::byte> in(bytes), out(bytes);
    for (int i = 0; i < 10; ++i) {
      for (size_t at = 0; at < bytes; ++at) {
        in[at] = static_cast<std::byte>(at * 31 + static_cast<size_t>(i));
      }
      ASSERT_THAT(ring->TryPut(in), IsOkAndHolds(true));
      ASSERT_THAT(reader->TryGet(out), IsOkAndHolds(1u));
      ASSERT_EQ(in, out);
    }
  }
}

TEST(RingTest, IsInertInAForkedChild) {
  const auto ring = MakeTestRing(4);
  TENON_ASSERT_OK_AND_ASSIGN(auto reader, AddReaderTo(*ring));
  ASSERT_THAT(PutRecord(*ring, 0, kAtOnce), IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(PutRecord(*ring, 1, kAtOnce), StatusIs(kFailedPrecondition));
    EXPECT_THAT(GetRecord(*reader, 0, kAtOnce), StatusIs(kFailedPrecondition));
    EXPECT_THAT(ring->Close(kAtOnce), StatusIs(kFailedPrecondition));
    EXPECT_THAT(ring->Arm(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(reader->Reply(), StatusIs(kFailedPrecondition));
    reader.reset();
  }));
  EXPECT_THAT(GetRecord(*reader, 0, kAtOnce), IsOk());
  EXPECT_EQ(ring->acknowledged(), 1u);
  EXPECT_EQ(ring->num_readers(), 1u);
}

TEST(RingTest, NothingIsLeftOpen) {
  const size_t before = CountOpenFds();
  {
    const auto ring = MakeTestRing(4);
    TENON_ASSERT_OK_AND_ASSIGN(const auto reader, AddReaderTo(*ring));
    ASSERT_THAT(ring->PollFd(), IsOk());
    ASSERT_THAT(reader->PollFd(), IsOk());
  }
  EXPECT_EQ(CountOpenFds(), before);
}

}  // namespace
}  // namespace tenon
