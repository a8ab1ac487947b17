// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/argument_arena.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::spawn {
namespace {

// Never destroyed, as tensors may be sent after main().
struct OfAProcess {
  std::shared_ptr<Arena> arena;
  uint64_t fork_count = ForkCount();
};

std::atomic<OfAProcess*> current{nullptr};

}  // namespace

absl::StatusOr<std::shared_ptr<Arena>> ArgumentArena() {
  OfAProcess* there = current.load(std::memory_order_acquire);
  while (there == nullptr || there->fork_count != ForkCount()) {
    TENON_ASSIGN_OR_RETURN(auto arena, Arena::Create({.name = "arguments"}));
    auto* const made = new OfAProcess{.arena = std::move(arena)};
    if (current.compare_exchange_strong(there, made,
                                        std::memory_order_acq_rel)) {
      return made->arena;
    }
    delete made;  // Another thread was faster.
  }
  return there->arena;
}

}  // namespace tenon::spawn
