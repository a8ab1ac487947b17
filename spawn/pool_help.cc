// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// How one who waits for a task of a pool receives its answer himself.

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/spawn/pool_core.h"
#include "tenon/spawn/pool_protocol.h"
#include "tenon/spawn/process.h"

namespace tenon::spawn {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

Deadline DeadlineAt(SteadyTime when) {
  if (when == SteadyTime::max()) return Deadline::Never();
  return Deadline::After(
      absl::FromChrono(when - std::chrono::steady_clock::now()));
}

// The pools of which this thread is telling what it has received as a helper;
// several if callbacks wait themselves.
struct TellingPool {
  const PoolCore* pool;
  const TellingPool* outer;
};
constinit thread_local const TellingPool* telling_pool = nullptr;

// Waits until `channel` has something to receive, or the process of `end` has
// ended. True for the first.
bool AwaitAnswer(int channel, int end, SteadyTime until) {
  // A look at what is not there yet waits for it, at the price of one call of a
  // cheap kind. The dispatcher makes it return if `end` comes first.
  if (until == SteadyTime::max() &&
      RetryOnEintr([&] { return recv(channel, nullptr, 0, MSG_PEEK); }) >= 0) {
    return true;
  }
  pollfd fds[] = {{.fd = channel, .events = POLLIN, .revents = 0},
                  {.fd = end, .events = POLLIN, .revents = 0}};
  PollUntil(fds, 2, DeadlineAt(until)).status().IgnoreError();
  return fds[0].revents != 0;
}

}  // namespace

// The dispatcher sleeps longer than it should. With mutex_ held.
bool PoolCore::MustWakeDispatcher() const {
  return NextDeadline().Remaining() < sleeps_until_.Remaining();
}

bool PoolCore::IsToldByThisThread() const {
  const TellingPool* telling = telling_pool;
  while (telling != nullptr && telling->pool != this) telling = telling->outer;
  return telling != nullptr;
}

void PoolCore::TellAsHelper(Tellings tellings) {
  if (tellings.empty()) return;
  const TellingPool here = {.pool = this, .outer = telling_pool};
  telling_pool = &here;
  Tell(std::move(tellings));
  telling_pool = here.outer;
  const std::lock_guard<std::mutex> lock(mutex_);
  --telling_helpers_;
  if (IsDrained()) drained_.notify_all();
}

PoolCore::Worker* PoolCore::StartHelping(uint64_t task_id) {
  const auto found =
      std::find_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
        return worker->phase == Phase::kBusy && worker->task.id == task_id;
      });
  if (found == workers_.end()) return nullptr;
  Worker& worker = **found;
  if (!worker.has_channel || worker.receiver != Receiver::kNobody) {
    return nullptr;
  }
  worker.receiver = Receiver::kHelper;
  poller_.Pause(worker.channel.fd());
  return &worker;
}

void PoolCore::StopHelping(Worker& worker) {
  worker.receiver = Receiver::kNobody;
  if (worker.has_channel) {
    poller_.Resume(worker.channel.fd(), worker.channel_key());
  }
  if (std::exchange(worker.end_is_paused, false)) {
    poller_.Resume(worker.process.end_fd(), worker.end_key());
  }
}

void PoolCore::Help(uint64_t task_id, SteadyTime until) {
  if (ForkCount() != fork_count_) return;
  Worker* worker = nullptr;
  int channel = -1;
  int end = -1;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    worker = StartHelping(task_id);
    if (worker == nullptr) return;
    channel = worker->channel.fd();
    end = worker->process.end_fd();
  }
  absl::StatusOr<PoolAnswers> answers =
      absl::DeadlineExceededError("nothing came");
  // Whoever else ends a task that a worker runs ends the worker too, so this
  // wakes in any case. The worker stays as long as it has a helper.
  if (AwaitAnswer(channel, end, until)) {
    answers = ReceiveAnswers(*worker);
  }
  Tellings tellings;
  Tellings of_others;
  bool wake = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Digest(*worker, std::move(answers), tellings);
    StopHelping(*worker);
    AssignPending(of_others);
    if (!tellings.empty()) ++telling_helpers_;
    wake = !of_others.empty() || MustWakeDispatcher();
    // Callbacks of others do not belong on this thread.
    std::move(of_others.begin(), of_others.end(), std::back_inserter(owed_));
  }
  if (wake) poller_.Wake();
  TellAsHelper(std::move(tellings));
}

}  // namespace tenon::spawn
