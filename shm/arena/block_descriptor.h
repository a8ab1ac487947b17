// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BlockDescriptor: names bytes in a block of an arena to another process. A
// message carries it instead of a file descriptor.

#ifndef TENON_SHM_ARENA_BLOCK_DESCRIPTOR_H_
#define TENON_SHM_ARENA_BLOCK_DESCRIPTOR_H_

#include <cstdint>
#include <type_traits>

#include "tenon/shm/base/random_id.h"

namespace tenon {

// A value; the same in every process. A received one is untrusted: only
// AttachedArena::Claim() makes memory of it, after checking every number.
struct BlockDescriptor {
  RandomId arena;
  // Unique among all segments of an arena, past ones included.
  uint32_t segment = 0;
  uint32_t block = 0;       // Number in the arena.
  uint64_t generation = 0;  // Incremented when the block is reclaimed.
  uint64_t offset = 0;      // In bytes, in the block.
  uint64_t size = 0;        // In bytes.

  friend bool operator==(const BlockDescriptor&,
                         const BlockDescriptor&) = default;
};

static_assert(std::is_trivially_copyable_v<BlockDescriptor>);
static_assert(std::has_unique_object_representations_v<BlockDescriptor>);
static_assert(sizeof(BlockDescriptor) == 48);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_BLOCK_DESCRIPTOR_H_
