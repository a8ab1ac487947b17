// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A queue of tensors with one producer and two consumers: each frame is
// received by one of them, in the memory in which the producer has made it.

#include <iostream>
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

absl::Status Consume(int index, std::unique_ptr<TensorQueue> frames) {
  for (int count = 0, sum = 0;; ++count) {
    const auto frame = frames->GetTensor(Soon());
    if (absl::IsOutOfRange(frame.status())) {  // Closed, and empty.
      printf("consumer %d: %d frames, sum %d\n", index, count, sum);
      return absl::OkStatus();
    }
    TENON_RETURN_IF_ERROR(frame.status());
    TENON_ASSIGN_OR_RETURN(auto pixels, frame->data<const float>());
    sum += static_cast<int>(pixels.back());
  }
}
TENON_SPAWN_FUNCTION(Consume);

absl::Status Produce() {
  TENON_ASSIGN_OR_RETURN(auto frames, TensorQueue::Create({.capacity = 8}));
  TENON_ASSIGN_OR_RETURN(auto both, spawn::Start(2, Consume, {}, frames));
  const absl::Time began = absl::Now();
  for (int n = 0; n < 1000; ++n) {
    TENON_ASSIGN_OR_RETURN(
        Tensor frame,
        frames->CreateTensor(kDtypeOf<float>, {3, 480, 640}, Soon()));
    TENON_ASSIGN_OR_RETURN(auto pixels, frame.data<float>());
    pixels.back() = static_cast<float>(n);
    TENON_RETURN_IF_ERROR(frames->Put(frame, Soon()));
  }
  TENON_RETURN_IF_ERROR(frames->Close());
  TENON_RETURN_IF_ERROR(both.Join());  // The error of a consumer, if any.
  const absl::Time ended = absl::Now();
  TENON_RETURN_IF_ERROR(
      Tensor::Create(kDtypeOf<float>, {3, 480, 640})->Clone().status());
  std::cout << "a frame of 3.7 MB, of 1000, to one of them: "
            << (ended - began) / 1000
            << "; a copy of one: " << absl::Now() - ended << "\n";
  return absl::OkStatus();
}

// The consumers are this program, too.
TENON_SPAWN_MAIN(Produce);
