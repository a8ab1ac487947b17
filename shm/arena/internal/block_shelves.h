// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BlockShelves: the blocks of an arena that its owner does not use: free ones,
// and released ones that peers may still hold. Internal to Arena.
//
//   a block is   is moved by                and then is
//   new          AddAndTake()               free, or as after TakeFree()
//   free         TakeFree(), MakeReady()    referenced by Block objects
//   referenced   Release()                  free, if it was never described
//                                           (in the thread's lane), else
//                                           released
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
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {

// Ownership: the blocks are the segments'. What the constructor is given is not
//   owned and outlives the BlockShelves.
// Threads: thread-safe. There is a shelf for each size class (size_class.h),
//   and a lane for each eighth thread of the process: a few free blocks of any
//   size class, which a thread takes and releases without the lock of a shelf.
//   Each has a lock of its own. The lock of a shelf is acquired last, and alone;
//   those of all lanes together by TakeAnyFree(), in their order.
class BlockShelves {
 public:
  BlockShelves(const ArenaOptions& options, BlockStore& store,
               const ArenaTable& table)
      : options_(options), store_(store), table_(table) {}

  // Removes a free block from the thread's lane or from its shelf, with one
  // reference. Null if there is none; other lanes may have one.
  OwnedBlock* TakeFree(size_t size_class);
  // The same from any lane or its shelf: null only if no block of that size
  // class is free. Locks all lanes at once. By one thread at a time.
  OwnedBlock* TakeAnyFree(size_t size_class);
  // Makes a block that TakeFree() returned accessible, and zeroes it if
  // ArenaOptions::wipe is set.
  // Errors: the store's; the block is on its shelf again.
  absl::Status MakeReady(OwnedBlock& block);
  // Puts a block without references into the thread's lane if it has not been
  // described since it was last free, else on its shelf as released. Wakes a
  // waiter.
  void Release(OwnedBlock& block);
  // Blocks for `at_most`, or until another thread calls Release(). May miss a
  // call that has begun already, and releases in other processes wake nothing:
  // keep `at_most` short.
  void WaitForRelease(absl::Duration at_most);

  // Adds the blocks of a new segment as free ones, but for the first, which it
  // returns with one reference: no other thread can take the block for which
  // the arena has grown.
  OwnedBlock* AddAndTake(OwnedSegment& segment);
  // Moves the free blocks of all lanes to their shelves, so that each thread
  // can take them. Returns whether there were any.
  bool EmptyLanes();
  // If all blocks of the segment are free, removes them and returns true.
  // Empties the lanes.
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

  // The lane of the calling thread: less than kLanes.
  static constexpr size_t kLanes = 8;
  static size_t ThisLane() {
    constinit thread_local size_t lane = kLanes;
    if (lane == kLanes) [[unlikely]]
      lane = NextLane();
    return lane;
  }

 private:
  // Threads beyond the eighth share lanes. A lane is the arena's, not the
  // thread's: nothing is to be done when a thread ends. Its lock loses its bias
  // when another thread empties or searches the lane.
  class alignas(64) Lane {
   public:
    bool IsEmpty() const { return count_.load(std::memory_order_relaxed) == 0; }
    size_t room() const {
      return kMost - count_.load(std::memory_order_relaxed);
    }
    // Requires that there is room.
    void Push(OwnedBlock& block, size_t size_class)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    // Of that size class the block that was pushed last, or null.
    OwnedBlock* Pop(size_t size_class) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    // Any block. Requires that it is not empty.
    OwnedBlock* PopAny() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

    static constexpr size_t kMost = 16;
    struct Entry {
      OwnedBlock* block;
      size_t size_class;
    };
    // The half that was pushed first. Requires that the lane is full.
    std::array<Entry, kMost / 2> PopOldest()
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

    TimedMutex mutex;

   private:
    std::atomic<size_t> count_ = 0;  // Written with the lock held.
    std::array<Entry, kMost> entries_ ABSL_GUARDED_BY(mutex);
  };

  static constexpr size_t kRefill = 7;

  static size_t NextLane();

  // Makes a block that was removed the caller's, with the lock held.
  OwnedBlock* Taken(OwnedBlock* block);

  // Removes a block from the shelf, and moves up to kRefill more to the lane:
  // at most half of what is left. Null if there is none.
  OwnedBlock* Refill(Lane& lane, size_t size_class)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lane.mutex);
  void ReleaseToLane(OwnedBlock& block);
  // Moves the older half of a full lane to the shelves.
  void MakeRoom(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lane.mutex);

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
  // Unprotects and wipes it, as the options require.
  absl::Status Prepare(OwnedBlock& block);
  void MarkFree(OwnedBlock& block);

  const ArenaOptions& options_;
  BlockStore& store_;
  const ArenaTable& table_;
  std::array<Shelf, kSizeClasses> shelves_;
  std::array<Lane, kLanes> lanes_;

  ThreadMutex wait_mutex_;  // Guards sleeping, no data.
  ThreadCondition released_;
  std::atomic<int> waiting_{0};
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_BLOCK_SHELVES_H_
