// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests that send tensors in blocks of arenas to other processes.

#ifndef TENON_SPAWN_TESTING_POOLED_TENSOR_TESTING_H_
#define TENON_SPAWN_TESTING_POOLED_TENSOR_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon::spawn {

// A tensor of `count` elements: first, first + 1, ...
inline absl::StatusOr<Tensor> MakeCounting(Arena& arena, int64_t count,
                                           int64_t first) {
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         CreateTensor(arena, kDtypeOf<int64_t>, {count},
                                      Deadline::After(absl::Seconds(30))));
  TENON_ASSIGN_OR_RETURN(const auto values, tensor.data<int64_t>());
  for (int64_t& value : values) value = first++;
  return tensor;
}

// OK if `tensor` is one of these, in a block of an arena.
inline absl::Status CheckCounting(const Tensor& tensor, int64_t count,
                                  int64_t first) {
  if (tensor.storage() == nullptr || tensor.storage()->lease() == nullptr) {
    return absl::InternalError("the tensor is not in a block");
  }
  TENON_ASSIGN_OR_RETURN(const auto values, tensor.data<const int64_t>());
  if (values.size() != static_cast<size_t>(count)) {
    return absl::InternalError("wrong size");
  }
  for (const int64_t value : values) {
    if (value != first++) return absl::InternalError("wrong value");
  }
  return absl::OkStatus();
}

// Whether all blocks are free, or become free: the kernel may need a moment to
// release those of a dead process.
inline testing::AssertionResult NothingIsLeftIn(Arena& arena) {
  const bool empty = Becomes([&] {
    arena.Trim().IgnoreError();
    const ArenaUse use = arena.Use();
    return use.segments == 0 && use.blocks_in_use == 0 &&
           use.blocks_released == 0;
  });
  if (empty) return testing::AssertionSuccess();
  const ArenaUse use = arena.Use();
  return testing::AssertionFailure()
         << use.blocks_in_use << " blocks are in use, " << use.blocks_released
         << " released, in " << use.segments << " segments";
}

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_TESTING_POOLED_TENSOR_TESTING_H_
