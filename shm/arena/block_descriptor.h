// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BlockDescriptor: how bytes in a block of an arena are named to another
// process. This is what a message carries, instead of a file descriptor.

#ifndef TENON_SHM_ARENA_BLOCK_DESCRIPTOR_H_
#define TENON_SHM_ARENA_BLOCK_DESCRIPTOR_H_

#include <cstdint>
#include <type_traits>

#include "tenon/shm/base/random_id.h"

namespace tenon {

// A value; the same in every process. Received, it is the sender's word: only
// AttachedArena::Claim() makes memory of it, after checking every number.
struct BlockDescriptor {
  RandomId arena;
  uint32_t segment = 0;     // Never the same for two segments of an arena.
  uint32_t block = 0;       // Number in the arena.
  uint64_t generation = 0;  // Goes up when the block is taken back.
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
