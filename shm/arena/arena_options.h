// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Options and statistics of an arena.

#ifndef TENON_SHM_ARENA_ARENA_OPTIONS_H_
#define TENON_SHM_ARENA_ARENA_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

// Detects uses of a block after its release, at a cost.
enum class ArenaDebug {
  kNone,
  // A block is filled with 0xDF when it is reclaimed: a stale view reads that.
  kPoison,
  // Blocks of a page and more are unmapped for their owner while they are free:
  // a stale view ends with SIGSEGV where it is used. Smaller ones as kPoison.
  kProtect,
};

inline constexpr size_t kMaxArenaNameLength = 39;

struct ArenaOptions {
  // For messages and reports; at most kMaxArenaNameLength printable characters.
  std::string name = "arena";
  // Of its segments. The strategy is segment.strategy if set, else
  // GetSharingStrategy(). Segments under kFileSystem cannot be sealed: for
  // groups that trust each other. They have random names: segment.name is
  // empty.
  SegmentOptions segment;
  // kSharedWritable: any holder of a block may write it.
  SegmentKind kind = SegmentKind::kOwnerWritten;

  // For all segments together. Whole segments count, including their free
  // blocks.
  size_t quota_bytes = std::numeric_limits<size_t>::max();
  // See Arena::CheckHolder().
  size_t quota_bytes_per_holder = std::numeric_limits<size_t>::max();
  // The maximum number of blocks at a time, in all segments; rounded up to a
  // multiple of 8192, at most 2^24. Costs addresses, not memory: 8 bytes a
  // block here and in each process that attaches.
  uint64_t max_blocks = uint64_t{1} << 18;
  // Small blocks are allocated in segments of about this size or more.
  size_t segment_bytes = size_t{256} << 10;

  // Zeroes a block before it is reused, so that remains of a former use are not
  // sent along with a shorter message. Hides nothing from attached processes:
  // they can read all blocks of the arena at any time. Processes that may not
  // see one another's data need separate arenas.
  bool wipe = false;
  ArenaDebug debug = ArenaDebug::kNone;
};

// See Arena::Use().
struct ArenaUse {
  size_t segments = 0;
  size_t segment_bytes = 0;    // Counted against the quota.
  size_t blocks_in_use = 0;    // Held by the owner.
  size_t blocks_released = 0;  // Released by the owner; not reclaimed yet.
  // Of these, tested and not reclaimed while a refused process lives that may
  // hold them: it was refused after they had been handed out.
  size_t blocks_withheld = 0;
  // Of these, reclaimed and not used again for the time that a device may still
  // write for a process that has ended. 0 for memory of the CPU.
  size_t blocks_quarantined = 0;
  size_t blocks_free = 0;
  size_t attached = 0;  // Attached processes.
  uint64_t tests = 0;   // Tests of single blocks for being free.
  // Of these, failed because a block was held, withheld, or claimed and
  // released meanwhile.
  uint64_t failures = 0;
  // Of calls of Allocate() that waited for memory, until they had a block or
  // gave up.
  TimeHistogram waits;
  uint64_t refused = 0;      // Rejected attach messages.
  std::string last_refusal;  // Why the last of these was refused.
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_OPTIONS_H_
