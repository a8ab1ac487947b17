// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Arena: blocks of pooled memory, which this process writes and lends to others
// without a system call. Block: one of them.
//
//   TENON_ASSIGN_OR_RETURN(auto arena, Arena::Create({.name = "frames"}));
//   TENON_ASSIGN_OR_RETURN(Block block,
//                          arena->Allocate(frame_bytes, Deadline::Never()));
//   Fill(block.data());
//   TENON_ASSIGN_OR_RETURN(BlockDescriptor message, block.Describe());
//   // Send it; keep `block` until the receiver has acknowledged. The memory is
//   // reused once no process holds it any more, by release or by death.
//
// The other end is attached_arena.h. Who holds what is never guessed: each
// process says it in memory that it alone writes (ledger/column.h).

#ifndef TENON_SHM_ARENA_ARENA_H_
#define TENON_SHM_ARENA_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"

namespace tenon {

class ArenaState;
class Block;
struct OwnedBlock;

// Ownership: held by shared_ptr, which each Block has; owns the memory. When
//   the last of them goes the arena is closed: memory that others hold stays
//   theirs, and goes with the last of them.
// Threads: thread-safe. Allocating from what is free waits for nobody; whatever
//   looks at the ledger (taking back, growing, Offer(), reports) takes a lock
//   that another thread may hold for as long as the kernel needs to make a
//   segment, or a report to read each cell, and no deadline bounds that.
// Processes: of the process that created it. In a forked child calls fail with
//   kFailedPrecondition, and nothing is freed.
// Trust: what others hold is read from memory that they write. A hostile
//   process that was offered the arena can keep any of its blocks from being
//   used again, for as long as it lives, and is named for it (Holders()); it
//   can send so many attachments (1,024 are taken at a time) or shut the inbox,
//   so that nobody else can attach. It cannot write what is not its own, crash
//   the owner, or have a block reused that an honest process holds.
// Failure: a failed call has changed nothing that can be seen.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // Takes no memory yet but for control.
  // Errors: kInvalidArgument for a bad name or bound; kResourceExhausted naming
  // the limit.
  static absl::StatusOr<std::shared_ptr<Arena>> Create(
      const ArenaOptions& options = {});

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  const RandomId& id() const;
  const ArenaOptions& options() const;

  // A block of at least `bytes`, aligned to 64 bytes, from one page on to the
  // page. What is in it is undefined unless ArenaOptions::wipe. Takes, in this
  // order: a block that is free; blocks that all others have released by now,
  // oldest first (it looks at 2,048 of them at a try); new memory, up to the
  // quota; then waits until `deadline` for somebody to release or die.
  // Deadline::Passed() tries once. Errors: kInvalidArgument if no block can
  // ever be so large; kDeadlineExceeded, or kResourceExhausted if it was not to
  // wait or the system has no memory: both name quota, use and the top holders.
  absl::StatusOr<Block> Allocate(size_t bytes, Deadline deadline);
  absl::StatusOr<Block> TryAllocate(size_t bytes);

  // What a process needs once before it can claim blocks of this one's segment.
  // Errors: kInvalidArgument if the block is not of this arena.
  absl::StatusOr<ArenaOffer> Offer(const Block& block);

  // To be called before a block is sent to the holder whose column is
  // `column`: whether it may get that many bytes more, by
  // ArenaOptions::quota_bytes_per_holder. Counts what it holds, and not what
  // was sent before its last look and is not claimed yet: bound that by the
  // length of the queue. A process not attached yet holds nothing. The id is
  // the holder's word: who copies another's early enough is counted for it.
  // Errors: kResourceExhausted naming holder, quota and use.
  absl::Status CheckHolder(const RandomId& column, size_t more_bytes);

  // Takes back all that can be, and gives whole segments that are idle then to
  // the system. Returns how many bytes. Processes that have them mapped keep
  // the memory until they next call AttachedArena::Add() or Sweep().
  absl::StatusOr<size_t> Trim();

  // Who holds how much now, most bytes first; this process's own blocks are
  // pid getpid(). Reads each cell of each block: for reports, not for loops.
  absl::StatusOr<std::vector<HolderUse>> Holders();

  // How much there is, and how taking back went.
  ArenaUse Use() const;

 private:
  friend class Block;

  explicit Arena(std::unique_ptr<ArenaState> state);

  const std::unique_ptr<ArenaState> state_;
};

// A reference to a block, of its owner. While there is one, or anybody else
// holds the block, its memory is not used for anything else.
// Ownership: shared by copies; the last lets go. Empty when moved from.
// Threads: thread-compatible; copies may be used and dropped in any thread.
// Processes: in a forked child inert.
class Block {
 public:
  Block() = default;
  Block(const Block& other);
  Block(Block&& other) noexcept
      : arena_(std::move(other.arena_)),
        block_(std::exchange(other.block_, nullptr)),
        bytes_(std::exchange(other.bytes_, {})) {}
  Block& operator=(Block other) noexcept {
    arena_.swap(other.arena_);
    std::swap(block_, other.block_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Block() {
    if (block_ != nullptr) Reset();
  }

  // Null and 0 if empty. The size is that of the block, not what was asked for.
  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  std::span<std::byte> bytes() const { return bytes_; }

  // Names it, or `size` bytes of it from `offset` on, for a message. From then
  // on other processes may hold it.
  // Errors: kFailedPrecondition if empty or in a forked child;
  // kInvalidArgument if it has no such bytes.
  absl::StatusOr<BlockDescriptor> Describe() const;
  absl::StatusOr<BlockDescriptor> Describe(size_t offset, size_t size) const;

  const std::shared_ptr<Arena>& arena() const { return arena_; }

  // Lets go.
  void Reset();

 private:
  friend class Arena;
  Block(std::shared_ptr<Arena> arena, OwnedBlock* block,
        std::span<std::byte> bytes)
      : arena_(std::move(arena)), block_(block), bytes_(bytes) {}

  std::shared_ptr<Arena> arena_;
  OwnedBlock* block_ = nullptr;
  std::span<std::byte> bytes_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_H_
