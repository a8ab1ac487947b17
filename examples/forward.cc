// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A sends tensors to B, which sends them on to C: C reads A's memory.

#include <cstdio>

#include "tenon/examples/queue_example.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

absl::Status Forward(spawn::Child& child) {  // B
  TENON_ASSIGN_OR_RETURN(const auto from, OpenQueue(child, 0));
  TENON_ASSIGN_OR_RETURN(const auto to, OpenQueue(child, 1));
  TENON_RETURN_IF_ERROR(ForEach(*from, [&](TensorMessage& message) {
    return to->Put(message.Add("over B"), Soon());
  }));
  TENON_RETURN_IF_ERROR(to->AwaitTaken(Soon()));
  return to->Close();
}
TENON_SPAWN_ENTRY("forward", Forward);

absl::Status Print(spawn::Child& child) {  // C
  TENON_ASSIGN_OR_RETURN(const auto queue, OpenQueue(child, 0));
  return ForEach(*queue, [](TensorMessage& message) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, message.tensor(0));
    TENON_ASSIGN_OR_RETURN(const auto values, tensor.data<const int64_t>());
    std::printf("C has %ld %s\n", values[0], message.string(1)->data());
    return absl::OkStatus();
  });
}
TENON_SPAWN_ENTRY("print", Print);

absl::Status Run() {  // A
  TENON_ASSIGN_OR_RETURN(const auto to_b, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(const auto to_c, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(auto c, StartWithQueues("print", {to_c.get()}));
  TENON_ASSIGN_OR_RETURN(auto b,
                         StartWithQueues("forward", {to_b.get(), to_c.get()}));
  for (int64_t i = 0; i < 3; ++i) {
    TENON_ASSIGN_OR_RETURN(
        const Tensor tensor,
        to_b->CreateTensor(kDtypeOf<int64_t>, {1024}, Soon()));
    TENON_RETURN_IF_ERROR(tensor.Fill(i));
    TENON_RETURN_IF_ERROR(to_b->Put(tensor, Soon()));
  }
  TENON_RETURN_IF_ERROR(to_b->Close());
  TENON_RETURN_IF_ERROR(b.Join(Soon()));
  return c.Join(Soon());
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::RunExample(argc, argv, tenon::Run);
}
