// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorReaper: one who holds tensors until others have taken them, and the
// list of all of them in this process. Internal to tensor queues and //spawn.
//
// A process that waits for one queue would otherwise sit on what it has
// forwarded by another one, and whoever it waits for might wait for just that
// memory.

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

  // Lets go of what has been taken, unless another thread is at it. Does not
  // block. Whether it still holds something.
  virtual bool ReapIfIdle() = 0;
};

// From then on, and until then, it is among all; the second waits for other
// threads that are just reaping it. In a forked child the list begins empty.
void Enlist(TensorReaper* reaper);
void Delist(TensorReaper* reaper);

// Reaps all. Whether any of them still holds something, or another thread was
// at it.
bool ReapAllTensors();

// What comes of `call`, which waits until the deadline that it is given; as
// long as something is held it is called again and again, with reaping in
// between.
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
    const bool holds = ReapAllTensors();
    auto result =
        call(holds ? Earlier(deadline, Deadline::After(wait)) : deadline);
    if (!holds || !timed_out(result) || deadline.has_passed()) return result;
  }
}

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_TENSOR_REAPER_H_
