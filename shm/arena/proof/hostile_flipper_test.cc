// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A holder whose process writes its column at full speed: its cells, its header
// and its directory. The owner's tests are bounded, it reclaims all blocks
// whose cells are not flipped, and it names the process to blame.
//
// TENON_FLIPPER_CLAIMS is the number of claims and tests; 10000000 for the full
// run:
//   bazel test --config=asan --test_env=TENON_FLIPPER_CLAIMS=10000000 ...

#include <stdlib.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr uint64_t kCells = ColumnLayout::kCellsAlignment;
constexpr size_t kBlockBytes = 4096;
constexpr size_t kQuotaBlocks = 64;
// The flipper writes the cells of those below, the others are not flipped.
constexpr uint64_t kFlipped = 32;
constexpr int64_t kDefaultClaims = 200'000;
constexpr absl::Duration kPatience = absl::Minutes(20);

void Store(std::atomic<uint64_t>& word, uint64_t value) {
  word.store(value, std::memory_order_relaxed);
}

// All kinds of cells: held, not held, counting up, and arbitrary.
[[noreturn]] void FlipForEver(const TestColumn& column) {
  auto* const header = reinterpret_cast<std::atomic<uint64_t>*>(column.data());
  constexpr size_t kHeaderWords = ColumnLayout::kCellsAt / sizeof(uint64_t);
  const uint64_t magic = header[0].load();
  const uint64_t version = header[1].load();
  std::mt19937_64 random(1);
  for (;;) {
    const uint64_t r = random();
    std::atomic<uint64_t>& cell = column.words()[r % kFlipped];
    switch ((r >> 8) % 5) {
      case 0:
        Store(cell, random());
        break;
      case 1:
        Store(cell, 0);
        break;
      case 2:
        cell.fetch_add((uint64_t{1} << 32) + 1, std::memory_order_relaxed);
        break;
      case 3:
        cell.fetch_sub(1, std::memory_order_relaxed);
        break;
      default:
        // Claimed and released at once.
        cell.store(random() << 32, std::memory_order_relaxed);
        break;
    }
    Store(header[(r >> 16) % 16], random());
    Store(header[(r >> 24) % kHeaderWords], random());
    Store(header[0], magic);
    Store(header[1], version);
  }
}

int64_t WantedClaims() {
  const char* text = getenv("TENON_FLIPPER_CLAIMS");
  int64_t claims = kDefaultClaims;
  if (text != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &claims)) << text;
  }
  return claims;
}

class HostileFlipperTest : public testing::Test {
 protected:
  void SetUp() override {
    const Block block = arena_->TryAllocate(kBlockBytes).value();
    offer_ = arena_->Offer(block).value();
    honest_ = AttachTo(offer_).value();
  }

  // The attachment that stays, made while the header is still valid.
  void AttachHostile() {
    ASSERT_TRUE(hostile_.Send(inbox()));
    ASSERT_THAT(arena_->Holders(), IsOk());  // Receives from the inbox.
    ASSERT_EQ(arena_->Use().attached, 2u);
  }

  // Attaches once more, with a header that changes while it is read, and
  // detaches.
  void AttachHostileAgain() {
    const TestAttach attach(arena_->id(), kCells, &column_);
    ASSERT_TRUE(attach.Send(inbox()));
    attach.End();
  }
  int inbox() const { return offer_.fds[ArenaOfferFacts::kInbox]; }

  // One block from the owner to an honest holder and back.
  void HandOver() {
    auto block = arena_->TryAllocate(kBlockBytes);
    ASSERT_THAT(block, IsOk());
    block->data()[0] = std::byte{0x5a};
    BlockDescriptor message = block->Describe().value();
    auto hold = honest_->Claim(message);
    ++claims_;
    ASSERT_THAT(hold, IsOk());
    block->Reset();
    ASSERT_EQ(hold->data()[0], std::byte{0x5a});
    // The generation of a faulty sender.
    message.generation += 1 + random_() % 3;
    message.block = static_cast<uint32_t>(random_() % 80);
    const auto wrong = honest_->Claim(message);
    ++claims_;
    if (wrong.ok()) return;  // It guessed another block's generation.
    ++errors_;
    ASSERT_TRUE(absl::IsDataLoss(wrong.status()) ||
                absl::IsInvalidArgument(wrong.status()))
        << wrong.status();
  }

  const std::shared_ptr<Arena> arena_ =
      CreateArena({.segment = {.strategy = SharingStrategy::kFileDescriptor},
                   .quota_bytes = kQuotaBlocks * kBlockBytes,
                   .max_blocks = kCells})
          .value();
  ArenaOffer offer_;
  std::shared_ptr<AttachedArena> honest_;
  const TestColumn column_;
  const TestAttach hostile_{arena_->id(), kCells, &column_};
  std::mt19937_64 random_{2};
  int64_t claims_ = 0;
  int64_t errors_ = 0;
};

TEST_F(HostileFlipperTest, OwnerGetsBackWhatIsLeftAloneAndNamesTheMover) {
  AttachHostile();
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto flipper,
      ForkedChild::Fork({.name = "flipper", .watchdog = 2 * kPatience},
                        [&](const Reporter&) { FlipForEver(column_); }));
  const int64_t wanted = WantedClaims();
  const Deadline deadline = Deadline::After(kPatience);
  int64_t done = 0;
  bool named = false;
  for (int64_t i = 0; done < wanted || !named; ++i) {
    HandOver();
    if (HasFatalFailure()) return;
    if (i % 1024 != 0) continue;
    AttachHostileAgain();
    done = claims_ + static_cast<int64_t>(arena_->Use().tests);
    for (const HolderUse& holder : HoldersOf(*arena_)) {
      named |= holder.column == column_.id() && holder.moved > 0;
    }
    ASSERT_FALSE(deadline.has_passed()) << done;
  }
  const ArenaUse use = arena_->Use();
  EXPECT_GT(use.failures, 0u);
  EXPECT_GT(errors_, 0);
  // All blocks whose cells are not flipped can be allocated at the same time.
  std::vector<Block> blocks;
  for (uint64_t i = 0; i < kQuotaBlocks - kFlipped; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(blocks.emplace_back(),
                               arena_->TryAllocate(kBlockBytes));
  }
  std::printf("%s claims, %s errors, %s tests, %s failures, %s refused\n",
              std::to_string(claims_).c_str(), std::to_string(errors_).c_str(),
              std::to_string(use.tests).c_str(),
              std::to_string(use.failures).c_str(),
              std::to_string(use.refused).c_str());
}

}  // namespace
}  // namespace tenon
