// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A producer that puts a tensor into a queue and ends, and a consumer that gets
// it afterwards. producer_exits.py does the same with torch, and fails.

#include <iostream>
#include <memory>

#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/arguments/queue_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/child/main.h"
#include "tenon/spawn/process/start.h"

using namespace tenon;  // NOLINT: a program of one file.

absl::Status Produce(int /*index*/, std::unique_ptr<TensorQueue> queue) {
  TENON_ASSIGN_OR_RETURN(const Tensor ones, Tensor::Full({1'000'000}, 1.0f));
  return queue->Put(ones, Deadline::Never());  // Copies it into an arena.
}
TENON_SPAWN_FUNCTION(Produce);

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(auto queue, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(auto producer, spawn::Start(1, Produce, {}, queue));
  TENON_RETURN_IF_ERROR(producer.Join());
  std::cout << "the producer has ended\n";
  TENON_ASSIGN_OR_RETURN(Tensor tensor, queue->GetTensor(Deadline::Never()));
  std::cout << "its tensor: " << tensor << "\n";
  return absl::OkStatus();
}

// The producer is this program, too.
TENON_SPAWN_MAIN(Run);
