// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/testing/pooled_functions_testing.h"

#include <signal.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/ipc_arguments.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/testing/child_testing.h"
#include "tenon/spawn/testing/pooled_tensor_testing.h"

namespace tenon::spawn {
namespace {

// Never destroyed, like the workers' other objects.
Arena& WorkersArena() {
  static Arena& arena = *(new std::shared_ptr<Arena>(MakeArena()))->get();
  return arena;
}

std::string fatal_point;  // NOLINT(cert-err58-cpp): empty.

void OverwriteForEver(Arena& arena) {
  for (;;) {
    const auto block = arena.TryAllocate(4096);
    if (block.ok()) std::memset(block->data(), 0xff, block->size());
    absl::SleepFor(absl::Microseconds(200));
  }
}

Arena& StartOverwriting() {
  const auto made =
      Arena::Create({.quota_bytes = 4096, .max_blocks = 8192}).value();
  Arena& arena = *(new std::shared_ptr<Arena>(made))->get();
  std::thread(OverwriteForEver, std::ref(arena)).detach();
  return arena;
}

}  // namespace

std::shared_ptr<Arena> MakeArena() {
  return Arena::Create({.name = "tasks"}).value();
}

absl::StatusOr<ProcessPool> MakePool(int workers) {
  return ProcessPool::Create({.workers = workers});
}

absl::StatusOr<int64_t> FirstOf(Tensor tensor) {
  TENON_ASSIGN_OR_RETURN(const auto values, tensor.data<const int64_t>());
  TENON_RETURN_IF_ERROR(
      CheckCounting(tensor, static_cast<int64_t>(values.size()), values[0]));
  return values[0];
}
TENON_POOL_FUNCTION(FirstOf);

absl::StatusOr<Tensor> Make(int64_t first) {
  return MakeCounting(WorkersArena(), 10, first);
}
TENON_POOL_FUNCTION(Make);

absl::StatusOr<std::vector<Tensor>> MakeInNewArena(int64_t first) {
  const auto arena = MakeArena();
  TENON_ASSIGN_OR_RETURN(Tensor a, MakeCounting(*arena, 10, first));
  TENON_ASSIGN_OR_RETURN(Tensor b, MakeCounting(*arena, 10, first + 1));
  return std::vector<Tensor>{a, b, a};
}
TENON_POOL_FUNCTION(MakeInNewArena);

Tensor GiveBack(Tensor tensor) { return tensor; }
TENON_POOL_FUNCTION(GiveBack);

absl::StatusOr<Tensor> Follow(Tensor tensor) {
  TENON_ASSIGN_OR_RETURN(const int64_t first, FirstOf(std::move(tensor)));
  return MakeCounting(WorkersArena(), 10, first + 1);
}
TENON_POOL_FUNCTION(Follow);

absl::StatusOr<Tensor> MakeBesideAThread(int64_t first) {
  static Arena& arena = StartOverwriting();
  return MakeCounting(arena, 512, first);
}
TENON_POOL_FUNCTION(MakeBesideAThread);

absl::Status WaitWith(Tensor tensor, Event event) {
  TENON_RETURN_IF_ERROR(event.Wait(Watchdog()));
  return FirstOf(std::move(tensor)).status();
}
TENON_POOL_FUNCTION(WaitWith);

int64_t CountBlocks() {
  WorkersArena().Trim().IgnoreError();
  const ArenaUse use = WorkersArena().Use();
  return static_cast<int64_t>(use.blocks_in_use + use.blocks_released);
}
TENON_POOL_FUNCTION(CountBlocks);

absl::Status Keep(Tensor tensor) {
  static Tensor& kept = *new Tensor;
  kept = std::move(tensor);
  return absl::OkStatus();
}
TENON_POOL_FUNCTION(Keep);

void DieAt(std::string point) {
  fatal_point = std::move(point);
  SetCrashPointHook([](const CrashPoint& passed) {
    if (passed.name() == fatal_point) raise(SIGKILL);
  });
}
TENON_POOL_FUNCTION(DieAt);

}  // namespace tenon::spawn
