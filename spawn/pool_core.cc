// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool_core.h"

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/status_macros.h"
#include "tenon/spawn/pool_options.h"
#include "tenon/spawn/pool_poller.h"
#include "tenon/spawn/pool_protocol.h"

namespace tenon::spawn {

PoolCore::PoolCore(PoolOptions options, PoolPoller poller)
    : options_(std::move(options)),
      templates_(options_.process),
      max_workers_(static_cast<size_t>(options_.workers)),
      min_workers_(static_cast<size_t>(options_.min_workers)),
      poller_(std::move(poller)) {}

absl::StatusOr<std::unique_ptr<PoolCore>> PoolCore::Create(
    PoolOptions options) {
  TENON_RETURN_IF_ERROR(CheckAndFillIn(options));
  TENON_ASSIGN_OR_RETURN(PoolPoller poller, PoolPoller::Create());
  std::unique_ptr<PoolCore> core(
      new PoolCore(std::move(options), std::move(poller)));
  for (size_t i = 0; i < core->min_workers_; ++i) {
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker, core->StartWorker());
    if (worker->phase == Phase::kIdle) core->MakeIdle(*worker);
    core->workers_.push_back(std::move(worker));
  }
  // Signals are for the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    core->dispatcher_ = std::thread([core = core.get()] { core->Run(); });
    core->dispatcher_id_ = core->dispatcher_.get_id();
  } catch (const std::system_error& e) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("pthread_create: pool: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  TENON_RETURN_IF_ERROR(status);
  return core;
}

PoolCore::~PoolCore() { Abort(); }

// The calls that have to wait for another message come to be a task behind it.
void PoolCore::Enqueue(PoolTask task) {
  pending_deadline_ = Earlier(pending_deadline_, task.deadline);
  PoolTask part;
  const auto begin_part = [&] {
    part = {.function = task.function,
            .calls = {},
            .receivers = {},
            .deadline = task.deadline,
            .id = task.id,
            .kill_on_cancel = task.kill_on_cancel};
  };
  begin_part();
  MessageRoom room;
  for (size_t i = 0; i < task.calls.size(); ++i) {
    if (!room.Take(task.calls[i])) {
      pending_.push_back(std::move(part));
      begin_part();
      room = MessageRoom();
      room.Take(task.calls[i]);
    }
    part.calls.push_back(std::move(task.calls[i]));
    part.receivers.push_back(std::move(task.receivers[i]));
  }
  pending_.push_back(std::move(part));
}

void PoolCore::Submit(PoolTask task) {
  Tellings tellings;
  bool wake = false;
  if (ForkCount() != fork_count_) {
    Fail(std::move(task),
         absl::FailedPreconditionError("this pool was inherited by fork()"),
         tellings);
  } else {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) {
      Fail(std::move(task), *closed_, tellings);
    } else {
      if (task.calls.size() > 1) {
        Enqueue(std::move(task));
      } else {
        pending_deadline_ = Earlier(pending_deadline_, task.deadline);
        pending_.push_back(std::move(task));
      }
      AssignPending(tellings);
      wake = MustWakeDispatcher();
    }
  }
  if (wake) poller_.Wake();
  Tell(std::move(tellings));
}

void PoolCore::Cancel(uint64_t task_id) {
  if (ForkCount() != fork_count_) return;
  Tellings tellings;
  bool wake = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    CancelPending(task_id, tellings);
    CancelRunning(task_id, tellings);
    if (!tellings.empty()) ++telling_helpers_;
    wake = MustWakeDispatcher();
  }
  if (wake) poller_.Wake();
  TellAsHelper(std::move(tellings));
}

// ---- The end ----

absl::Status PoolCore::Shutdown(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "a pool"));
  if (std::this_thread::get_id() == dispatcher_id_ || IsToldByThisThread()) {
    return absl::FailedPreconditionError(
        "a callback cannot wait for the pool that calls it");
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!closed_) {
      closed_ = absl::FailedPreconditionError("the pool has been shut down");
    }
    poller_.Wake();
    const auto is_drained = [&] { return IsDrained(); };
    while (!drained_.wait_for(lock,
                              absl::ToChronoNanoseconds(std::min(
                                  deadline.Remaining(), absl::Hours(24))),
                              is_drained)) {
      if (!deadline.has_passed()) continue;
      return absl::DeadlineExceededError(
          absl::StrCat("the pool has ", pending_.size(),
                       " tasks that wait, and others under way"));
    }
    ending_ = true;
  }
  poller_.Wake();
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (dispatcher_.joinable()) dispatcher_.join();
  return absl::OkStatus();
}

void PoolCore::Abort() {
  if (ForkCount() != fork_count_) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) closed_ = absl::CancelledError("the pool was aborted");
    aborting_ = true;
    ending_ = true;
  }
  poller_.Wake();
  if (std::this_thread::get_id() == dispatcher_id_) return;
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (dispatcher_.joinable()) dispatcher_.join();
}

PoolCore::Counts PoolCore::CountAll() const {
  if (ForkCount() != fork_count_) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  return {.workers = CountLive(),
          .idle = idle_.size(),
          .pending = pending_.size(),
          .started = started_};
}

std::vector<pid_t> PoolCore::WorkerPids() const {
  if (ForkCount() != fork_count_) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<pid_t> pids;
  for (const auto& worker : workers_) {
    if (worker->phase != Phase::kEnding) pids.push_back(worker->process.pid());
  }
  return pids;
}

}  // namespace tenon::spawn
