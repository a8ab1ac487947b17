// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// One attachment for a process and an arena; and the errors of a process whose
// attachment the owner refuses.

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/internal/arena_attachment.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

class ArenaRefusalTest : public testing::Test {
 protected:
  // Messages as those of an AttachedArena, which count for this process.
  void AttachUpToTheLimit() {
    const ArenaOffer offer = arena_->Offer(block_).value();
    while (others_.size() < Attachments::kMaxOfOneProcess) {
      others_.emplace_back(arena_->id(), arena_->options().max_blocks,
                           &column_);
      ASSERT_TRUE(others_.back().Send(offer.fds[ArenaOfferFacts::kInbox]));
    }
    EXPECT_EQ(Attached(), Attachments::kMaxOfOneProcess);
  }
  size_t Attached() {
    EXPECT_THAT(arena_->Holders(), IsOk());  // The owner receives.
    return arena_->Use().attached;
  }
  std::shared_ptr<AttachedArena> Attach() {
    return AttachTo(arena_->Offer(block_).value()).value();
  }

  const std::shared_ptr<Arena> arena_ = CreateArena().value();
  const Block block_ = arena_->TryAllocate(4096).value();
  const TestColumn column_;
  std::deque<TestAttach> others_;
};

TEST_F(ArenaRefusalTest, AProcessAttachesOnceHoweverOftenItDoes) {
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor block, block_.Describe());
  std::deque<std::shared_ptr<AttachedArena>> all;
  std::deque<Hold> holds;
  for (size_t i = 0; i < 2 * Attachments::kMaxOfOneProcess; ++i) {
    all.push_back(Attach());
    TENON_ASSERT_OK_AND_ASSIGN(Hold hold, all.back()->Claim(block));
    holds.push_back(std::move(hold));
  }
  EXPECT_EQ(Attached(), 1u);
  // Claims through a destroyed one are held by the attachment of the others.
  all.clear();
  holds.resize(1);
  EXPECT_EQ(Attached(), 1u);
  EXPECT_EQ(HoldersOf(*arena_)[0].blocks, 1u);
  // A forked child has none, and attaches itself.
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena_->Offer(block_));
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const auto of_child, AttachTo(offer));
    EXPECT_THAT(of_child->Claim(block).status(), IsOk());
  }));
  holds.clear();
  EXPECT_EQ(Attached(), 0u);
}

TEST_F(ArenaRefusalTest, AClaimThroughAnAttachmentThatWasRefusedIsAnError) {
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor block, block_.Describe());
  AttachUpToTheLimit();
  const auto refused = Attach();
  TENON_ASSERT_OK_AND_ASSIGN(Hold early, refused->Claim(block));
  EXPECT_EQ(Attached(), Attachments::kMaxOfOneProcess);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(refused->Claim(block),
                StatusIs(kUnavailable, HasSubstr("refused the attachment")));
  }
  // The next one is another attachment, while this one still has a hold.
  others_[0].End();
  const auto again = Attach();
  EXPECT_EQ(Attached(), Attachments::kMaxOfOneProcess);
  EXPECT_THAT(again->Claim(block), IsOk());
  EXPECT_THAT(refused->Claim(block), StatusIs(kUnavailable));
  EXPECT_EQ(Attach()->attachment(), again->attachment());
}

// The owner reclaims such blocks without reading the cells of this attachment.
TEST_F(ArenaRefusalTest, NoClaimSucceedsOnABlockThatIsHandedOutLater) {
  AttachUpToTheLimit();
  const auto refused = Attach();
  EXPECT_EQ(Attached(), Attachments::kMaxOfOneProcess);
  TENON_ASSERT_OK_AND_ASSIGN(const Block later, arena_->TryAllocate(4096));
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor block, later.Describe());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // Here poll() of one descriptor is an error.
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status claimed = refused->Claim(block).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(claimed, StatusIs(kUnavailable));
  EXPECT_THAT(refused->Claim(block), StatusIs(kUnavailable));
}

// A refusal of other processes costs a poll of the lease, and nothing else.
TEST_F(ArenaRefusalTest, AClaimThroughAnotherAttachmentIsNone) {
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor block, block_.Describe());
  const auto attached = Attach();
  EXPECT_EQ(Attached(), 1u);
  const TestAttach faulty(arena_->id(), 1, &column_);
  ASSERT_TRUE(
      faulty.Send(arena_->Offer(block_).value().fds[ArenaOfferFacts::kInbox]));
  EXPECT_EQ(Attached(), 1u);
  EXPECT_EQ(arena_->Use().refused, 1u);
  EXPECT_THAT(attached->Claim(block), IsOk());
  EXPECT_FALSE(attached->attachment()->MayBeRefused());
}

TEST_F(ArenaRefusalTest, AnImporterAcceptsAnOfferAgain) {
  ArenaTensorImporter importer;
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      CreateTensor(*arena_, kDtypeOf<uint8_t>, {64}, Deadline::Passed()));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(tensor));
  const auto accept = [&] {
    const ArenaOffer offer = Offer(tensor).value();
    return importer.Accept(offer.bytes, Travel(offer.fds));
  };
  AttachUpToTheLimit();
  ASSERT_THAT(accept(), IsOk());
  EXPECT_EQ(Attached(), Attachments::kMaxOfOneProcess);
  EXPECT_THAT(importer.Claim(handle), StatusIs(kUnavailable));
  EXPECT_THAT(importer.Claim(handle), StatusIs(kNotFound));
  others_[0].End();
  ASSERT_THAT(accept(), IsOk());
  EXPECT_THAT(importer.Claim(handle), IsOk());
  EXPECT_EQ(Attached(), Attachments::kMaxOfOneProcess);
  EXPECT_THAT(importer.Claim(handle), IsOk());
}

}  // namespace
}  // namespace tenon
