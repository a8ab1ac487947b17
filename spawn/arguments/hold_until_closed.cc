// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/hold_until_closed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/tensor_queue/tensor_reaper.h"
#include "tenon/shm/arena/reclaim_hook.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::spawn {
namespace {

// All tensors that this process holds in this way. Never destroyed, as tensors
// may be held after main().
class Keeper final : public TensorReaper {
 public:
  void Hold(UniqueFd other_end, std::vector<Tensor> tensors) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_.push_back({std::move(other_end), std::move(tensors)});
    count_.store(held_.size(), std::memory_order_relaxed);
  }

  bool ReapIfIdle() override {
    if (count_.load(std::memory_order_relaxed) == 0) return false;
    std::vector<Held> gone;  // Released without the lock.
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return true;
    std::vector<pollfd> fds = Polled();
    if (PollUntil(fds.data(), fds.size(), Deadline::Passed()).value_or(0) > 0) {
      TakeOut(fds, gone);
    }
    return !held_.empty();
  }

  // Descriptors to poll, to be woken when tensors can be released.
  std::vector<pollfd> ToPoll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return Polled();
  }

  bool is_of_this_process() const { return fork_count_ == ForkCount(); }

 private:
  struct Held {
    UniqueFd other_end;
    std::vector<Tensor> tensors;
  };

  std::vector<pollfd> Polled() const {
    std::vector<pollfd> fds;
    fds.reserve(held_.size() + 1);
    for (const Held& held : held_) {
      // A hang-up is always reported, and no other event counts.
      fds.push_back({.fd = held.other_end.get(), .events = 0, .revents = 0});
    }
    return fds;
  }

  void TakeOut(const std::vector<pollfd>& fds, std::vector<Held>& gone) {
    std::vector<Held> left;
    for (size_t i = 0; i < held_.size(); ++i) {
      const bool closed = (fds[i].revents & (POLLHUP | POLLERR)) != 0;
      (closed ? gone : left).push_back(std::move(held_[i]));
    }
    held_ = std::move(left);
    count_.store(held_.size(), std::memory_order_relaxed);
  }

  const uint64_t fork_count_ = ForkCount();
  std::mutex mutex_;
  std::vector<Held> held_;
  std::atomic<size_t> count_ = 0;
};

std::atomic<Keeper*> keeper{nullptr};

// Null if this process has none yet.
Keeper* KeeperIfAny() {
  Keeper* const there = keeper.load(std::memory_order_acquire);
  return there != nullptr && there->is_of_this_process() ? there : nullptr;
}

void ReleaseClaimed() {
  if (Keeper* const there = KeeperIfAny()) there->ReapIfIdle();
}

// A parent's instance is abandoned: a thread that does not exist here may have
// been using it.
Keeper& TheKeeper() {
  Keeper* there = keeper.load(std::memory_order_acquire);
  while (there == nullptr || !there->is_of_this_process()) {
    auto* const made = new Keeper;
    if (keeper.compare_exchange_strong(there, made,
                                       std::memory_order_acq_rel)) {
      Enlist(made);
      SetReclaimHook(ReleaseClaimed);
      return *made;
    }
    delete made;
  }
  return *there;
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
  TheKeeper().Hold(std::move(kept), std::move(tensors));
  TENON_CRASH_POINT("hold_until_closed.held");
  return receipt;
}

absl::Status ReleaseWhileWaiting(int fd) {
  for (;;) {
    Keeper* const there = KeeperIfAny();
    if (there == nullptr || !there->ReapIfIdle()) return absl::OkStatus();
    std::vector<pollfd> fds = there->ToPoll();
    fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    TENON_RETURN_IF_ERROR(
        PollUntil(fds.data(), fds.size(), Deadline::Never()).status());
    if (fds.back().revents != 0) return absl::OkStatus();
  }
}

}  // namespace tenon::spawn
