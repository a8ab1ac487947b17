// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorReaper: an object that holds tensors until other processes have taken
// them, and the list of all such objects of this process. Internal to tensor
// queues and //spawn.
//
// Without the list, a process that waits for one queue would keep the tensors
// it has forwarded by another one, and its peer might wait for that memory.

#ifndef TENON_IPC_TENSOR_QUEUE_TENSOR_REAPER_H_
#define TENON_IPC_TENSOR_QUEUE_TENSOR_REAPER_H_

#include <algorithm>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

class TensorReaper {
 public:
  virtual ~TensorReaper() = default;

  // Drops the tensors that have been taken, unless another thread is doing so.
  // Does not block. Returns whether it still holds any.
  virtual bool ReapIfIdle() = 0;
  // The same without taking a lock from a thread that has used it alone: that
  // thread reaps at its next call, and if it makes none for some milliseconds
  // a later call of this reaps.
  virtual bool ReapGently() { return ReapIfIdle(); }
};

// Enlist() makes `reaper` visible to ReapAllTensors(). Delist() blocks until no
// thread is reaping it. In a forked child the list starts empty.
void Enlist(TensorReaper* reaper);
void Delist(TensorReaper* reaper);

// Reaps all. Returns whether any of them still holds a tensor, or another
// thread was reaping it. ReapAllGently() is for callers that repeat it.
bool ReapAllTensors();
bool ReapAllGently();

// The result of `call`, which waits until the deadline it is given; while
// tensors are held, `call` is repeated in short slices with reaping in between.
template <typename Call>
auto WaitAndReap(Deadline deadline, const Call& call) {
  constexpr absl::Duration kLongest = absl::Milliseconds(100);
  const auto timed_out = [](const auto& result) {
    if constexpr (std::is_same_v<decltype(result), const absl::Status&>) {
      return absl::IsDeadlineExceeded(result);
    } else {
      return absl::IsDeadlineExceeded(result.status());
    }
  };
  for (absl::Duration wait = absl::Milliseconds(5);;
       wait = std::min(2 * wait, kLongest)) {
    const bool holds = ReapAllGently();
    auto result =
        call(holds ? Earlier(deadline, Deadline::After(wait)) : deadline);
    if (!holds || !timed_out(result) || deadline.has_passed()) return result;
  }
}

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_TENSOR_REAPER_H_
