// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Column: this process's part of the ledger. Records which blocks of which
// arenas it holds, in memory that it writes and other processes can only read.
//
//   TENON_ASSIGN_OR_RETURN(auto column, Column::OfThisProcess());
//   TENON_ASSIGN_OR_RETURN(ColumnRange range, column->Enter(arena, blocks));
//   TENON_RETURN_IF_ERROR(column->Reserve(range, first_block, block_count));
//   Lease<>::Claim(range.cells[block], generation, expected);
//
// A process that dies leaves its column as it is: it needs no repair, because
// the owners of arenas ignore the columns of dead processes. Internal to the
// ledger; users have AttachedArena.

#ifndef TENON_SHM_LEDGER_COLUMN_H_
#define TENON_SHM_LEDGER_COLUMN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/range_allocator.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {

// The cells of one arena in this process's column, one for each block.
struct ColumnRange {
  uint64_t first_cell = 0;
  uint64_t count = 0;
  uint32_t directory_entry = 0;
  SharedWord<uint64_t>* cells = nullptr;
};

// Ownership: held by shared_ptr; owns a memfd of 1 GiB of addresses, of which
//   only reserved pages take memory. It is freed with its last user; mappings
//   of the owners of arenas remain.
// Threads: thread-safe.
// Processes: one per process. A forked child does not inherit the mapping, and
//   gets a column of its own from OfThisProcess().
// Failure: a failed call has no effect.
class Column {
 public:
  // The column of this process, created on the first call.
  // Errors: kResourceExhausted naming the limit.
  static absl::StatusOr<std::shared_ptr<Column>> OfThisProcess();

  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  const RandomId& id() const { return id_; }
  // To send to the owners of arenas.
  int fd() const { return memory_.fd(); }

  // Assigns `arena` a range of `blocks` cells, not yet reserved, and lists it
  // in the directory.
  // Errors: kResourceExhausted if the column is full.
  absl::StatusOr<ColumnRange> Enter(const RandomId& arena, uint64_t blocks);

  // Allocates memory for the cells of blocks [first, first + count), which may
  // be accessed from then on. Idempotent. Errors: kResourceExhausted naming the
  // limit.
  absl::Status Reserve(const ColumnRange& range, uint64_t first,
                       uint64_t count) const;

  // Ends what Enter() began. The cells, which must hold no claims, are reused
  // only when the arena's owner does not read them any more. Shutting `lease`,
  // whose other end the owner has, notifies it and cannot fail; once the owner
  // has seen it, the lease becomes readable or hangs up here. Without a lease
  // the cells are free at once: the owner never knew of them. They are also
  // free once the owner of `inbox` (inbox_owner.h) has ended, whose end of the
  // lease a forked child may have inherited. `until_free` is kept until the
  // cells are free. Needs no descriptor: at a limit of them the inbox is kept.
  void Leave(const ColumnRange& range, UniqueFd lease,
             UniqueFd inbox = UniqueFd(),
             std::shared_ptr<const void> until_free = nullptr);

  // Frees cells after Leave() that owners do not read any more. Enter() and
  // Leave() do so as well. One system call for each RLIMIT_NOFILE of them.
  void FreeDropped();

 private:
  struct Left {
    ColumnRange range;
    UniqueFd lease;
    UniqueFd inbox;  // Until its owner is known.
    std::shared_ptr<const void> until_free;
    std::optional<PidFd> owner = std::nullopt;
    bool owner_has_ended = false;

    void LearnOwner();
  };

  Column(RandomId id, ControlMemory memory);
  static absl::StatusOr<std::shared_ptr<Column>> Create();
  void FreeDroppedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(const ColumnRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RandomId id_;
  const ControlMemory memory_;

  ThreadMutex mutex_;
  RangeAllocator free_cells_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> entry_used_ ABSL_GUARDED_BY(mutex_);
  std::vector<Left> left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_COLUMN_H_
