// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/epoch_tasks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/shard_order.h"
#include "tenon/loader/worker/worker_link.h"

namespace tenon::loader {

EpochTasks::EpochTasks(const EpochPlan& plan, size_t workers,
                       uint64_t first_ticket, const Options& options)
    : plan_(plan),
      workers_(workers),
      first_ticket_(first_ticket),
      options_(options),
      next_batch_(plan.first_batch) {
  const auto orders = options.in_order ? 1 : static_cast<int64_t>(workers);
  for (int64_t i = 0; i < orders; ++i) {
    lanes_.emplace_back(plan.lanes, plan.first_lane + i * plan.lane_step,
                        orders * plan.lane_step, plan.start);
  }
}

void EpochTasks::SetWorkers(size_t workers) {
  if (plan_.shards == 0) workers_ = workers;
}

bool EpochTasks::done() const {
  if (plan_.shards == 0) return next_batch_ >= plan_.batches;
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const ShardOrder& order) { return order.done(); });
}

size_t EpochTasks::NextWorker(
    absl::FunctionRef<size_t(size_t worker)> load) const {
  if (options_.in_order) {
    // Of the lanes of this rank, or the batches.
    const int64_t next =
        plan_.shards > 0
            ? (lanes_[0].lane() - plan_.first_lane) / plan_.lane_step
            : next_batch_;
    return static_cast<size_t>(next) % workers_;
  }
  std::optional<size_t> least;
  for (size_t i = 0; i < workers_; ++i) {
    if (plan_.shards > 0 && lanes_[i].done()) continue;
    if (!least || load(i) < load(*least)) least = i;
  }
  return *least;
}

std::optional<WorkerLink::Task> EpochTasks::Next(size_t worker) {
  if (plan_.shards > 0) return NextOfLane(OrderOf(worker));
  absl::StatusOr<EpochPlan::Items> items = plan_.ItemsOf(next_batch_);
  if (!items.ok()) {
    error_ = items.status();
    return std::nullopt;
  }
  return WorkerLink::Task{.job = {.number = next_batch_++,
                                  .epoch = plan_.epoch,
                                  .first_position = items->first_position,
                                  .run = first_ticket_},
                          .indices = std::move(items->indices)};
}

WorkerLink::Task EpochTasks::NextOfLane(ShardOrder& order) {
  const int64_t number = order.number();
  WorkerLink::Job job = {
      .number = number,
      .epoch = plan_.epoch,
      .first_position = number / plan_.lanes,
      .lane = order.lane(),
      .lanes = {.shards = plan_.shards, .lanes = plan_.lanes},
      .samples = options_.batch_size,
      .full = options_.drop_last,
      .run = first_ticket_};
  order.Advance();
  return {.job = job, .indices = {}};
}

BatchResult EpochTasks::TakeError() {
  return {std::exchange(error_, absl::OkStatus()), next_batch_++};
}

}  // namespace tenon::loader
