// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BlockStore: where an arena keeps the bytes of its blocks, in the process that
// owns it. Blocks, their sizes, quotas, the ledger, reclaiming, reports and
// offers are the arena's, whatever its store.
//
//   class DeviceStore final : public BlockStore {
//    public:
//     explicit DeviceStore(const Facts& facts) : BlockStore(facts) {}
//     absl::StatusOr<std::unique_ptr<StoredSegment>> Create(
//         size_t bytes) override;
//   };
//
//   auto arena = Arena::Create(options, std::make_unique<DeviceStore>(facts));
//
// For libraries of other memory; users of arenas never see it. An arena calls
// its store for each segment, and for a block only if ArenaOptions::wipe or
// ::debug is set: taking a free block and releasing one call nothing of it.

#ifndef TENON_SHM_ARENA_BLOCK_STORE_H_
#define TENON_SHM_ARENA_BLOCK_STORE_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/device.h"

namespace tenon {

// Ownership: of its arena; outlives all segments that it has made.
// Threads: the arena calls Create() under its lock. The calls for blocks run
//   concurrently, each for another block.
// Processes: not called in a forked child, except for the destruction of it and
//   of its segments.
// Failure: a failed call leaves nothing behind.
class BlockStore {
 public:
  // Constant.
  struct Facts {
    MemoryKindId kind = MemoryKindId::kCpu;
    DeviceIdentity identity = {};  // Zeros if the kind has no devices.
    // In this process. Unless IsOnCpu(), blocks have no address that the CPU
    // may access (Block::data()).
    DLDevice device = kCpuDevice;
    // How its segments are offered: all by descriptor or all by name.
    SharingStrategy strategy = SharingStrategy::kFileDescriptor;
    // The size of each segment is a multiple of `segment_unit`. Further
    // segments of a size of blocks grow up to `largest_segment`; a larger block
    // has a segment of its own.
    size_t segment_unit = 1;
    size_t largest_segment = size_t{32} << 20;
    // How long a process that has ended may still write to blocks that it held.
    // They are not used again for so long after the arena has seen its end,
    // which takes no thread, and no call of the arena waits for it.
    absl::Duration quarantine = absl::ZeroDuration();
    // Of each block, in its segment: a power of two, at least 64.
    size_t block_alignment = 64;
  };

  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  virtual ~BlockStore() = default;

  const Facts& facts() const { return facts_; }
  bool is_of_cpu() const { return IsOnCpu(facts_.device); }

  // Whether arenas with these options can use it; called once, before any
  // other. By default `wipe` and `debug` are refused.
  // Errors: kInvalidArgument naming the option.
  virtual absl::Status CheckOptions(const ArenaOptions& options) const;

  // A new segment, zeroed if blocks of a new segment are to be zero, and mapped
  // writable here.
  // Errors: kResourceExhausted naming the limit: the arena then tries a smaller
  // segment.
  virtual absl::StatusOr<std::unique_ptr<StoredSegment>> Create(
      size_t bytes) = 0;

  // For ArenaOptions::wipe: zeroes the bytes of a block that was used before.
  // They are zero when it returns.
  virtual absl::Status Wipe(std::byte* block, size_t bytes);
  // For ArenaOptions::debug: fills the bytes with kPoison. A failure makes a
  // bug elsewhere harder to see, and is ignored.
  virtual void Poison(std::byte* /*block*/, size_t /*bytes*/) {}
  // For ArenaDebug::kProtect, for blocks of a page and more: makes the bytes
  // inaccessible to this process, and accessible again. After an error they are
  // as they were.
  virtual absl::Status Protect(std::byte* block, size_t bytes);
  virtual absl::Status Unprotect(std::byte* block, size_t bytes);

 protected:
  static constexpr int kPoison = 0xDF;

  explicit BlockStore(const Facts& facts) : facts_(facts) {}

 private:
  const Facts facts_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_BLOCK_STORE_H_
