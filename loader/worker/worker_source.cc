// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_board.h"
#include "tenon/loader/worker/epoch_tasks.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/loader/worker/worker_set.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

WorkerSource::WorkerSource(const Options& options,
                           std::unique_ptr<WorkerSet> workers,
                           std::shared_ptr<const BatchLayout> layout,
                           const Cancellation* cancellation)
    : options_(options),
      workers_(std::move(workers)),
      meter_(workers_->stats().meter()),
      cancellation_(cancellation),
      joiner_(std::move(layout)) {
  if (options.tune) {
    tuner_.emplace(static_cast<int>(workers_->size()), options.prefetch);
  }
  epoch_ = NewEpoch({});
}

WorkerSource::Epoch WorkerSource::NewEpoch(const EpochPlan& plan) const {
  const size_t workers =
      tuner_ ? static_cast<size_t>(tuner_->workers()) : workers_->size();
  return {EpochTasks(plan, workers, next_ticket_, options_.tasks)};
}

void WorkerSource::StartEpoch(const EpochPlan& plan) {
  returned_at_ns_ = 0;
  waited_ns_ = 0;
  has_returned_ = false;
  joiner_.Abandon();
  if (ahead_ && ahead_->tasks.plan().epoch == plan.epoch &&
      plan.whole == nullptr) {
    epoch_ = *std::move(ahead_);
  } else {
    epoch_ = NewEpoch(plan);
  }
  ahead_.reset();
  workers_->Await(epoch_.tasks.first_ticket());
}

bool WorkerSource::BeginNextEpoch() {
  const EpochPlan& plan = epoch_.tasks.plan();
  if (!options_.overlap_epochs || ahead_ || !epoch_.tasks.done() ||
      plan.epoch == std::numeric_limits<int64_t>::max()) {
    return false;
  }
  EpochPlan next = plan.whole == nullptr ? plan : *plan.whole;
  next.epoch = plan.epoch + 1;
  ahead_ = NewEpoch(next);
  workers_->Await(epoch_.tasks.first_ticket(), ahead_->tasks.first_ticket());
  return ahead_->tasks.has_next();
}

absl::StatusOr<std::optional<BatchResult>> WorkerSource::Next(
    Deadline deadline) {
  workers_->SetDeadline(deadline);
  if (meter_.measured() && !epoch_.awaited.empty()) {
    meter_.AddReady(workers_->Ready(AwaitedWorker()));
  }
  if (!tuner_) return NextResult();
  const int64_t begin = MonotonicNs();
  absl::StatusOr<std::optional<BatchResult>> result = NextResult();
  const int64_t end = MonotonicNs();
  waited_ns_ += end - begin;
  if (!result.ok() || !result->has_value()) return result;
  // A change that an epoch of shards has yet to see is not judged by it.
  const auto workers = static_cast<size_t>(tuner_->workers());
  if (returned_at_ns_ != 0 && assigning().tasks.workers() == workers) {
    tuner_->OnBatch(waited_ns_, end - returned_at_ns_);
  }
  returned_at_ns_ = end;
  waited_ns_ = 0;
  assigning().tasks.SetWorkers(static_cast<size_t>(tuner_->workers()));
  return result;
}

absl::StatusOr<std::optional<BatchResult>> WorkerSource::NextResult() {
  for (;;) {
    // Before the end: a batch that could not be assigned is missing.
    TENON_RETURN_IF_ERROR(failure_);
    if (epoch_.awaited.empty() &&
        (epoch_.tasks.done() || cancellation_->is_draining())) {
      // Of shards, the end may be known only now.
      failure_ = Dispatch();
      return std::nullopt;
    }
    if (cancellation_->is_cancelled()) return Cancellation::Error();
    TENON_RETURN_IF_ERROR(workers_->JoinNew());
    TENON_RETURN_IF_ERROR(Dispatch());
    // A drain that began just now: there is nothing to wait for.
    if (epoch_.awaited.empty() && cancellation_->is_draining()) continue;
    if (epoch_.tasks.has_error() && (epoch_.awaited.empty() || !in_order())) {
      return epoch_.tasks.TakeError();
    }
    const std::optional<size_t> awaited = AwaitedWorker();
    TENON_ASSIGN_OR_RETURN(std::optional<WorkerLink::Finished> finished,
                           workers_->Take(awaited));
    if (finished) {
      if (!OnFinished(*finished)) continue;
      return BatchResult{std::move(finished->batch), finished->job.number};
    }
    // Where the results of abandoned tasks were in the way.
    if (CanDispatch()) continue;
    TENON_RETURN_IF_ERROR(Wait(awaited));
  }
}

std::optional<size_t> WorkerSource::AwaitedWorker() const {
  if (!in_order()) return std::nullopt;
  // Only results of abandoned tasks can keep a worker from taking one.
  return epoch_.awaited.empty() ? NextWorker() : epoch_.awaited.front().worker;
}

bool WorkerSource::OnFinished(WorkerLink::Finished& finished) {
  const auto worker = static_cast<size_t>(finished.worker);
  epoch_.awaited.pop_front();
  if (finished.ended) epoch_.tasks.EndLane(worker, finished.job.lane);
  // Let the worker go on while the caller uses the batch, which is good also if
  // another worker has failed meanwhile.
  failure_ = workers_->Recycle(worker);
  if (failure_.ok()) failure_ = Dispatch();
  if (finished.ended) return false;
  if (joiner_.is_joining()) {
    auto joined = joiner_.Add(std::move(finished.batch));
    if (!joined) return false;
    finished.batch = *std::move(joined);
  }
  has_returned_ = true;
  return true;
}

size_t WorkerSource::NextWorker() const {
  return assigning().tasks.NextWorker(
      [this](size_t worker) { return workers_->LoadOf(worker); });
}

bool WorkerSource::CanDispatch() const {
  return !cancellation_->is_draining() && assigning().tasks.has_next() &&
         workers_->CanTake(NextWorker());
}

absl::Status WorkerSource::Dispatch() {
  while (!cancellation_->is_draining() &&
         (assigning().tasks.has_next() || BeginNextEpoch())) {
    const size_t next = NextWorker();
    TENON_RETURN_IF_ERROR(workers_->DropAbandoned(next));
    if (!workers_->CanTake(next)) break;
    TENON_RETURN_IF_ERROR(AssignNext(next));
  }
  return absl::OkStatus();
}

absl::Status WorkerSource::AssignNext(size_t worker) {
  std::optional<WorkerLink::Task> task = assigning().tasks.Next(worker);
  if (!task) return absl::OkStatus();
  const size_t parts = std::min(workers_->size(), task->indices.size());
  if (parts > 1 && MayBeInParts(*task) &&
      joiner_.Begin(task->job.number, parts)) {
    return AssignParts(*task, parts);
  }
  return Assign(worker, *task);
}

bool WorkerSource::MayBeInParts(const WorkerLink::Task& task) const {
  if (!in_order() || ahead_ ||
      task.job.number != epoch_.tasks.plan().first_batch) {
    return false;
  }
  for (size_t i = 0; i < workers_->size(); ++i) {
    if (workers_->LoadOf(i) > 0) return false;
  }
  return true;
}

absl::Status WorkerSource::AssignParts(const WorkerLink::Task& task,
                                       size_t parts) {
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = i * task.indices.size() / parts;
    const size_t end = (i + 1) * task.indices.size() / parts;
    WorkerLink::Task part = {
        .job = task.job,
        .indices = {task.indices.data() + begin, task.indices.data() + end}};
    part.job.first_position += static_cast<int64_t>(begin);
    TENON_RETURN_IF_ERROR(Assign(i, part));
  }
  return absl::OkStatus();
}

absl::Status WorkerSource::Assign(size_t worker, WorkerLink::Task& task) {
  task.job.ticket = next_ticket_++;
  assigning().awaited.push_back({worker, task.job.number});
  return workers_->Assign(worker, task);
}

absl::Status WorkerSource::Wait(std::optional<size_t> only) {
  if (in_order() && !epoch_.awaited.empty()) {
    meter_.SetBatch(epoch_.tasks.plan().epoch, epoch_.awaited.front().number);
  }
  const Stage stage = has_returned_ ? Stage::kWait : Stage::kStart;
  has_returned_ ? meter_.Enter(stage) : meter_.EnterTimed(stage);
  absl::Status slept;
  if (!workers_->Spin(only)) {
    meter_.EnterTimed(stage);
    slept = workers_->Sleep(only);
  }
  meter_.Enter(Stage::kTake);
  if (!absl::IsDeadlineExceeded(slept)) return slept;
  return absl::DeadlineExceededError(
      absl::StrCat("no batch ",
                   in_order() && !epoch_.awaited.empty()
                       ? absl::StrCat(epoch_.awaited.front().number, " ")
                       : "",
                   "in time", slept.message()));
}

}  // namespace tenon::loader
