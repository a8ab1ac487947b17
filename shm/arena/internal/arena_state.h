// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArenaState: what arena.h keeps. Blocks wait on shelves, one for each size;
// the ledger says which of those let go can be used again.
//
// Two kinds of lock: a shelf's, held for some instructions; and the ledger's,
// held for a take-back or while a segment is made. A shelf's may be taken under
// the ledger's, never the other way round.

#ifndef TENON_SHM_ARENA_INTERNAL_ARENA_STATE_H_
#define TENON_SHM_ARENA_INTERNAL_ARENA_STATE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/free_test.h"
#include "tenon/shm/ledger/range_allocator.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

struct OwnedSegment;

// A block, for the process that owns it.
struct OwnedBlock {
  std::atomic<uint32_t> references{0};  // Block objects.
  // Since it was last taken back, somebody else may have been told of it.
  std::atomic<bool> exposed{false};
  bool generation_bumped = false;  // See TakeBackCandidate.
  bool used = false;               // Has bytes of a former use.
  uint32_t number = 0;
  OwnedSegment* segment = nullptr;

  std::byte* data() const;
  size_t size() const;
};

struct OwnedSegment {
  OwnedSegment(const ArenaSegment& listing, Segment memory,
               WritableMapping mapped)
      : listed(listing),
        segment(std::move(memory)),
        mapping(std::move(mapped)),
        blocks(new OwnedBlock[listing.block_count]) {}

  size_t bytes() const { return segment.size_bytes(); }

  const ArenaSegment listed;
  const Segment segment;
  const WritableMapping mapping;
  const std::unique_ptr<OwnedBlock[]> blocks;
  size_t blocks_on_shelf = 0;  // Free ones; under the shelf's lock.
};

inline std::byte* OwnedBlock::data() const {
  return segment->mapping.data() +
         (number - segment->listed.first_block) * segment->listed.block_bytes;
}
inline size_t OwnedBlock::size() const { return segment->listed.block_bytes; }

// The blocks of one size that nobody here uses.
struct Shelf {
  std::mutex mutex;
  std::vector<OwnedBlock*> free;   // Last in, first out: warm in the cache.
  std::deque<OwnedBlock*> let_go;  // Others may hold them; oldest first.
  std::atomic<uint32_t> segments{0};
};

class ArenaState {
 public:
  static absl::StatusOr<std::unique_ptr<ArenaState>> Create(
      const ArenaOptions& options);
  ~ArenaState();

  // Arena's functions, with a block instead of a Block.
  absl::StatusOr<OwnedBlock*> Allocate(size_t bytes, Deadline deadline);
  absl::Status CheckHolder(const RandomId& column, size_t more_bytes);
  absl::StatusOr<size_t> Trim();
  absl::StatusOr<std::vector<HolderUse>> Holders();
  ArenaUse Use();

  // The last reference has gone.
  void LetGo(OwnedBlock& block);

  const ArenaOptions& options() const { return options_; }
  const RandomId& id() const { return table_.header().arena; }
  const ArenaTable& table() const { return table_; }
  int inbox() const { return attachments_.socket(); }
  bool inherited() const { return fork_count_ != ForkCount(); }
  absl::Status CheckUsable() const;

  // Takes in the processes that have attached until now.
  void LookIntoInbox();
  // The same, now and then: to be called for each block that is allocated or
  // described. Without a system call but for one or two in some 20 ms, and
  // without waiting for a lock. So that processes can attach to an owner that
  // is never short of memory (model: limit), and find their cells free.
  void LookNowAndThen() {
    const uint32_t calls = calls_.load(std::memory_order_relaxed) + 1;
    calls_.store(calls, std::memory_order_relaxed);
    if (calls % kCallsToALook == 0) [[unlikely]]
      LookIfItIsTime();
  }

 private:
  using Ledger = FreeTest<Attachments>;

  // How many blocks of a shelf one try to allocate looks at.
  static constexpr size_t kLookedAt = 2048;
  // An inbox holds some 278 messages; a process that attaches was sent a block.
  static constexpr uint32_t kCallsToALook = 64;

  ArenaState(const ArenaOptions& options, ArenaTable table,
             Attachments attachments);

  // Whether blocks are made inaccessible while nobody has them.
  bool Protects(size_t block_bytes) const {
    return options_.debug == ArenaDebug::kProtect && block_bytes >= kPageBytes;
  }
  bool Protects(const OwnedBlock& block) const {
    return Protects(block.size());
  }

  void LookIfItIsTime();
  // nullptr if there is none.
  OwnedBlock* TakeFree(Shelf& shelf);
  // Errors: kResourceExhausted; it is on its shelf again.
  absl::StatusOr<OwnedBlock*> MakeReady(OwnedBlock& block, Shelf& shelf);
  void MakeFree(OwnedBlock& block);
  absl::StatusOr<OwnedBlock*> TryOnce(size_t block_bytes, Shelf& shelf);
  void WaitForRelease(absl::Duration at_most);
  absl::Status NoBlock(size_t block_bytes, bool waited,
                       const absl::Status& reason);

  // --- With the ledger's lock. ---

  // Looks once at each block let go, oldest first: at no more than `most`, and
  // no further than the first batch of which something became free if `enough`
  // says so. Returns how many became free.
  enum class Until { kSome, kAll };
  size_t TakeBack(Shelf& shelf, size_t most, Until enough);
  size_t TakeBackBatch(Shelf& shelf, std::vector<OwnedBlock*>& batch);
  void NoteMovers();
  size_t TakeBackAll();
  absl::Status Grow(size_t block_bytes, Shelf& shelf);
  uint32_t FreeSlot() const;
  absl::StatusOr<ArenaSegment> PlanSegment(size_t block_bytes, Shelf& shelf);
  absl::Status MakeSegment(const ArenaSegment& plan, Shelf& shelf);
  size_t RetireIdleSegments();
  void Retire(OwnedSegment& segment, Shelf& shelf);
  std::vector<HolderUse> HoldersLocked();
  size_t BytesHeldBy(size_t column) const;
  void ForgetCreditOfTheEnded();
  template <typename Visit>
  void ForEachBlock(Visit visit) const;

  const ArenaOptions options_;
  const uint64_t fork_count_ = ForkCount();
  ArenaTable table_;
  std::array<Shelf, kSizeClasses> shelves_;

  mutable std::mutex ledger_mutex_;
  Attachments attachments_;
  Ledger ledger_;
  std::vector<TakeBackCandidate> candidates_;
  RangeAllocator free_numbers_;
  std::array<std::unique_ptr<OwnedSegment>, ArenaTableLayout::kMaxSegments>
      segments_;
  std::array<uint64_t, ArenaTableLayout::kMaxSegments> next_id_ = {};
  size_t bytes_ = 0;
  std::map<RandomId, size_t> credit_;  // See CheckHolder().

  std::atomic<uint32_t> calls_{0};  // Not exact if threads race.
  uint64_t looked_ms_ = 0;          // With the ledger's lock.
  uint64_t buried_ms_ = 0;

  std::mutex wait_mutex_;
  std::condition_variable released_;
  std::atomic<int> waiting_{0};
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_ARENA_STATE_H_
