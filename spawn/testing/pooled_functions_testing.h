// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Pool functions that take and give tensors in blocks of arenas, for tests.

#ifndef TENON_SPAWN_TESTING_POOLED_FUNCTIONS_TESTING_H_
#define TENON_SPAWN_TESTING_POOLED_FUNCTIONS_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/pool/process_pool.h"

namespace tenon::spawn {

std::shared_ptr<Arena> MakeArena();
absl::StatusOr<ProcessPool> MakePool(int workers);

// ---- Functions that workers run ----

// Checks that `tensor` counts up, at any size; returns its first element.
absl::StatusOr<int64_t> FirstOf(Tensor tensor);
// Ten elements in this worker's arena.
absl::StatusOr<Tensor> Make(int64_t first);
// In an arena that only its result retains: a, b and a.
absl::StatusOr<std::vector<Tensor>> MakeInNewArena(int64_t first);
Tensor GiveBack(Tensor tensor);
// Make() with a first element one above that of `tensor`.
absl::StatusOr<Tensor> Follow(Tensor tensor);
// A page, in an arena with room for only one, while another thread overwrites
// each block that it can allocate there.
absl::StatusOr<Tensor> MakeBesideAThread(int64_t first);
absl::Status WaitWith(Tensor tensor, Event event);
// Number of blocks of its arena that this worker or any other process holds.
int64_t CountBlocks();
absl::Status Keep(Tensor tensor);
// This worker is killed when it next passes that crash point.
void DieAt(std::string point);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_TESTING_POOLED_FUNCTIONS_TESTING_H_
