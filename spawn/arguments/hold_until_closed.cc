// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/hold_until_closed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/tensor_queue/tensor_reaper.h"
#include "tenon/shm/arena/reclaim_hook.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/poll_all.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::spawn {
namespace {

// Between two looks at more descriptors than one poll() takes.
constexpr absl::Duration kPause = absl::Milliseconds(10);

void ReleaseClaimed();

// All tensors that this process holds in this way.
class Keeper final : public TensorReaper {
 public:
  void Hold(UniqueFd other_end, std::vector<Tensor> tensors) {
    std::call_once(enlisted_, [this] {
      Enlist(this);
      SetReclaimHook(ReleaseClaimed);
    });
    const ThreadLock lock(&mutex_);
    held_.push_back({std::move(other_end), std::move(tensors)});
    count_.store(held_.size(), std::memory_order_relaxed);
  }

  bool ReapIfIdle() override {
    if (count_.load(std::memory_order_relaxed) == 0) return false;
    std::vector<Held> gone;  // Released without the lock.
    if (!mutex_.TryLock()) return true;
    const ThreadLock lock(&mutex_, std::adopt_lock);
    std::vector<pollfd> fds = Polled();
    if (PollAll(fds) > 0) TakeOut(fds, gone);
    return !held_.empty();
  }

  // Descriptors to poll, to be woken when tensors can be released.
  std::vector<pollfd> ToPoll() {
    const ThreadLock lock(&mutex_);
    return Polled();
  }

 private:
  struct Held {
    UniqueFd other_end;
    std::vector<Tensor> tensors;
  };

  std::vector<pollfd> Polled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<pollfd> fds;
    fds.reserve(held_.size() + 1);
    for (const Held& held : held_) {
      // A hang-up is always reported, and no other event counts.
      fds.push_back({.fd = held.other_end.get(), .events = 0, .revents = 0});
    }
    return fds;
  }

  void TakeOut(const std::vector<pollfd>& fds, std::vector<Held>& gone)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Held> left;
    for (size_t i = 0; i < held_.size(); ++i) {
      const bool closed = (fds[i].revents & (POLLHUP | POLLERR)) != 0;
      (closed ? gone : left).push_back(std::move(held_[i]));
    }
    held_ = std::move(left);
    count_.store(held_.size(), std::memory_order_relaxed);
  }

  std::once_flag enlisted_;
  ThreadMutex mutex_;
  std::vector<Held> held_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> count_ = 0;
};

constinit PerProcess<Keeper> keeper;

void ReleaseClaimed() {
  if (Keeper* const there = keeper.GetIfAny()) there->ReapIfIdle();
}

}  // namespace

absl::StatusOr<UniqueFd> HoldUntilClosed(std::vector<Tensor> tensors) {
  ReleaseClaimed();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return PosixError(errno, "pipe2", "tensors in flight");
  }
  UniqueFd kept(ends[0]);
  UniqueFd receipt(ends[1]);
  keeper.Get().Hold(std::move(kept), std::move(tensors));
  TENON_CRASH_POINT("hold_until_closed.held");
  return receipt;
}

absl::Status ReleaseWhileWaiting(int fd) {
  for (;;) {
    Keeper* const there = keeper.GetIfAny();
    if (there == nullptr || !there->ReapIfIdle()) return absl::OkStatus();
    std::vector<pollfd> fds = there->ToPoll();
    fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    absl::Status polled = PollUntil(fds, Deadline::Never()).status();
    if (absl::IsInvalidArgument(polled)) {  // Above the limit: see PollAll().
      polled =
          PollUntil(std::span(fds).last(1), Deadline::After(kPause)).status();
    }
    TENON_RETURN_IF_ERROR(polled);
    if (fds.back().revents != 0) return absl::OkStatus();
  }
}

}  // namespace tenon::spawn
