// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/block_shelves.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {
namespace {

constexpr int kPoison = 0xDF;

}  // namespace

OwnedBlock* BlockShelves::TakeFree(size_t size_class) {
  Shelf& shelf = shelves_[size_class];
  const TimedMutexLock lock(&shelf.mutex);
  if (shelf.free.empty()) return nullptr;
  OwnedBlock* block = shelf.free.back();
  shelf.free.pop_back();
  --block->segment->free_blocks;
  // With the lock held: without it a report could count the block as free.
  block->references.store(1, std::memory_order_relaxed);
  // Before any message about it (model: late). No order is needed: a claim that
  // follows such a message reads this value or a later one, and acquires it.
  block->refusals =
      StdAtomics::Load(*table_.refused(), std::memory_order_relaxed);
  return block;
}

absl::Status BlockShelves::MakeReady(OwnedBlock& block) {
  if (Protects(options_, block.size()) &&
      mprotect(block.data(), block.size(), PROT_READ | PROT_WRITE) != 0) {
    // A block with a protection of its own is a mapping of its own, and the
    // number of mappings of a process is limited.
    absl::Status status = PosixError(errno, "mprotect", "a block of an arena");
    Shelf& shelf = ShelfOf(block.size());
    const TimedMutexLock lock(&shelf.mutex);
    block.references.store(0, std::memory_order_relaxed);
    shelf.PushFree(block);
    return status;
  }
  if (options_.wipe && block.used) memset(block.data(), 0, block.size());
  block.used = true;
  table_.SetState(block.number, BlockState::kInUse, CoarseNowMs());
  return absl::OkStatus();
}

void BlockShelves::Release(OwnedBlock& block) {
  const bool exposed = block.exposed.load(std::memory_order_relaxed);
  if (!exposed) MarkFree(block);
  Shelf& shelf = ShelfOf(block.size());
  {
    const TimedMutexLock lock(&shelf.mutex);
    if (exposed) {
      table_.SetState(block.number, BlockState::kReleased,
                      table_.StateOf(block.number).since_ms);
      shelf.released.push_back(&block);
    } else {
      shelf.PushFree(block);
    }
  }
  if (waiting_.load(std::memory_order_relaxed) > 0) released_.NotifyOne();
}

void BlockShelves::WaitForRelease(absl::Duration at_most) {
  const ThreadLock lock(&wait_mutex_);
  waiting_.fetch_add(1, std::memory_order_relaxed);
  released_.WaitFor(&wait_mutex_, at_most);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void BlockShelves::Add(OwnedSegment& segment) {
  Shelf& shelf = ShelfOf(segment.listed.block_bytes);
  const TimedMutexLock lock(&shelf.mutex);
  // The first block is taken first.
  for (uint64_t i = segment.listed.block_count; i-- > 0;) {
    shelf.PushFree(segment.blocks[i]);
  }
}

bool BlockShelves::RemoveIfIdle(const OwnedSegment& segment) {
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
  memset(block.data(), kPoison, block.size());
  // If this fails, the block is poisoned all the same.
  if (Protects(options_, block.size())) {
    mprotect(block.data(), block.size(), PROT_NONE);
  }
}

}  // namespace tenon
