// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of tensor queues: every kind of tensor memory, and queues for
// several participants.

#ifndef TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_TESTING_H_
#define TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_TESTING_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

enum class TensorWay {
  kPooled,          // In a block of the queue's arena.
  kPooledByName,    // In a block of an arena under file_system.
  kFileDescriptor,  // In a segment of its own, shared-writable.
  kOwnerWritten,    // The same, writable by its owner only.
  kFileSystem,      // In a segment of its own with a name.
  kPrivate,         // In private memory.
};

inline constexpr std::array kAllTensorWays = {
    TensorWay::kPooled,         TensorWay::kPooledByName,
    TensorWay::kFileDescriptor, TensorWay::kOwnerWritten,
    TensorWay::kFileSystem,     TensorWay::kPrivate};

std::string TensorWayName(TensorWay way);

// Bounds waits that should be short.
Deadline TestDeadline();

// Makes tensors of one kind. Names in /dev/shm begin with `prefix`.
class TensorMaker {
 public:
  // The queue is used for kPooled.
  TensorMaker(TensorWay way, TensorQueue* queue, std::string prefix);

  // Of 3 x 5 int64_t, all of them `value`.
  absl::StatusOr<Tensor> Make(int64_t value);

 private:
  const TensorWay way_;
  TensorQueue* const queue_;
  const std::string prefix_;
  std::shared_ptr<Arena> arena_;
};

// Whether all elements of a tensor are `value`.
testing::AssertionResult IsTensorOf(const absl::StatusOr<Tensor>& tensor,
                                    int64_t value);

// Receives one message, whose first field must be such a tensor.
testing::AssertionResult GetsTensorOf(TensorQueue& queue, int64_t value);

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_TESTING_H_
