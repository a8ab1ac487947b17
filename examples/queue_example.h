// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Common code of the queue examples: queues as the arguments of a spawned
// child, bytes and descriptors.

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

// Starts a child that participates in `queues`. Errors: those of
// TensorQueue::Share() and spawn::Process::Start().
absl::StatusOr<spawn::Process> StartWithQueues(
    const char* entry, absl::Span<TensorQueue* const> queues);

// In the child: opens the queue at `index`. Errors: those of
// TensorQueue::Open().
absl::StatusOr<std::unique_ptr<TensorQueue>> OpenQueue(spawn::Child& child,
                                                       size_t index);

// Gets a message; with `spinning` it never sleeps: the fastest way, at the cost
// of a core. Errors: those of TensorQueue::Get().
absl::StatusOr<TensorMessage> GetOne(TensorQueue& queue, bool spinning);

// Gets messages, and passes each to `use`, until the end of the queue: it is
// closed, or all other participants have left. Spins while `*spinning`. Errors:
// those of `use` and of TensorQueue::Get().
absl::Status ForEach(TensorQueue& queue,
                     absl::FunctionRef<absl::Status(TensorMessage&)> use,
                     const bool* spinning = nullptr);

// The number of system calls so far to put into the first queue and to get from
// the second: for waking participants, and for sleeping.
uint64_t SystemCalls(TensorQueue& put, TensorQueue& got);

}  // namespace tenon

#endif  // TENON_EXAMPLES_QUEUE_EXAMPLE_H_
