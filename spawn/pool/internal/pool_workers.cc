// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_workers.h"

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/report/process_error.h"

namespace tenon::spawn {
namespace {

using Phase = PoolWorkers::Phase;

// Pause after a failed start of a worker.
constexpr absl::Duration kStartPause = absl::Milliseconds(100);
// How long a worker may take to end by itself.
constexpr absl::Duration kEndPatience = absl::Seconds(10);
// After this many deaths in a row before the first task, the pool breaks.
constexpr int kMaxFailedStarts = 3;

bool HasTask(const PoolWorkers::Worker& worker) {
  return worker.phase == Phase::kSending || worker.phase == Phase::kBusy;
}

// Takes the calls of a task that has been sent, unless a thread still reads
// them.
std::vector<PackedArguments> TakeSent(PoolTask& task) {
  if (!task.is_sent || task.packers > 0) return {};
  for (PackedArguments& call : task.calls) {
    for (absl::StatusOr<Tensor>& tensor : call.tensors.list) {
      task.held.push_back(*std::move(tensor));
    }
    std::move(call.on_start.begin(), call.on_start.end(),
              std::back_inserter(task.held_hooks));
  }
  return std::exchange(task.calls, {});
}

// The arguments of `task` have been sent to `process`.
void CallHooks(const PoolTask& task, const Process& process) {
  for (const PackedArguments& call : task.calls) {
    for (const StartHook& hook : call.on_start) {
      hook(process.pid(), process.end_fd());
    }
  }
}

absl::Status Raised(const Process& process, PoolAnswer& answer) {
  absl::Status status = answer.status;
  SetProcessError(ProcessRaised{.index = process.index(),
                                .pid = process.pid(),
                                .status = answer.status,
                                .stack = std::move(answer.stack)},
                  status);
  return status;
}

}  // namespace

PoolWorkers::PoolWorkers(const PoolOptions& options, const PoolPoller& poller)
    : least_(static_cast<size_t>(options.min_workers)),
      most_(static_cast<size_t>(options.workers)),
      idle_timeout_(options.idle_timeout),
      max_tasks_per_worker_(
          static_cast<uint64_t>(options.max_tasks_per_worker)),
      max_worker_rss_bytes_(options.max_worker_rss_bytes),
      poller_(poller) {}

// ---- Start and end ----

absl::Status PoolWorkers::Add(absl::StatusOr<Workers> started) {
  if (!started.ok()) {
    start_again_at_ = Deadline::After(kStartPause);
    return started.status();
  }
  for (auto& worker : *started) {
    if (worker->phase == Phase::kIdle) MakeIdle(*worker);
    workers_.push_back(std::move(worker));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<PoolTask>> PoolWorkers::Remove(
    Worker& worker, const absl::Status& how, PoolCompletions& done) {
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &worker), idle_.end());
  StopListening(worker);
  poller_.Remove(worker.process.end_fd());
  const auto found =
      std::find_if(workers_.begin(), workers_.end(),
                   [&](const auto& owned) { return owned.get() == &worker; });
  const std::unique_ptr<Worker> gone = std::move(*found);
  workers_.erase(found);
  const bool got_nothing =
      gone->phase == Phase::kIdle || gone->phase == Phase::kSending;
  // Its supervisor was killed, with all of its workers.
  const bool has_no_status = gone->phase == Phase::kInitializing &&
                             !gone->process.exit_status().has_value();
  // A worker that dies before its first task may do so each time.
  if ((got_nothing && gone->tasks_done == 0) || has_no_status) {
    start_again_at_ = Deadline::After(kStartPause);
  }
  if (gone->phase == Phase::kSending) return std::move(gone->task);
  const absl::Status why =
      how.ok() ? absl::AbortedError(
                     absl::StrCat(gone->process.Describe(), " ended by itself"))
               : how;
  done.Fail(std::move(gone->task), why);
  if (gone->phase == Phase::kInitializing && !has_no_status &&
      ++failed_starts_ >= kMaxFailedStarts) {
    return why;
  }
  return nullptr;
}

void PoolWorkers::MakeIdle(Worker& worker) {
  worker.phase = Phase::kIdle;
  worker.until = Deadline::After(idle_timeout_);
  idle_.push_back(&worker);
}

void PoolWorkers::End(Worker& worker, Deadline until) {
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &worker), idle_.end());
  worker.phase = Phase::kEnding;
  worker.until = until;
}

void PoolWorkers::Kill(Worker& worker, const absl::Status& why,
                       PoolCompletions& done) {
  done.Fail(std::move(worker.task), why);
  End(worker, Deadline::Never());
  worker.process.Kill().IgnoreError();
}

void PoolWorkers::Close(Worker& worker) {
  End(worker, Deadline::After(kEndPatience));
  StopListening(worker);
  worker.channel.Release().Reset();
}

void PoolWorkers::StopListening(Worker& worker) {
  if (std::exchange(worker.has_channel, false)) {
    poller_.Remove(worker.channel.fd());
  }
}

// ---- Tasks ----

PoolWorkers::Assignment PoolWorkers::Reserve(std::shared_ptr<PoolTask> task) {
  Worker& worker = *idle_.back();
  idle_.pop_back();
  worker.phase = Phase::kSending;
  worker.until = Deadline::Never();
  worker.batch_id = next_batch_++;
  worker.answered = 0;
  worker.task = task;
  ++task->packers;
  return {.batch_id = worker.batch_id, .task = std::move(task)};
}

std::shared_ptr<PoolTask> PoolWorkers::Send(
    Assignment& assignment, const absl::StatusOr<PackedBatch>& packed,
    PoolCompletions& done) {
  const std::shared_ptr<PoolTask> task = std::move(assignment.task);
  --task->packers;
  const auto found =
      std::find_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
        return worker->phase == Phase::kSending &&
               worker->batch_id == assignment.batch_id;
      });
  if (found == workers_.end()) {  // Its task has failed, or was returned.
    assignment.sent = TakeSent(*task);
    return nullptr;
  }
  Worker& worker = **found;
  absl::Status sent = packed.status();
  if (sent.ok() && task->has_failed()) sent = TaskCancelledError();
  if (sent.ok() && task->deadline.has_passed()) sent = TaskExpiredError();
  if (sent.ok()) sent = packed->Send(worker.channel, Deadline::Passed());
  if (sent.ok()) {
    worker.phase = Phase::kBusy;
    task->is_sent = true;
    CallHooks(*task, worker.process);
    assignment.sent = TakeSent(*task);
    return nullptr;
  }
  worker.task = nullptr;
  if (absl::IsUnavailable(sent)) {
    // It died while idle, so the task is not to blame.
    End(worker, Deadline::After(kEndPatience));
    return task;
  }
  done.Fail(task, sent);
  MakeIdle(worker);
  return nullptr;
}

absl::Status PoolWorkers::Accept(Worker& worker, PoolAnswers answers,
                                 PoolCompletions& done) {
  if (worker.phase == Phase::kEnding) return absl::OkStatus();  // Too late.
  size_t wanted = worker.phase == Phase::kInitializing ? 1 : 0;
  if (worker.phase == Phase::kBusy) {
    wanted = worker.task->receivers.size() - worker.answered;
  }
  const size_t count = answers.answers.size();
  if (answers.id != worker.batch_id || count == 0 || count > wanted) {
    Kill(worker,
         absl::DataLossError(absl::StrCat(worker.process.Describe(), " sent ",
                                          count, " answers to batch ",
                                          answers.id, "; want at most ", wanted,
                                          " to batch ", worker.batch_id)),
         done);
    return absl::OkStatus();
  }
  if (worker.phase == Phase::kInitializing && !answers.answers[0].status.ok()) {
    const absl::Status& status = answers.answers[0].status;
    Close(worker);
    return absl::Status(status.code(), absl::StrCat("the pool's initializer: ",
                                                    status.message()));
  }
  failed_starts_ = 0;
  if (worker.phase == Phase::kInitializing) {
    MakeIdle(worker);
  } else {
    TakeAnswers(worker, std::move(answers), done);
  }
  return absl::OkStatus();
}

void PoolWorkers::TakeAnswers(Worker& worker, PoolAnswers answers,
                              PoolCompletions& done) {
  for (PoolAnswer& answer : answers.answers) {
    auto& receiver = worker.task->receivers[worker.answered++];
    if (answer.status.ok()) {
      done.Add(worker.task->function, std::move(receiver),
               std::move(answer.value));
    } else {
      done.Add(worker.task->function, std::move(receiver),
               Raised(worker.process, answer));
    }
  }
  worker.tasks_done += answers.answers.size();
  // The remaining answers come with the next message.
  if (worker.answered < worker.task->receivers.size()) return;
  done.Drop(std::move(worker.task));
  MakeIdle(worker);
  if (IsWorn(worker, answers)) Close(worker);
}

bool PoolWorkers::IsWorn(const Worker& worker,
                         const PoolAnswers& answers) const {
  return (max_tasks_per_worker_ > 0 &&
          worker.tasks_done >= max_tasks_per_worker_) ||
         (max_worker_rss_bytes_ > 0 &&
          answers.rss_bytes > max_worker_rss_bytes_);
}

void PoolWorkers::Cancel(uint64_t task_id, PoolCompletions& done) {
  for (auto& worker : workers_) {
    if (!HasTask(*worker) || worker->task->id != task_id) continue;
    if (worker->phase == Phase::kSending) {
      done.Fail(worker->task, TaskCancelledError());
    } else if (worker->task->kill_on_cancel) {
      Kill(*worker,
           absl::CancelledError(absl::StrCat("the task was cancelled; ",
                                             worker->process.Describe(),
                                             " was killed")),
           done);
    }
  }
}

void PoolWorkers::RunTimers(PoolCompletions& done) {
  for (auto& worker : workers_) {
    if (HasTask(*worker) && worker->task->deadline.has_passed()) {
      if (worker->phase == Phase::kSending) {
        done.Fail(worker->task, TaskExpiredError());
        continue;
      }
      Kill(*worker,
           absl::DeadlineExceededError(
               absl::StrCat("the task's deadline passed; ",
                            worker->process.Describe(), " was killed")),
           done);
    } else if (worker->until.has_passed()) {
      worker->until = Deadline::Never();
      if (worker->phase == Phase::kEnding) {
        worker->process.Kill().IgnoreError();
      } else if (CountLive() > least()) {
        Close(*worker);
      }
    }
  }
}

// ---- Leaders ----

PoolWorkers::Worker* PoolWorkers::Lead(uint64_t task_id) {
  const auto found =
      std::find_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
        return worker->phase == Phase::kBusy && worker->task->id == task_id;
      });
  if (found == workers_.end()) return nullptr;
  Worker& worker = **found;
  if (!worker.has_channel || worker.leader != Leader::kNone) return nullptr;
  worker.leader = Leader::kWaiter;
  poller_.Pause(worker.channel.fd());
  return &worker;
}

void PoolWorkers::StopLeading(Worker& worker) {
  worker.leader = Leader::kNone;
  if (worker.has_channel) {
    poller_.Resume(worker.channel.fd(), worker.channel_key());
  }
  if (std::exchange(worker.end_is_paused, false)) {
    poller_.Resume(worker.process.end_fd(), worker.end_key());
  }
}

// ---- Counts ----

size_t PoolWorkers::CountLive() const {
  return static_cast<size_t>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const auto& worker) { return worker->phase != Phase::kEnding; }));
}

size_t PoolWorkers::CountBusy() const {
  return static_cast<size_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const auto& worker) { return HasTask(*worker); }));
}

std::vector<pid_t> PoolWorkers::Pids() const {
  std::vector<pid_t> pids;
  for (const auto& worker : workers_) {
    if (worker->phase != Phase::kEnding) pids.push_back(worker->process.pid());
  }
  return pids;
}

Deadline PoolWorkers::next_deadline() const {
  Deadline next = Deadline::Never();
  for (const auto& worker : workers_) {
    next = Earlier(next, worker->until);
    if (HasTask(*worker) && !worker->task->has_failed()) {
      next = Earlier(next, worker->task->deadline);
    }
  }
  return next;
}

}  // namespace tenon::spawn
