// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two processes and one tensor: the parent writes it, the child changes it in
// place and sends it back, without a copy. Then the same 20,000 times.

#include <chrono>
#include <cstdio>

#include "tenon/examples/queue_example.h"
#include "tenon/ipc/tensor_queue.h"
#include "tenon/shm/status_macros.h"

namespace tenon {
namespace {

// In the child: what is got is sent back, until the parent has left.
absl::Status Echo(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(const auto from_parent, OpenQueue(child, 0));
  TENON_ASSIGN_OR_RETURN(const auto to_parent, OpenQueue(child, 1));
  return ForEach(*from_parent, [&](TensorMessage& message) {
    return to_parent->Put(message, Soon());
  });
}
TENON_SPAWN_ENTRY("echo", Echo);

absl::Status Run() {
  constexpr int kTimes = 20'000;
  TENON_ASSIGN_OR_RETURN(const auto there, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(const auto back, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(spawn::Process child,
                         StartWithQueues("echo", {there.get(), back.get()}));
  TENON_ASSIGN_OR_RETURN(
      const Tensor tensor,
      there->CreateTensor(kDtypeOf<float>, {3, 480, 640}, Soon()));
  TENON_RETURN_IF_ERROR(tensor.Fill(0.5f));
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) {
    TENON_RETURN_IF_ERROR(there->Put(tensor, Soon()));
    TENON_RETURN_IF_ERROR(back->Get(Soon()).status());
  }
  const std::chrono::duration<double, std::micro> time =
      std::chrono::steady_clock::now() - began;
  const uint64_t calls =
      there->core().put_rings() + back->core().get_counts().sleeps;
  std::printf("there and back: %.2f us, %.3f system calls\n",
              time.count() / kTimes, static_cast<double>(calls) / kTimes);
  TENON_RETURN_IF_ERROR(there->Close());
  return child.Join(Soon());
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::RunExample(argc, argv, tenon::Run);
}
