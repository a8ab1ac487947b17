// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/every_memory.h"

#include <memory>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/arena/memory_kind.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/base/check.h"

namespace tenon {
namespace {

constexpr MappedKind kMappedAsOther(kTestMemory);
constexpr DeviceIdentity kTestDevice = {'t', 'e', 's', 't'};

constinit MemoryKindId under_test = MemoryKindId::kCpu;

}  // namespace

MemoryKindId MemoryUnderTest() { return under_test; }

void SetMemoryUnderTest(MemoryKindId kind) {
  if (kind == kTestMemory) {
    TENON_CHECK(RegisterMemoryKind(kMappedAsOther).ok(), "kind 15 is taken");
  }
  under_test = kind;
}

absl::StatusOr<std::shared_ptr<Arena>> CreateArena(
    const ArenaOptions& options) {
  if (under_test == MemoryKindId::kCpu) return Arena::Create(options);
  return Arena::Create(
      options, std::make_unique<MappedStore>(
                   options, BlockStore::Facts{.kind = under_test,
                                              .identity = kTestDevice}));
}

absl::StatusOr<std::shared_ptr<Arena>> CreateArenaOnDevice(
    const DLDevice& device, const ArenaOptions& options) {
  return Arena::Create(options,
                       std::make_unique<MappedStore>(
                           options, BlockStore::Facts{.kind = kTestMemory,
                                                      .identity = kTestDevice,
                                                      .device = device}));
}

}  // namespace tenon
