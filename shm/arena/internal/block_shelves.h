// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BlockShelves: the blocks of an arena that its owner does not use: free ones,
// and released ones that peers may still hold. Internal to Arena.
//
//   a block is   is moved by                and then is
//   new          Add()                      free
//   free         TakeFree(), MakeReady()    referenced by Block objects
//   referenced   Release()                  free, if it was never described,
//                                           else released
//   released     TakeReleased()             in a batch that is reclaimed
//   in a batch   PutFree(), PutReleased()   free, released
//   free         RemoveIfIdle()             retired with its segment

#ifndef TENON_SHM_ARENA_INTERNAL_BLOCK_SHELVES_H_
#define TENON_SHM_ARENA_INTERNAL_BLOCK_SHELVES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {

// Ownership: the blocks are the segments'. What the constructor is given is not
//   owned and outlives the BlockShelves.
// Threads: thread-safe. There is a shelf for each size class (size_class.h),
//   with a lock of its own; no other lock is acquired while it is held.
class BlockShelves {
 public:
  BlockShelves(const ArenaOptions& options, const ArenaTable& table)
      : options_(options), table_(table) {}

  // Removes a free block from its shelf, with one reference. Null if there is
  // none.
  OwnedBlock* TakeFree(size_t size_class);
  // Makes a block that TakeFree() returned accessible, and zeroes it if
  // ArenaOptions::wipe is set.
  // Errors: kResourceExhausted; the block is on its shelf again.
  absl::Status MakeReady(OwnedBlock& block);
  // Puts a block without references on its shelf: free if it has not been
  // described since it was last free, else released. Wakes a waiter.
  void Release(OwnedBlock& block);
  // Blocks until another thread calls Release(), or for `at_most`. Releases in
  // other processes wake nothing.
  void WaitForRelease(absl::Duration at_most);

  // Adds the blocks of a new segment as free ones.
  void Add(OwnedSegment& segment);
  // If all blocks of the segment are free, removes them and returns true.
  bool RemoveIfIdle(const OwnedSegment& segment);

  // For the reclaimer, by one thread at a time: no other call removes released
  // blocks.
  size_t CountReleased(size_t size_class);
  // Removes the `count` blocks that were released first, or all if there are
  // fewer, and replaces the contents of `batch` by them.
  void TakeReleased(size_t size_class, size_t count,
                    std::vector<OwnedBlock*>& batch);
  // Puts back blocks of a batch: reclaimed ones, and those that are held.
  void PutFree(size_t size_class, const std::vector<OwnedBlock*>& blocks);
  void PutReleased(size_t size_class, const std::vector<OwnedBlock*>& blocks);

 private:
  struct Shelf {
    void PushFree(OwnedBlock& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      free.push_back(&block);
      ++block.segment->free_blocks;
    }

    TimedMutex mutex;  // Mostly one thread allocates.
    // Last in, first out: warm in the cache.
    std::vector<OwnedBlock*> free ABSL_GUARDED_BY(mutex);
    // Oldest first.
    std::deque<OwnedBlock*> released ABSL_GUARDED_BY(mutex);
  };

  Shelf& ShelfOf(size_t block_bytes) {
    return shelves_[SizeClassOf(block_bytes)];
  }
  void MarkFree(OwnedBlock& block);

  const ArenaOptions& options_;
  const ArenaTable& table_;
  std::array<Shelf, kSizeClasses> shelves_;

  ThreadMutex wait_mutex_;  // Guards sleeping, no data.
  ThreadCondition released_;
  std::atomic<int> waiting_{0};
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_BLOCK_SHELVES_H_
