// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Limits on the memory that the owners of arenas can make this process map and
// reserve, and the memory that is mapped.

#ifndef TENON_SHM_ARENA_ARENA_LIMITS_H_
#define TENON_SHM_ARENA_ARENA_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// The limits of one AttachedArena. See its Attach() and Add().
struct AttachLimits {
  uint64_t max_blocks = std::numeric_limits<uint64_t>::max();  // Of the arena.
  // That may be added to the present ones.
  size_t max_segments = std::numeric_limits<size_t>::max();
  uint64_t max_bytes = std::numeric_limits<uint64_t>::max();
};

// The limits of one ArenaTensorImporter. If honest senders need more than the
// defaults, the receiver has to allow it.
struct ArenaTensorImporterOptions {
  // At a time, including forgotten ones that are still held or whose cells
  // their owner still reads. This process can be attached to 512.
  size_t max_arenas = 16;
  // Of each arena, as its owner's ArenaOptions::max_blocks. A block takes up to
  // 24 bytes of memory, and one of this process's 2^27 cells.
  uint64_t max_blocks = uint64_t{1} << 20;
  // Of all arenas together. Each has a descriptor.
  size_t max_segments = size_t{1} << 12;
  // Of all mapped segments together: reading a page that was never written
  // allocates it.
  uint64_t max_bytes = PhysicalMemory();
  // For receivers that are offered an arena again when they need it, such as
  // those of a TensorQueue: an arena without tensors is forgotten when its
  // owner has closed it or ended, and, oldest first, where that makes room
  // within these limits. If that does not suffice, single segments without
  // tensors are unmapped, those of the oldest arena and added first.
  bool forget_idle = false;

  static uint64_t PhysicalMemory();  // Of this machine, in bytes.
};

// Memory that is mapped for an importer, including forgotten arenas that it
// still holds.
struct MappedArenas {
  size_t arenas = 0;
  size_t segments = 0;
  uint64_t bytes = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_LIMITS_H_
