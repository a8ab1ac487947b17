// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two processes and one tensor, there and back without a copy: the time of a
// round trip for processes that sleep while they wait, and that spin.

#include <memory>

#include "absl/time/clock.h"
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

// A message; with `spin` the thread does not sleep: the fastest way, at the
// cost of a core.
absl::StatusOr<TensorMessage> GetOne(TensorQueue& queue, bool spin) {
  for (int turn = 1; spin; ++turn) {
    TENON_ASSIGN_OR_RETURN(auto message, queue.TryGet());
    if (message) return *std::move(message);
    if (turn % (1 << 20) != 0) continue;
    auto last = queue.Get(Deadline::Passed());  // Notices a dead peer.
    if (!absl::IsDeadlineExceeded(last.status())) return last;
  }
  return queue.Get(Soon());
}

absl::Status Echo(int /*index*/, QueuePtr there, QueuePtr back) {
  for (bool spin = false;;) {
    const auto message = GetOne(*there, spin);
    if (absl::IsOutOfRange(message.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(message.status());
    TENON_ASSIGN_OR_RETURN(spin, message->integer(1));
    TENON_RETURN_IF_ERROR(back->Put(*message, Soon()));
  }
}
TENON_SPAWN_FUNCTION(Echo);

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(QueuePtr there, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(QueuePtr back, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(auto child, spawn::Start(1, Echo, {}, there, back));
  TENON_ASSIGN_OR_RETURN(
      const Tensor tensor,
      there->CreateTensor(kDtypeOf<float>, {3, 480, 640}, Soon()));
  for (const bool spin : {false, true}) {
    const absl::Time began = absl::Now();
    const auto calls = [&] {  // System calls of this process.
      return static_cast<double>(there->stats().put_wakes +
                                 back->stats().get_sleeps);
    };
    const double calls_before = calls();
    int times = 0;
    for (; times < 5'000 && absl::Now() - began < absl::Seconds(1); ++times) {
      TENON_RETURN_IF_ERROR(
          there->Put(TensorMessage(tensor).Add(spin), Soon()));
      TENON_RETURN_IF_ERROR(GetOne(*back, spin).status());
    }
    printf("%s: %.2f us, %.3f system calls\n", spin ? "spinning" : "sleeping",
           absl::ToDoubleMicroseconds(absl::Now() - began) / times,
           (calls() - calls_before) / times);
  }
  const absl::Time began = absl::Now();
  TENON_RETURN_IF_ERROR(tensor.Clone().status());
  printf("a round trip of float32[3, 480, 640], against one copy: %.2f us\n",
         absl::ToDoubleMicroseconds(absl::Now() - began));
  TENON_RETURN_IF_ERROR(there->Close());
  return child.Join();
}

// The child is this program, too.
TENON_SPAWN_MAIN(Run);
