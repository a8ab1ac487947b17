// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ReceivedBlocks: the storages of the blocks that an importer has received from
// one arena, kept for later messages. Internal to ArenaTensorImporter.
//
// A sender uses its blocks again and again. So a receiver keeps the storage of
// each, and hands it out for each message by a shared_ptr whose control block
// is kept with it: no allocation, and no atomic step but those of the claim and
// of its release.

#ifndef TENON_SHM_ARENA_INTERNAL_RECEIVED_BLOCKS_H_
#define TENON_SHM_ARENA_INTERNAL_RECEIVED_BLOCKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/internal/kept_object.h"
#include "tenon/shm/arena/kept_block.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {

// The lease of a received storage.
class ReceivedLease final : public Storage::Lease {
 public:
  ReceivedLease(AttachedArena* arena, const BlockDescriptor& block)
      : arena_(*arena), bytes_(block), generation_(block.generation) {}

  AttachedArena& arena() const { return arena_; }
  BlockDescriptor block() const {
    BlockDescriptor block = bytes_;
    block.generation = generation_.load(std::memory_order_relaxed);
    return block;
  }
  // Whether `block` names the same bytes, of whatever generation.
  bool Has(const BlockDescriptor& block) const {
    return bytes_.block == block.block && bytes_.segment == block.segment &&
           bytes_.offset == block.offset && bytes_.size == block.size;
  }
  void SetGeneration(uint64_t generation) {
    // A storage in use has a claim, which keeps the generation.
    if (generation_.load(std::memory_order_relaxed) == generation) return;
    generation_.store(generation, std::memory_order_relaxed);
  }

 private:
  AttachedArena& arena_;
  const BlockDescriptor bytes_;  // But for its generation.
  std::atomic<uint64_t> generation_;
};

// Ownership: owns the storages; those that it has handed out refer to it.
//   Destroy it by Abandon().
// Threads: thread-compatible; storages are released in any thread.
// Processes: inert in a forked child: storages release no claim there.
class ReceivedBlocks final : public KeptObject {
 public:
  explicit ReceivedBlocks(std::shared_ptr<AttachedArena> arena);
  ~ReceivedBlocks() override;

  AttachedArena& arena() const { return *arena_; }

  // Claims the bytes. Storages of the same bytes that are in use at the same
  // time are one storage, with one claim for each message.
  // Sets `kept`, if given, for ClaimAgain().
  // Errors: AttachedArena::Claim()'s.
  absl::StatusOr<std::shared_ptr<Storage>> Claim(const BlockDescriptor& block,
                                                 KeptBlock* kept = nullptr);
  // Claims the bytes of a block once more, if they are of that generation. The
  // caller has the lock under which the block was claimed and is dropped. Null
  // if it was dropped, or the claim fails: call Claim(), which returns the
  // reason.
  static std::shared_ptr<Storage> ClaimAgain(const KeptBlock& kept,
                                             uint64_t generation);

  // Destroys storages that are not in use, of segments that are not mapped.
  void DropUnmapped();
  // Whether one of its storages is in use. Looks at each.
  bool IsInUse() override;

  // As KeptObject::Abandon(); ends the epoch.
  static void Abandon(std::unique_ptr<ReceivedBlocks> blocks);

 private:
  class Block;

  // Counts up before any block of this process is destroyed, or abandoned.
  static std::atomic<uint64_t> epoch_;
  static void EndEpoch() { epoch_.fetch_add(1, std::memory_order_relaxed); }
  std::shared_ptr<Storage> HandOut(Block& block, uint64_t generation,
                                   KeptBlock* kept);

  size_t size() const { return blocks_.size() + replaced_.size(); }
  template <typename Predicate>
  void Drop(const Predicate& is_dropped);

  const std::shared_ptr<AttachedArena> arena_;
  // By the number of the block; those that have been replaced while in use.
  absl::flat_hash_map<uint32_t, std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Block>> replaced_;
  size_t drop_at_;  // A size().
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_RECEIVED_BLOCKS_H_
