// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/argument_arena.h"

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::spawn {
namespace {

struct OfAProcess {
  ThreadMutex mutex;
  // Null until it is wanted.
  std::shared_ptr<Arena> arena ABSL_GUARDED_BY(mutex);
};

constinit PerProcess<OfAProcess> of_process;

}  // namespace

absl::StatusOr<std::shared_ptr<Arena>> ArgumentArena() {
  OfAProcess& here = of_process.Get();
  const ThreadLock lock(&here.mutex);
  if (here.arena == nullptr) {
    TENON_ASSIGN_OR_RETURN(here.arena, Arena::Create({.name = "arguments"}));
  }
  return here.arena;
}

}  // namespace tenon::spawn
