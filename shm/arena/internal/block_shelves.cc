// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/block_shelves.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {

size_t BlockShelves::NextLane() {
  static constinit std::atomic<size_t> next = 0;
  return next.fetch_add(1, std::memory_order_relaxed) % kLanes;
}

void BlockShelves::Lane::Push(OwnedBlock& block, size_t size_class) {
  const size_t count = count_.load(std::memory_order_relaxed);
  entries_[count] = {&block, size_class};
  count_.store(count + 1, std::memory_order_relaxed);
}

OwnedBlock* BlockShelves::Lane::Pop(size_t size_class) {
  const size_t count = count_.load(std::memory_order_relaxed);
  for (size_t i = count; i-- > 0;) {
    if (entries_[i].size_class != size_class) continue;
    OwnedBlock* const block = entries_[i].block;
    for (; i + 1 < count; ++i) entries_[i] = entries_[i + 1];
    count_.store(count - 1, std::memory_order_relaxed);
    return block;
  }
  return nullptr;
}

OwnedBlock* BlockShelves::Lane::PopAny() {
  const size_t count = count_.load(std::memory_order_relaxed) - 1;
  count_.store(count, std::memory_order_relaxed);
  return entries_[count].block;
}

auto BlockShelves::Lane::PopOldest() -> std::array<Entry, kMost / 2> {
  std::array<Entry, kMost / 2> oldest;
  const auto middle = entries_.begin() + oldest.size();
  std::copy(entries_.begin(), middle, oldest.begin());
  std::copy(middle, entries_.end(), entries_.begin());
  count_.store(kMost - oldest.size(), std::memory_order_relaxed);
  return oldest;
}

OwnedBlock* BlockShelves::Refill(Lane& lane, size_t size_class) {
  Shelf& shelf = shelves_[size_class];
  const TimedMutexLock lock(&shelf.mutex);
  if (shelf.free.empty()) return nullptr;
  // The last one is taken, those before it follow in the same order.
  const size_t size = shelf.free.size();
  const size_t more = std::min({(size - 1) / 2, kRefill, lane.room()});
  for (size_t i = size - 1 - more; i < size; ++i) {
    --shelf.free[i]->segment->free_blocks;
    if (i < size - 1) lane.Push(*shelf.free[i], size_class);
  }
  OwnedBlock* const taken = shelf.free.back();
  shelf.free.resize(size - 1 - more);
  return taken;
}

[[gnu::always_inline]] inline OwnedBlock* BlockShelves::Taken(
    OwnedBlock* block) {
  if (block == nullptr) return nullptr;
  // With the lock held: without it a report could count the block as free.
  block->references.store(1, std::memory_order_relaxed);
  // Before any message about it (model: late). No order is needed: a claim that
  // follows such a message reads this value or a later one, and acquires it.
  block->refusals =
      StdAtomics::Load(*table_.refused(), std::memory_order_relaxed);
  return block;
}

OwnedBlock* BlockShelves::TakeFree(size_t size_class) {
  Lane& lane = lanes_[ThisLane()];
  const TimedMutexLock lock(&lane.mutex);
  OwnedBlock* const block = lane.Pop(size_class);
  return Taken(block != nullptr ? block : Refill(lane, size_class));
}

// With the locks of all lanes: between one lane and the next a block could be
// taken from the one and another be released to the other.
OwnedBlock* BlockShelves::TakeAnyFree(size_t size_class)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (Lane& lane : lanes_) lane.mutex.Lock(Deadline::Never());
  OwnedBlock* block = nullptr;
  for (Lane& lane : lanes_) {
    if (block == nullptr) block = lane.Pop(size_class);
  }
  if (block == nullptr) block = Refill(lanes_[ThisLane()], size_class);
  Taken(block);
  for (Lane& lane : lanes_) lane.mutex.Unlock();
  return block;
}

absl::Status BlockShelves::Prepare(OwnedBlock& block) {
  if (Protects(options_, block.size())) {
    TENON_RETURN_IF_ERROR(store_.Unprotect(block.data(), block.size()));
  }
  if (options_.wipe && block.used) {
    TENON_RETURN_IF_ERROR(store_.Wipe(block.data(), block.size()));
  }
  return absl::OkStatus();
}

absl::Status BlockShelves::MakeReady(OwnedBlock& block) {
  if (options_.wipe || options_.debug != ArenaDebug::kNone) [[unlikely]] {
    absl::Status status = Prepare(block);
    if (!status.ok()) {
      Shelf& shelf = ShelfOf(block.size());
      const TimedMutexLock lock(&shelf.mutex);
      block.references.store(0, std::memory_order_relaxed);
      shelf.PushFree(block);
      return status;
    }
  }
  block.used = true;
  table_.SetState(block.number, BlockState::kInUse, CoarseNowMs());
  return absl::OkStatus();
}

// So that a lane is not for ever full of blocks of a size that its thread no
// longer allocates, nor of blocks that other threads allocate. The lock of a
// shelf is acquired once for blocks of one size.
void BlockShelves::MakeRoom(Lane& lane) {
  const auto oldest = lane.PopOldest();
  for (size_t i = 0; i < oldest.size();) {
    const size_t size_class = oldest[i].size_class;
    Shelf& shelf = shelves_[size_class];
    const TimedMutexLock lock(&shelf.mutex);
    for (; i < oldest.size() && oldest[i].size_class == size_class; ++i) {
      shelf.PushFree(*oldest[i].block);
    }
  }
}

void BlockShelves::ReleaseToLane(OwnedBlock& block) {
  Lane& lane = lanes_[ThisLane()];
  const TimedMutexLock lock(&lane.mutex);
  if (lane.room() == 0) [[unlikely]]
    MakeRoom(lane);
  lane.Push(block, SizeClassOf(block.size()));
}

void BlockShelves::Release(OwnedBlock& block) {
  if (block.exposed.load(std::memory_order_relaxed)) {
    Shelf& shelf = ShelfOf(block.size());
    const TimedMutexLock lock(&shelf.mutex);
    table_.SetState(block.number, BlockState::kReleased,
                    table_.StateOf(block.number).since_ms);
    shelf.released.push_back(&block);
  } else {
    MarkFree(block);
    ReleaseToLane(block);
  }
  if (waiting_.load(std::memory_order_relaxed) > 0) released_.NotifyOne();
}

void BlockShelves::WaitForRelease(absl::Duration at_most) {
  const ThreadLock lock(&wait_mutex_);
  waiting_.fetch_add(1, std::memory_order_relaxed);
  released_.WaitFor(&wait_mutex_, at_most);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

OwnedBlock* BlockShelves::AddAndTake(OwnedSegment& segment) {
  Shelf& shelf = ShelfOf(segment.listed.block_bytes);
  const TimedMutexLock lock(&shelf.mutex);
  // The second block is taken next.
  for (uint64_t i = segment.listed.block_count; i-- > 1;) {
    shelf.PushFree(segment.blocks[i]);
  }
  return Taken(&segment.blocks[0]);
}

bool BlockShelves::EmptyLanes() {
  bool any = false;
  for (Lane& lane : lanes_) {
    // Its thread keeps the bias of the lock.
    if (lane.IsEmpty()) continue;
    const TimedMutexLock lock(&lane.mutex);
    while (!lane.IsEmpty()) {
      any = true;
      OwnedBlock* const block = lane.PopAny();
      Shelf& shelf = ShelfOf(block->size());
      const TimedMutexLock shelf_lock(&shelf.mutex);
      shelf.PushFree(*block);
    }
  }
  return any;
}

bool BlockShelves::RemoveIfIdle(const OwnedSegment& segment) {
  EmptyLanes();
  Shelf& shelf = ShelfOf(segment.listed.block_bytes);
  const TimedMutexLock lock(&shelf.mutex);
  if (segment.free_blocks != segment.listed.block_count) return false;
  std::erase_if(shelf.free, [&](const OwnedBlock* block) {
    return block->segment == &segment;
  });
  return true;
}

size_t BlockShelves::CountReleased(size_t size_class) {
  Shelf& shelf = shelves_[size_class];
  const TimedMutexLock lock(&shelf.mutex);
  return shelf.released.size();
}

void BlockShelves::TakeReleased(size_t size_class, size_t count,
                                std::vector<OwnedBlock*>& batch) {
  Shelf& shelf = shelves_[size_class];
  const TimedMutexLock lock(&shelf.mutex);
  const auto begin = shelf.released.begin();
  const auto end =
      begin + static_cast<ptrdiff_t>(std::min(count, shelf.released.size()));
  batch.assign(begin, end);
  shelf.released.erase(begin, end);
}

void BlockShelves::PutFree(size_t size_class,
                           const std::vector<OwnedBlock*>& blocks) {
  for (OwnedBlock* block : blocks) MarkFree(*block);
  Shelf& shelf = shelves_[size_class];
  const TimedMutexLock lock(&shelf.mutex);
  for (OwnedBlock* block : blocks) shelf.PushFree(*block);
}

void BlockShelves::PutReleased(size_t size_class,
                               const std::vector<OwnedBlock*>& blocks) {
  Shelf& shelf = shelves_[size_class];
  const TimedMutexLock lock(&shelf.mutex);
  shelf.released.insert(shelf.released.end(), blocks.begin(), blocks.end());
}

// No process holds the block, nor can claim it any more.
void BlockShelves::MarkFree(OwnedBlock& block) {
  block.exposed.store(false, std::memory_order_relaxed);
  block.generation_bumped = false;
  table_.SetState(block.number, BlockState::kFree, 0);
  if (options_.debug == ArenaDebug::kNone) return;
  store_.Poison(block.data(), block.size());
  // If this fails, the block is poisoned all the same.
  if (Protects(options_, block.size())) {
    store_.Protect(block.data(), block.size()).IgnoreError();
  }
}

}  // namespace tenon
