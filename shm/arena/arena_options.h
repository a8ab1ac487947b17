// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What an arena can be asked for.

#ifndef TENON_SHM_ARENA_ARENA_OPTIONS_H_
#define TENON_SHM_ARENA_ARENA_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "tenon/shm/segment/segment.h"

namespace tenon {

// Finds who uses a block after letting it go, at a price.
enum class ArenaDebug {
  kNone,
  // A block is filled with 0xDF as it is taken back: a stale view reads that.
  kPoison,
  // Blocks of a page and more are unmapped for their owner while they are free:
  // a stale view ends with SIGSEGV where it is used. Smaller ones as kPoison.
  kProtect,
};

struct ArenaOptions {
  // For messages and reports; up to 39 printable characters.
  std::string name = "arena";
  // Of its segments. The strategy is that of segment.strategy, or if that is
  // not set GetSharingStrategy(). Segments under kFileSystem cannot be sealed:
  // for groups that trust each other.
  SegmentOptions segment;
  // kSharedWritable: whoever holds a block may write it.
  SegmentKind kind = SegmentKind::kOwnerWritten;

  // All segments together. Whole segments count, also for blocks that are free.
  size_t quota_bytes = std::numeric_limits<size_t>::max();
  // See Arena::CheckHolder().
  size_t quota_bytes_per_holder = std::numeric_limits<size_t>::max();
  // How many blocks there can be at a time, in all segments; rounded up to a
  // multiple of 8192, at most 2^24. Costs addresses, not memory: 8 bytes a
  // block here and in each process that attaches.
  uint64_t max_blocks = uint64_t{1} << 18;
  // Small blocks come in segments of about this size and more.
  size_t segment_bytes = size_t{256} << 10;

  // Zeroes a block before it is used again, so that nothing of a former use
  // goes along with what is shorter. Hides nothing from those who are attached:
  // they can read all blocks of the arena at any time. Processes that may not
  // see one another's data need an arena each.
  bool wipe = false;
  ArenaDebug debug = ArenaDebug::kNone;
};

// See Arena::Use().
struct ArenaUse {
  size_t segments = 0;
  size_t segment_bytes = 0;  // Against the quota.
  size_t blocks_in_use = 0;  // The owner holds them.
  size_t blocks_let_go = 0;  // By the owner; not taken back yet.
  size_t blocks_free = 0;
  size_t attached = 0;       // Processes.
  uint64_t tests = 0;        // Of single blocks, for whether they are free.
  uint64_t failures = 0;     // Of these, because a block was held or moving.
  uint64_t refused = 0;      // Messages of processes that tried to attach.
  std::string last_refusal;  // Why the last of these was refused.
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_OPTIONS_H_
