// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Quarantine: keeps blocks from being used again for a while after the end of a
// process that held them. Internal to Reclaimer.
//
// A process's end is known before all of its work on a device has stopped, and
// that work may still write. The store tells how long that can take
// (BlockStore::Facts::quarantine); for memory of the CPU it is no time.

#ifndef TENON_SHM_ARENA_INTERNAL_QUARANTINE_H_
#define TENON_SHM_ARENA_INTERNAL_QUARANTINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Ownership: the blocks are the segments'. Those held back are on no shelf.
// Threads: thread-compatible; guarded by the arena's lock.
class Quarantine {
 public:
  explicit Quarantine(absl::Duration length) : length_(length) {}

  bool is_off() const { return length_ <= absl::ZeroDuration(); }

  // A process that held the block has ended, whatever the block's state now.
  void Add(uint32_t block);
  // The same of a process that may have held any block.
  void AddAll() { all_until_ = Deadline::After(length_); }

  // Of `blocks`, which no process holds any more: removes and keeps those that
  // may not be used yet.
  void HoldBack(size_t size_class, std::vector<OwnedBlock*>& blocks);
  // Those kept ones that may be used now. No system call if none is kept.
  std::vector<OwnedBlock*> Return(size_t size_class);

  // How many of the kept blocks may not be used yet; for errors, empty if none.
  size_t CountHeldBack() const { return HeldBack().blocks; }
  std::string Describe() const;

 private:
  struct Kept {
    OwnedBlock* block;
    Deadline until;
  };

  struct Sum {
    size_t blocks = 0;
    size_t bytes = 0;
  };

  Sum HeldBack() const;
  Deadline Until(uint32_t block) const;

  const absl::Duration length_;
  // By the number of the block. Forgotten once all have passed.
  absl::flat_hash_map<uint32_t, Deadline> until_;
  Deadline last_ = Deadline::Passed();  // Of until_.
  Deadline all_until_ = Deadline::Passed();
  std::array<std::vector<Kept>, kSizeClasses> kept_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_QUARANTINE_H_
