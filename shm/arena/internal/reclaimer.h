// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Reclaimer: makes released blocks of an arena free that no process holds any
// more, by the owner's half of the lease protocol (ledger/free_test.h), and
// tells which process holds what. Internal to Arena.

#ifndef TENON_SHM_ARENA_INTERNAL_RECLAIMER_H_
#define TENON_SHM_ARENA_INTERNAL_RECLAIMER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/block_shelves.h"
#include "tenon/shm/arena/internal/quarantine.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/free_test.h"

namespace tenon {

// Ownership: what the constructor is given is not owned and outlives the
//   Reclaimer.
// Threads: thread-compatible; guarded by the arena's lock. The locks of shelves
//   are acquired under it, for some instructions each.
// Trust: cells are memory that their holders write. A hostile process can only
//   keep blocks from being reclaimed.
class Reclaimer {
 public:
  Reclaimer(const ArenaOptions& options, const ArenaTable& table,
            Attachments& attachments, const SegmentTable& segments,
            BlockShelves& shelves,
            absl::Duration quarantine = absl::ZeroDuration());
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;
  ~Reclaimer() { attachments_.OnEnd(nullptr); }

  // Receives attachments, if 20 ms have passed since the last call that did,
  // and now and then removes those of processes that have exited.
  void PollInbox();

  // Tests released blocks of a size class, oldest first, until a batch of 64
  // contains one that becomes free; 2,048 blocks at most.
  void ReclaimSome(size_t size_class);
  // Tests all released blocks.
  void ReclaimAll();

  // As those of Arena.
  std::vector<HolderUse> Holders();
  absl::Status CheckHolder(const RandomId& column, size_t more_bytes);
  // Fills in the figures of attachments and tests.
  void Report(ArenaUse& use);
  // For errors: the top holders, and what keeps blocks from being reclaimed.
  std::string DescribeShortage();

 private:
  // All that is held under one column's name.
  struct Held {
    const Attachment* holder = nullptr;  // Null if it is not attached.
    size_t bytes = 0;
  };

  enum class Until { kSome, kAll };
  void Reclaim(size_t size_class, size_t most, Until until);
  size_t ReclaimReleased(size_t size_class, size_t most, Until until);
  bool ReturnWithheld(size_t size_class);
  void QuarantineBlocksOf(const Attachment* ended);
  size_t ReclaimBatch(size_t size_class, std::vector<OwnedBlock*>& batch);
  void CountRacingHolders();
  void Count(const OwnedBlock& block, uint64_t now_ms, HolderUse& holder) const;
  bool Holds(size_t column, const OwnedBlock& block) const;
  Held HeldBy(const RandomId& column) const;
  absl::Status BeyondQuota(const Held& held, size_t more_bytes) const;
  void DropCreditOfExited();

  const ArenaOptions& options_;
  const ArenaTable& table_;
  Attachments& attachments_;
  const SegmentTable& segments_;
  BlockShelves& shelves_;

  FreeTest<Attachments> free_test_;
  std::vector<ReclaimCandidate> candidates_;  // Parallel to a batch.
  std::vector<OwnedBlock*> reclaimed_;        // Of a batch.

  // Released blocks of a size class that refused processes may hold, on no
  // shelf until that changes.
  struct Withheld {
    std::vector<OwnedBlock*> blocks;
    // Attachments::newest_refusal() when they were last compared with it.
    uint64_t newest_refusal = 0;
  };
  std::array<Withheld, kSizeClasses> withheld_;
  Quarantine quarantine_;  // Reclaimed blocks, on no shelf either.

  uint64_t polled_ms_ = 0;
  uint64_t removed_exited_ms_ = 0;
  // Bytes that a holder may be sent before its cells are read again.
  std::map<RandomId, size_t> credit_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_RECLAIMER_H_
