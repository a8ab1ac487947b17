// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Arenas of each kind of memory, for tests of promises that hold for all kinds.
//
// A test links every_memory_main, which runs it once for each kind, and creates
// its arenas by CreateArena(). The second kind is a mapped segment under
// another number, opened through the registry as that of another library is.

#ifndef TENON_SHM_ARENA_EVERY_MEMORY_H_
#define TENON_SHM_ARENA_EVERY_MEMORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/memory_kind_id.h"

namespace tenon {

inline constexpr MemoryKindId kTestMemory = MemoryKindId{15};

// kCpu, or kTestMemory, which is registered then; inherited by forked children.
MemoryKindId MemoryUnderTest();
void SetMemoryUnderTest(MemoryKindId kind);

// Of the MemoryUnderTest(). Errors: Arena::Create()'s.
absl::StatusOr<std::shared_ptr<Arena>> CreateArena(
    const ArenaOptions& options = {});

// Of mapped segments that are said to be on a device: Block::data() is null.
absl::StatusOr<std::shared_ptr<Arena>> CreateArenaOnDevice(
    const DLDevice& device, const ArenaOptions& options = {});

}  // namespace tenon

#endif  // TENON_SHM_ARENA_EVERY_MEMORY_H_
