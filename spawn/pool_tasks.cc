// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tasks and workers of a pool: what happens to them while mutex_ is held.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/tensor.h"
#include "tenon/spawn/argument.h"
#include "tenon/spawn/pool_core.h"
#include "tenon/spawn/pool_protocol.h"
#include "tenon/spawn/process.h"
#include "tenon/spawn/process_error.h"

namespace tenon::spawn {
namespace {

// For a worker to end by itself once it has been told to.
constexpr absl::Duration kEndPatience = absl::Seconds(10);
// So many deaths in a row before the first task are no accident.
constexpr int kMaxFailedStarts = 3;

// A copy that shares nothing. Each receiver is on its way to another thread,
// and the counts that copies share are kept by a library that ThreadSanitizer,
// as a rule, does not see into.
absl::Status Unshared(const absl::Status& status) {
  absl::Status copy(status.code(), status.message());
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    copy.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return copy;
}

absl::Status Raised(const Process& process, PoolAnswer& answer) {
  absl::Status status = Unshared(answer.status);
  SetProcessError(ProcessRaised{.index = process.index(),
                                .pid = process.pid(),
                                .status = answer.status,
                                .stack = std::move(answer.stack)},
                  status);
  return status;
}

}  // namespace

// ---- Tasks, with mutex_ held ----

void PoolCore::Fail(PoolTask task, const absl::Status& why,
                    Tellings& tellings) {
  for (auto& receiver : task.receivers) {
    if (receiver == nullptr) continue;  // Has been told.
    tellings.emplace_back(std::move(receiver), Unshared(why));
  }
}

void PoolCore::FailPending(const absl::Status& why, Tellings& tellings) {
  for (PoolTask& task : pending_) Fail(std::move(task), why, tellings);
  pending_.clear();
  pending_deadline_ = Deadline::Never();
}

void PoolCore::CancelPending(uint64_t task_id, Tellings& tellings) {
  const auto is_it = [&](const PoolTask& task) { return task.id == task_id; };
  const auto one = std::find_if(pending_.begin(), pending_.end(), is_it);
  if (one == pending_.end()) return;
  // As a rule it is the only one, and often near an end. To move all others for
  // each of many that are cancelled would take their number squared.
  auto first = one;
  auto last = one + 1;
  if (std::find_if(last, pending_.end(), is_it) != pending_.end()) {
    first = std::stable_partition(one, pending_.end(), std::not_fn(is_it));
    last = pending_.end();
  }
  for (auto task = first; task != last; ++task) {
    Fail(std::move(*task),
         absl::CancelledError("the task was cancelled before a worker had it"),
         tellings);
  }
  pending_.erase(first, last);
}

void PoolCore::CancelRunning(uint64_t task_id, Tellings& tellings) {
  for (auto& worker : workers_) {
    if (worker->phase != Phase::kBusy || worker->task.id != task_id ||
        !worker->task.kill_on_cancel) {
      continue;
    }
    Fail(std::move(worker->task),
         absl::CancelledError(absl::StrCat("the task was cancelled; ",
                                           worker->process.Describe(),
                                           " was killed for it")),
         tellings);
    EndWorker(*worker);
  }
}

void PoolCore::Break(const absl::Status& why, Tellings& tellings) {
  if (!closed_) closed_ = why;
  FailPending(why, tellings);
}

void PoolCore::Assign(Worker& worker, PoolTask task, Tellings& tellings) {
  PoolBatch batch = {.id = next_batch_++,
                     .function = std::move(task.function),
                     .calls = std::move(task.calls)};
  const absl::Status sent =
      SendBatch(worker.channel, batch, Deadline::Passed());
  worker.batch_id = batch.id;
  if (absl::IsUnavailable(sent)) {
    // It has died while idle, which is no fault of the task's.
    worker.phase = Phase::kEnding;
    worker.until = Deadline::After(kEndPatience);
    task.function = std::move(batch.function);
    task.calls = std::move(batch.calls);
    pending_deadline_ = Earlier(pending_deadline_, task.deadline);
    pending_.push_front(std::move(task));
    return;
  }
  if (!sent.ok()) {
    Fail(std::move(task), sent, tellings);
    MakeIdle(worker);
    return;
  }
  worker.phase = Phase::kBusy;
  worker.until = Deadline::Never();
  for (PackedArguments& call : batch.calls) {
    for (absl::StatusOr<Tensor>& tensor : call.tensors) {
      task.held.push_back(*std::move(tensor));
    }
  }
  worker.task = std::move(task);
  worker.answered = 0;
}

void PoolCore::AssignPending(Tellings& tellings) {
  while (!pending_.empty() && !idle_.empty()) {
    PoolTask task = std::move(pending_.front());
    pending_.pop_front();
    if (task.deadline.has_passed()) {
      FailExpired(std::move(task), tellings);
      continue;
    }
    Worker& worker = *idle_.back();
    idle_.pop_back();
    Assign(worker, std::move(task), tellings);
  }
}

void PoolCore::FailExpired(PoolTask task, Tellings& tellings) {
  Fail(std::move(task),
       absl::DeadlineExceededError("the task's deadline passed before a worker "
                                   "was free"),
       tellings);
}

void PoolCore::ExpirePending(Tellings& tellings) {
  if (!pending_deadline_.has_passed()) return;
  std::deque<PoolTask> left;
  pending_deadline_ = Deadline::Never();
  for (PoolTask& task : pending_) {
    if (task.deadline.has_passed()) {
      FailExpired(std::move(task), tellings);
    } else {
      pending_deadline_ = Earlier(pending_deadline_, task.deadline);
      left.push_back(std::move(task));
    }
  }
  pending_ = std::move(left);
}

void PoolCore::ExpireDeadlines(Tellings& tellings) {
  ExpirePending(tellings);
  for (auto& worker : workers_) {
    if (worker->phase == Phase::kBusy && worker->task.deadline.has_passed()) {
      Fail(std::move(worker->task),
           absl::DeadlineExceededError(
               absl::StrCat("the task's deadline passed; ",
                            worker->process.Describe(), " was killed for it")),
           tellings);
      EndWorker(*worker);
    } else if (worker->until.has_passed()) {
      if (worker->phase == Phase::kEnding) {
        worker->process.Kill().IgnoreError();
        worker->until = Deadline::Never();
      } else if (worker->phase == Phase::kIdle) {
        worker->until = Deadline::Never();
        if (CountLive() > min_workers_) Close(*worker);
      }
    }
  }
}

// ---- Workers, with mutex_ held ----

void PoolCore::MakeIdle(Worker& worker) {
  worker.phase = Phase::kIdle;
  worker.until = Deadline::After(options_.idle_timeout);
  worker.task = {};
  idle_.push_back(&worker);
}

// Kills it.
void PoolCore::EndWorker(Worker& worker) {
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &worker), idle_.end());
  worker.phase = Phase::kEnding;
  worker.until = Deadline::Never();
  worker.process.Kill().IgnoreError();
}

// Lets it end by itself.
void PoolCore::Close(Worker& worker) {
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &worker), idle_.end());
  worker.phase = Phase::kEnding;
  worker.until = Deadline::After(kEndPatience);
  StopListening(worker);
  worker.channel.Release().Reset();
}

void PoolCore::StopListening(Worker& worker) {
  if (std::exchange(worker.has_channel, false)) {
    poller_.Remove(worker.channel.fd());
  }
}

size_t PoolCore::CountLive() const {
  return static_cast<size_t>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const auto& worker) { return worker->phase != Phase::kEnding; }));
}

size_t PoolCore::CountWanted() const {
  if (ending_ || aborting_) return 0;
  if (closed_ && pending_.empty()) return 0;
  const size_t busy = static_cast<size_t>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const auto& worker) { return worker->phase == Phase::kBusy; }));
  return std::clamp(busy + pending_.size(), min_workers_, max_workers_);
}

bool PoolCore::IsDrained() const {
  return pending_.empty() && telling_helpers_ == 0 &&
         std::none_of(workers_.begin(), workers_.end(), [](const auto& worker) {
           return worker->phase == Phase::kBusy;
         });
}

void PoolCore::OnAnswers(Worker& worker, PoolAnswers answers,
                         Tellings& tellings) {
  if (worker.phase == Phase::kEnding) return;  // Too late.
  const size_t count = answers.answers.size();
  const size_t wanted = worker.phase == Phase::kInitializing
                            ? 1
                            : worker.task.receivers.size() - worker.answered;
  if (worker.phase == Phase::kIdle || answers.id != worker.batch_id ||
      count == 0 || count > wanted) {
    Fail(std::move(worker.task),
         absl::DataLossError(absl::StrCat(worker.process.Describe(),
                                          " answered what nobody had asked")),
         tellings);
    EndWorker(worker);
    return;
  }
  if (worker.phase == Phase::kInitializing) {
    const absl::Status& status = answers.answers[0].status;
    if (status.ok()) {
      failed_starts_ = 0;
      return MakeIdle(worker);
    }
    Break(absl::Status(status.code(), absl::StrCat("the pool's initializer: ",
                                                   status.message())),
          tellings);
    return Close(worker);
  }
  failed_starts_ = 0;
  for (PoolAnswer& answer : answers.answers) {
    auto& receiver = worker.task.receivers[worker.answered++];
    if (answer.status.ok()) {
      tellings.emplace_back(std::move(receiver), std::move(answer.value));
    } else {
      tellings.emplace_back(std::move(receiver),
                            Raised(worker.process, answer));
    }
  }
  worker.tasks_done += count;
  if (count < wanted) return;  // The others come with the next message.
  MakeIdle(worker);
  const bool worn = (options_.max_tasks_per_worker > 0 &&
                     worker.tasks_done >= static_cast<uint64_t>(
                                              options_.max_tasks_per_worker)) ||
                    (options_.max_worker_rss_bytes > 0 &&
                     answers.rss_bytes > options_.max_worker_rss_bytes);
  if (worn) Close(worker);
}

void PoolCore::OnEnd(std::unique_ptr<Worker> worker, const absl::Status& how,
                     Tellings& tellings) {
  idle_.erase(std::remove(idle_.begin(), idle_.end(), worker.get()),
              idle_.end());
  const absl::Status why =
      how.ok() ? absl::AbortedError(absl::StrCat(worker->process.Describe(),
                                                 " ended by itself"))
               : how;
  Fail(std::move(worker->task), why, tellings);
  if (worker->phase == Phase::kInitializing &&
      ++failed_starts_ >= kMaxFailedStarts) {
    Break(why, tellings);
  }
  // One that dies before it has done anything may do so each time.
  if (worker->phase == Phase::kIdle && worker->tasks_done == 0) {
    start_again_at_ = Deadline::After(kStartPause);
  }
}

}  // namespace tenon::spawn
