// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two processes and one tensor, there and back without a copy.

#include <cstdio>

#include "absl/time/clock.h"
#include "tenon/examples/queue_example.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

absl::Status Echo(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(const auto from_parent, OpenQueue(child, 0));
  TENON_ASSIGN_OR_RETURN(const auto to_parent, OpenQueue(child, 1));
  bool spin = false;
  const auto send_back = [&](TensorMessage& message) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(spin, message.integer(1));
    return to_parent->Put(message, Soon());
  };
  return ForEach(*from_parent, send_back, &spin);
}
TENON_SPAWN_ENTRY("echo", Echo);

absl::Status Run() {
  constexpr int kTimes = 5'000;
  TENON_ASSIGN_OR_RETURN(const auto there, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(const auto back, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(auto child,
                         StartWithQueues("echo", {there.get(), back.get()}));
  TENON_ASSIGN_OR_RETURN(
      const Tensor tensor,
      there->CreateTensor(kDtypeOf<float>, {3, 480, 640}, Soon()));
  for (const bool spin : {false, true}) {
    const absl::Time began = absl::Now();
    const uint64_t calls = SystemCalls(*there, *back);
    for (int i = 0; i < kTimes; ++i) {
      TENON_RETURN_IF_ERROR(
          there->Put(TensorMessage(tensor).Add(spin), Soon()));
      TENON_RETURN_IF_ERROR(GetOne(*back, spin).status());
    }
    std::printf(
        "%s: %.2f us, %.3f system calls\n", spin ? "spinning" : "waiting",
        absl::ToDoubleMicroseconds(absl::Now() - began) / kTimes,
        static_cast<double>(SystemCalls(*there, *back) - calls) / kTimes);
  }
  TENON_RETURN_IF_ERROR(there->Close());
  return child.Join(Soon());
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::RunExample(argc, argv, tenon::Run);
}
