// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What the examples of queues share: queues as what a spawned child is given,
// bytes and descriptors.

#ifndef TENON_EXAMPLES_QUEUE_EXAMPLE_H_
#define TENON_EXAMPLES_QUEUE_EXAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/examples/example.h"  // IWYU pragma: export
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"

namespace tenon {

// Starts a child that takes part in `queues`. Errors: TensorQueue::Share()'s,
// spawn::Process::Start()'s.
absl::StatusOr<spawn::Process> StartWithQueues(
    const char* entry, absl::Span<TensorQueue* const> queues);

// In the child: opens the queue at `index`. Errors: TensorQueue::Open()'s.
absl::StatusOr<std::unique_ptr<TensorQueue>> OpenQueue(spawn::Child& child,
                                                       size_t index);

// Gets a message; spinning, it never sleeps: as fast as can be, at the price of
// a core. Errors: TensorQueue::Get()'s.
absl::StatusOr<TensorMessage> GetOne(TensorQueue& queue, bool spinning);

// Gets messages, and gives each to `use`, until the queue has ended: it is
// closed, or all others have left. Spins while `*spinning`. Errors: use's;
// TensorQueue::Get()'s.
absl::Status ForEach(TensorQueue& queue,
                     absl::FunctionRef<absl::Status(TensorMessage&)> use,
                     const bool* spinning = nullptr);

// How many system calls putting into the one and getting out of the other one
// took until now: to wake somebody, and to sleep.
uint64_t SystemCalls(TensorQueue& put, TensorQueue& got);

}  // namespace tenon

#endif  // TENON_EXAMPLES_QUEUE_EXAMPLE_H_
