// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The effect of each call of the lease protocol on its words, without
// concurrency. For concurrency see lease_schedule_test.

#include "tenon/shm/ledger/lease.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/ledger/free_test.h"

namespace tenon {
namespace {

using Word = SharedWord<uint64_t>;

uint64_t Value(const Word& word) {
  return StdAtomics::Load(word, std::memory_order_relaxed);
}

TEST(LeaseTest, ClaimsAreCountedAndHeldUntilReleased) {
  Word cell(0);
  const Word generation(7);
  EXPECT_TRUE(Lease<>::Claim(cell, generation, 7));
  EXPECT_TRUE(Lease<>::Claim(cell, generation, 7));
  EXPECT_EQ(LeaseCell::Claims(Value(cell)), 2);
  EXPECT_EQ(LeaseCell::Held(Value(cell)), 2);
  EXPECT_TRUE(Lease<>::Release(cell));
  EXPECT_TRUE(Lease<>::Release(cell));
  EXPECT_EQ(LeaseCell::Claims(Value(cell)), 2);
  EXPECT_EQ(LeaseCell::Held(Value(cell)), 0);
}

TEST(LeaseTest, ClaimOfAnotherGenerationHoldsNothingButCounts) {
  Word cell(0);
  const Word generation(8);
  EXPECT_FALSE(Lease<>::Claim(cell, generation, 7));
  EXPECT_EQ(LeaseCell::Claims(Value(cell)), 1);
  EXPECT_EQ(LeaseCell::Held(Value(cell)), 0);
}

TEST(LeaseTest, ReleaseOfNothingIsRefusedAndChangesNothing) {
  for (const uint64_t before : {uint64_t{0}, 5 * LeaseCell::kClaim}) {
    Word cell(before);
    EXPECT_FALSE(Lease<>::Release(cell));
    EXPECT_EQ(Value(cell), before);
  }
}

TEST(LeaseTest, ClaimsWrapAroundAndLeaveWhatIsHeldAlone) {
  Word cell((uint64_t{UINT32_MAX} << 32) + 3);
  const Word generation(0);
  EXPECT_TRUE(Lease<>::Claim(cell, generation, 0));
  EXPECT_EQ(LeaseCell::Claims(Value(cell)), 0);
  EXPECT_EQ(LeaseCell::Held(Value(cell)), 4);
}

constexpr size_t kColumns = 2;
constexpr size_t kBlocks = 3;

// The first columns of `cells`; attachments never end if `restless`.
class FakeInbox {
 public:
  FakeInbox() {
    for (size_t i = 0; i < kColumns; ++i) columns_.push_back(cells[i].data());
  }
  void Receive() { ++received; }
  bool IsEmpty() const { return !restless; }
  absl::Span<const Word* const> columns() const { return columns_; }
  uint64_t newest_refusal() const { return refusal; }

  std::array<std::array<Word, kBlocks>, kColumns> cells = {};
  bool restless = false;
  uint64_t refusal = 0;
  int received = 0;

 private:
  std::vector<const Word*> columns_;
};

class FreeTestTest : public testing::Test {
 protected:
  void Reclaim() {
    free_test_.Reclaim(inbox_, generations_.data(),
                       absl::MakeSpan(candidates_));
  }

  FakeInbox inbox_;
  std::array<Word, kBlocks> generations_ = {};
  std::array<ReclaimCandidate, kBlocks> candidates_ = {
      ReclaimCandidate{0}, ReclaimCandidate{1}, ReclaimCandidate{2}};
  FreeTest<FakeInbox> free_test_;
};

TEST_F(FreeTestTest, TakesBackAllButWhatIsHeld) {
  const Word generation(0);
  ASSERT_TRUE(Lease<>::Claim(inbox_.cells[1][2], generation, 0));
  Reclaim();
  EXPECT_TRUE(candidates_[0].IsReclaimed());
  EXPECT_TRUE(candidates_[1].IsReclaimed());
  EXPECT_FALSE(candidates_[2].IsReclaimed());
  EXPECT_EQ(candidates_[2].verdict.kind, BlockVerdict::kHeld);
  EXPECT_EQ(candidates_[2].verdict.column, 1);
  EXPECT_EQ(Value(generations_[0]), 1);
  EXPECT_EQ(Value(generations_[1]), 1);
  EXPECT_EQ(Value(generations_[2]), 0);
  EXPECT_EQ(free_test_.tests(), 2 * kBlocks);
  EXPECT_EQ(free_test_.failures(), 2);
}

// The generation was raised in an attempt whose second test then failed.
TEST_F(FreeTestTest, RaisesTheGenerationOfACandidateOnce) {
  candidates_[0].generation_bumped = true;
  Reclaim();
  EXPECT_TRUE(candidates_[0].IsReclaimed());
  EXPECT_EQ(Value(generations_[0]), 0);
}

// Of a process whose cells are not read, and which may hold older blocks.
TEST_F(FreeTestTest, WithholdsWhatWasHandedOutBeforeARefusal) {
  inbox_.refusal = 7;
  candidates_[0].refusals = 6;
  candidates_[1].refusals = 7;
  candidates_[2].refusals = 8;
  Reclaim();
  EXPECT_EQ(candidates_[0].verdict.kind, BlockVerdict::kWithheld);
  EXPECT_FALSE(candidates_[0].IsReclaimed());
  EXPECT_EQ(Value(generations_[0]), 0);
  EXPECT_TRUE(candidates_[1].IsReclaimed());
  EXPECT_TRUE(candidates_[2].IsReclaimed());
  inbox_.refusal = 0;
  Reclaim();
  EXPECT_TRUE(candidates_[0].IsReclaimed());
}

// The refusal comes between the two tests of a block.
TEST_F(FreeTestTest, WithholdsACandidateWhoseGenerationIsRaised) {
  candidates_[0].generation_bumped = true;
  inbox_.refusal = 1;
  Reclaim();
  EXPECT_FALSE(candidates_[0].IsReclaimed());
  inbox_.refusal = 0;
  Reclaim();
  EXPECT_TRUE(candidates_[0].IsReclaimed());
  EXPECT_EQ(Value(generations_[0]), 0);
}

TEST_F(FreeTestTest, LosesPatienceWhenProcessesAttachWithoutEnd) {
  inbox_.restless = true;
  Reclaim();
  for (const ReclaimCandidate& c : candidates_) {
    EXPECT_FALSE(c.IsReclaimed());
    EXPECT_EQ(c.verdict.kind, BlockVerdict::kUnknown);
    EXPECT_EQ(Value(generations_[c.block]), 0);
  }
  EXPECT_EQ(inbox_.received, 4);
  EXPECT_EQ(free_test_.failures(), kBlocks);
}

}  // namespace
}  // namespace tenon
