// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Arena: blocks of pooled memory, which this process writes and lends to others
// without a system call. Block: a reference to one of them.
//
//   TENON_ASSIGN_OR_RETURN(auto arena, Arena::Create({.name = "frames"}));
//   TENON_ASSIGN_OR_RETURN(Block block,
//                          arena->Allocate(frame_bytes, Deadline::Never()));
//   Fill(block.data());
//   TENON_ASSIGN_OR_RETURN(BlockDescriptor message, block.Describe());
//   // Send it; keep `block` until the receiver has acknowledged. The memory is
//   // reused once no process holds it any more, by release or by death.
//
// The other end is attached_arena.h. Holders are never guessed: each process
// records its claims in memory that it alone writes (ledger/column.h).

#ifndef TENON_SHM_ARENA_ARENA_H_
#define TENON_SHM_ARENA_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"

namespace tenon {

class Block;
class BlockStore;
class OwnStorages;
struct ArenaParts;
struct OwnedBlock;

// Ownership: held by shared_ptr, which each Block has; owns the memory. When
//   the last reference is dropped, and the last tensor of CreateTensor(), the
//   arena is closed: blocks held by peers stay valid, and their memory is freed
//   with the last holder.
// Threads: thread-safe. Allocating a free block does not block; every call that
//   reads the ledger (reclaiming, growing, Offer(), reports) takes a lock that
//   another thread may hold while the kernel creates a segment, or while a
//   report reads each cell; no deadline bounds that.
// Processes: of the process that created it. In a forked child calls fail with
//   kFailedPrecondition, and nothing is freed.
// Trust: claims of peers are read from memory that they write. A hostile
//   process that was offered the arena can keep any of its blocks from being
//   reused for as long as it lives, and Holders() names it; it can flood the
//   inbox with attachments (1,024 are received at a time) or shut it, so that
//   no other process can attach. One that the owner refuses to attach may hold
//   any block that was handed out before, and none that is handed out later.
//   It cannot write outside of its own memory,
//   crash the owner, or cause the reuse of a block that an honest process
//   holds.
// Failure: a failed call has no visible effect.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // Allocates no memory yet except for control.
  // Errors: kInvalidArgument for a bad name or bound; kResourceExhausted naming
  // the limit.
  static absl::StatusOr<std::shared_ptr<Arena>> Create(
      const ArenaOptions& options = {});
  // The same with blocks in other memory, for libraries that have a BlockStore
  // (block_store.h). The store replaces ArenaOptions::segment.
  // Errors: also the store's, for options that it does not support.
  static absl::StatusOr<std::shared_ptr<Arena>> Create(
      const ArenaOptions& options, std::unique_ptr<BlockStore> store);

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  const RandomId& id() const;
  const ArenaOptions& options() const;
  const BlockStore& store() const;
  // Where the blocks are: kDLCPU unless the store says otherwise.
  const DLDevice& device() const;

  // A block of at least `bytes`, aligned to 64 bytes, from one page on to the
  // page. Its contents are undefined unless ArenaOptions::wipe. Uses, in this
  // order: a free block; blocks that all peers have released, oldest first (an
  // attempt checks 2,048 of them); new memory, up to the quota; then waits
  // until `deadline` for a holder to release or die. Deadline::Passed() tries
  // once. Errors: kInvalidArgument if no block can ever be so large;
  // kDeadlineExceeded, or kResourceExhausted with Deadline::Passed() or if the
  // system has no memory: both name quota, use and the top holders. At once:
  // kResourceExhausted naming the limit if the block exceeds RLIMIT_FSIZE, the
  // size of /dev/shm (kFileSystem) or all memory of the machine or its cgroup;
  // errors of the store that are of no shortage, such as a lost device.
  absl::StatusOr<Block> Allocate(size_t bytes, Deadline deadline);
  absl::StatusOr<Block> TryAllocate(size_t bytes);

  // The message that a process needs once before it can claim blocks of
  // `block`'s segment.
  // Errors: kInvalidArgument if the block is not of this arena.
  absl::StatusOr<ArenaOffer> Offer(const Block& block);

  // Call before a block is sent to the holder whose column is `column`: OK if
  // it may get `more_bytes` more under ArenaOptions::quota_bytes_per_holder.
  // Counts the blocks it holds, not blocks in flight that it has not claimed
  // yet: bound those by the length of the queue. A process that is not attached
  // yet holds nothing. The id is untrusted: a process that copies another's id
  // early enough is counted under it.
  // Errors: kResourceExhausted naming holder, quota and use.
  absl::Status CheckHolder(const RandomId& column, size_t more_bytes);

  // Reclaims all released blocks, and returns whole idle segments to the
  // system. Returns the number of bytes. Processes that have them mapped keep
  // the memory until they next call AttachedArena::Add() or Sweep().
  absl::StatusOr<size_t> Trim();

  // The holders and their use, most bytes first; this process's own blocks are
  // pid getpid(). Reads each cell of each block: for reports, not for loops.
  absl::StatusOr<std::vector<HolderUse>> Holders();

  // Memory in use, and counters of reclaiming.
  ArenaUse Use() const;

 private:
  friend class Block;
  friend class OwnStorages;
  class Ended;

  explicit Arena(std::unique_ptr<ArenaParts> parts);
  // Of its last reference.
  static void End(Arena* arena);

  // A block with one reference, and its release. Errors: Allocate()'s.
  absl::StatusOr<OwnedBlock*> Take(size_t bytes, Deadline deadline);
  absl::StatusOr<OwnedBlock*> TakeInline(size_t bytes, Deadline deadline);
  Block ReferTo(OwnedBlock& block);
  // For the CPU: without an address if it is of a device.
  std::span<std::byte> BytesOf(const OwnedBlock& block) const;
  void Release(OwnedBlock& block);

  // How many storages OwnStorages keeps.
  std::atomic<uint32_t>& kept();

  const std::unique_ptr<ArenaParts> parts_;
};

// The owner's reference to a block. While one exists, or any process holds the
// block, its memory is not reused.
// Ownership: shared by copies; the last one releases the block. Empty when
// moved from.
// Threads: thread-compatible; copies may be used and dropped in any thread.
// Processes: inert in a forked child.
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

  // Null and 0 if empty. The size is that of the block, not the requested one.
  // Memory that the CPU cannot access has no data() and no bytes(), only a size
  // and an address(), so that an access by mistake ends at address 0.
  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  std::span<std::byte> bytes() const {
    return data() == nullptr ? std::span<std::byte>() : bytes_;
  }
  // In the memory of the arena's store: on a device the device's address. 0 if
  // empty.
  uintptr_t address() const;

  // Describes it, or `size` bytes of it from `offset` on, for a message. From
  // then on other processes may hold it.
  // Errors: kFailedPrecondition if empty or in a forked child; kInvalidArgument
  // if the range exceeds the block.
  absl::StatusOr<BlockDescriptor> Describe() const;
  absl::StatusOr<BlockDescriptor> Describe(size_t offset, size_t size) const;
  // The same as the first without a status: false on any error.
  bool DescribeTo(BlockDescriptor& block) const;

  const std::shared_ptr<Arena>& arena() const { return arena_; }

  // Drops the reference.
  void Reset();

 private:
  friend class Arena;
  friend class OwnStorages;
  Block(std::shared_ptr<Arena> arena, OwnedBlock* block,
        std::span<std::byte> bytes)
      : arena_(std::move(arena)), block_(block), bytes_(bytes) {}

  std::shared_ptr<Arena> arena_;
  OwnedBlock* block_ = nullptr;
  std::span<std::byte> bytes_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_H_
