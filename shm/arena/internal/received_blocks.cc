// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/received_blocks.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/internal/arena_attachment.h"
#include "tenon/shm/arena/internal/kept_object.h"
#include "tenon/shm/arena/internal/mapped_segment.h"
#include "tenon/shm/arena/kept_block.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {
namespace {

// Kept storages take memory of this process.
constexpr size_t kMostKept = 4096;

Storage::Pooled PooledAt(const AttachedArena& arena,
                         const BlockDescriptor& block, const std::byte* data) {
  const bool writable =
      arena.attachment()->table().header().shared_writable != 0;
  return {// Only Storage::Write() and Address() return it, the first after a
          // check of `writable`.
          .data = const_cast<std::byte*>(data),
          .size_bytes = static_cast<size_t>(block.size),
          .writable = writable,
          .kind = writable ? SegmentKind::kSharedWritable
                           : SegmentKind::kOwnerWritten,
          .device = arena.attachment()->device()};
}

}  // namespace

class ReceivedBlocks::Block {
 public:
  Block(AttachedArena* arena, const BlockDescriptor& block,
        const std::byte* data)
      : attachment_(*arena->attachment()),
        cell_(attachment_.cell(block.block)),
        current_(attachment_.table().generations()[block.block]),
        segment_(attachment_.SlotOf(block.segment)),
        id_(block.segment),
        opened_(segment_.opened()),
        storage_(PooledAt(*arena, block, data), arena, block) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  bool Has(const BlockDescriptor& block) { return storage_.lease().Has(block); }
  // Whether its segment is mapped.
  bool IsOpen() const { return segment_.IsOpen(id_); }
  // The same, and at the same address. Requires a claim, which keeps it so.
  bool IsMapped() const { return IsOpen() && segment_.opened() == opened_; }

  // The steps of AttachedArena::Claim(); false if that call has to find the
  // reason.
  bool Claim(uint64_t generation) {
    // The claim is a barrier, after which alone this line would be fetched.
    __builtin_prefetch(&current_);
    if (!Lease<>::Claim(cell_, current_, generation)) return false;
    TENON_CRASH_POINT("attached_arena.claimed");
    if (IsMapped() && !attachment_.MayBeRefused()) [[likely]] {
      return true;
    }
    Lease<>::Release(cell_);
    return false;
  }

  // After a claim, which is released with the last copy of the result.
  [[gnu::always_inline]] std::shared_ptr<Storage> HandOut(uint64_t generation) {
    storage_.lease().SetGeneration(generation);
    if (control_.IsInUse()) [[unlikely]] {
      others_.fetch_add(1, std::memory_order_relaxed);
      return {&storage_, ReleaseOther{this}};
    }
    return control_.Make<Storage>(&storage_, [this](Storage*) { Release(); });
  }

  bool IsInUse() const {
    return control_.IsInUse() || others_.load(std::memory_order_acquire) != 0;
  }

 private:
  // For a control block on the heap.
  struct ReleaseOther {
    void operator()(Storage*) const {
      block->Release();
      const bool fenced = block->control_.fenced();
      // The last access: then the block may be destroyed.
      block->others_.fetch_sub(1, std::memory_order_release);
      KeptObject::AfterUse(fenced);
    }
    Block* block;
  };
  void Release() {
    if (fork_count_ != ForkCount()) return;
    // A block in use was claimed: it cannot fail.
    Lease<>::Release(cell_);
    TENON_CRASH_POINT("attached_arena.released");
  }

  ArenaAttachment& attachment_;
  SharedWord<uint64_t>& cell_;
  const SharedWord<uint64_t>& current_;  // The generation.
  const SegmentAccess& segment_;
  const uint32_t id_;  // Of the segment.
  const uint64_t opened_;
  const uint64_t fork_count_ = ForkCount();
  ControlBlock control_;
  std::atomic<uint32_t> others_ = 0;
  PooledStorage<ReceivedLease> storage_;
};

ReceivedBlocks::ReceivedBlocks(std::shared_ptr<AttachedArena> arena)
    : arena_(std::move(arena)), drop_at_(kMostKept) {}

ReceivedBlocks::~ReceivedBlocks() { EndEpoch(); }

// After a claim.
std::shared_ptr<Storage> ReceivedBlocks::HandOut(Block& block,
                                                 uint64_t generation,
                                                 KeptBlock* kept) {
  if (kept != nullptr) {
    *kept = KeptBlock(&block, epoch_.load(std::memory_order_relaxed));
  }
  return block.HandOut(generation);
}

std::shared_ptr<Storage> ReceivedBlocks::ClaimAgain(const KeptBlock& kept,
                                                    uint64_t generation) {
  if (kept.epoch_ != epoch_.load(std::memory_order_relaxed)) return nullptr;
  Block& block = *static_cast<Block*>(kept.block_);
  if (!block.Claim(generation)) return nullptr;
  return block.HandOut(generation);
}

absl::StatusOr<std::shared_ptr<Storage>> ReceivedBlocks::Claim(
    const BlockDescriptor& block, KeptBlock* kept_block) {
  const auto found = blocks_.find(block.block);
  if (found != blocks_.end()) [[likely]] {
    Block& kept = *found->second;
    if (kept.Has(block) && kept.Claim(block.generation)) [[likely]]
      return HandOut(kept, block.generation, kept_block);
  }
  TENON_ASSIGN_OR_RETURN(const std::byte* const data, arena_->ClaimData(block));
  if (size() >= drop_at_) {
    Drop([](const Block&) { return true; });
    drop_at_ = std::max(kMostKept, 2 * size());
  }
  std::unique_ptr<Block>& kept = blocks_[block.block];
  if (kept == nullptr || !kept->Has(block) || !kept->IsMapped()) {
    if (kept != nullptr && kept->IsInUse()) {
      replaced_.push_back(std::move(kept));
    }
    if (kept != nullptr) EndEpoch();
    kept = std::make_unique<Block>(arena_.get(), block, data);
  }
  return HandOut(*kept, block.generation, kept_block);
}

template <typename Predicate>
void ReceivedBlocks::Drop(const Predicate& is_dropped) {
  const auto drop = [&](const Block& block) {
    if (block.IsInUse() || !is_dropped(block)) return false;
    EndEpoch();
    return true;
  };
  absl::erase_if(blocks_,
                 [&](const auto& entry) { return drop(*entry.second); });
  std::erase_if(replaced_, [&](const auto& block) { return drop(*block); });
}

void ReceivedBlocks::DropUnmapped() {
  Drop([](const Block& block) { return !block.IsOpen(); });
}

bool ReceivedBlocks::IsInUse() {
  return std::any_of(
             blocks_.begin(), blocks_.end(),
             [](const auto& entry) { return entry.second->IsInUse(); }) ||
         std::any_of(replaced_.begin(), replaced_.end(),
                     [](const auto& block) { return block->IsInUse(); });
}

// KeptBlock() is of epoch 0.
constinit std::atomic<uint64_t> ReceivedBlocks::epoch_ = 1;

void ReceivedBlocks::Abandon(std::unique_ptr<ReceivedBlocks> blocks) {
  EndEpoch();
  // So that IsInUse(), which is called after each use that ends in this
  // process, looks at few.
  blocks->Drop([](const Block&) { return true; });
  KeptObject::Abandon(std::move(blocks));
}

}  // namespace tenon
