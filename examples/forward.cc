// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A sends tensors to B, which sends them on to C: C reads A's memory.

#include <iostream>
#include <memory>

#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/arguments/queue_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/child/main.h"
#include "tenon/spawn/process/start.h"

using namespace tenon;  // NOLINT: a program of one file.

// No wait of this program takes that long.
Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

using QueuePtr = std::unique_ptr<TensorQueue>;

absl::Status Forward(int /*index*/, QueuePtr from, QueuePtr to) {  // B
  for (;;) {
    auto message = from->Get(Soon());
    if (absl::IsOutOfRange(message.status())) break;  // Closed, and empty.
    TENON_RETURN_IF_ERROR(message.status());
    TENON_RETURN_IF_ERROR(to->Put(message->Add("over B"), Soon()));
  }
  TENON_RETURN_IF_ERROR(to->AwaitTaken(Soon()));
  return to->Close();
}
TENON_SPAWN_FUNCTION(Forward);

absl::Status Print(int /*index*/, QueuePtr queue) {  // C
  for (;;) {
    const auto message = queue->Get(Soon());
    if (absl::IsOutOfRange(message.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(message.status());
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, message->tensor(0));
    TENON_ASSIGN_OR_RETURN(const auto values, tensor.data<const int64_t>());
    TENON_ASSIGN_OR_RETURN(const auto way, message->string(1));
    std::cout << "C has " << values[0] << " " << way << "\n";
  }
}
TENON_SPAWN_FUNCTION(Print);

absl::Status Run() {  // A
  TENON_ASSIGN_OR_RETURN(QueuePtr to_b, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(QueuePtr to_c, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(auto c, spawn::Start(1, Print, {}, to_c));
  TENON_ASSIGN_OR_RETURN(auto b, spawn::Start(1, Forward, {}, to_b, to_c));
  for (int64_t i = 0; i < 3; ++i) {
    TENON_ASSIGN_OR_RETURN(
        const Tensor tensor,
        to_b->CreateTensor(kDtypeOf<int64_t>, {1024}, Soon()));
    TENON_RETURN_IF_ERROR(tensor.Fill(i));
    TENON_RETURN_IF_ERROR(to_b->Put(tensor, Soon()));
  }
  TENON_RETURN_IF_ERROR(to_b->Close());
  TENON_RETURN_IF_ERROR(b.Join());
  return c.Join();
}

// B and C are this program, too.
TENON_SPAWN_MAIN(Run);
