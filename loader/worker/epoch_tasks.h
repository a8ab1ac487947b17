// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// EpochTasks: the batches of an epoch as tasks, and the worker of each.

#ifndef TENON_LOADER_WORKER_EPOCH_TASKS_H_
#define TENON_LOADER_WORKER_EPOCH_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/shard_order.h"
#include "tenon/loader/worker/worker_link.h"

namespace tenon::loader {

// In order: batch n is made by worker n mod workers, those of lane l by worker
// l mod workers. As ready: the worker with the least load gets the next batch,
// or the next one of its own lanes.
//
// Ownership: a value; the samplers of the plan must outlive it.
// Threads: thread-compatible.
class EpochTasks {
 public:
  struct Options {
    bool in_order = true;
    // Of lanes: the samples of a batch, and whether one with fewer is dropped.
    int64_t batch_size = 1;
    bool drop_last = false;
  };
  // Of no batch.
  EpochTasks() : EpochTasks(EpochPlan(), 1, 0, Options()) {}
  // For workers 0 to workers - 1. `first_ticket` is the epoch's lowest ticket.
  EpochTasks(const EpochPlan& plan, size_t workers, uint64_t first_ticket,
             const Options& options);

  const EpochPlan& plan() const { return plan_; }
  uint64_t first_ticket() const { return first_ticket_; }

  size_t workers() const { return workers_; }
  // For the tasks from now on. No effect on lanes: each stays with its worker.
  void SetWorkers(size_t workers);

  // Whether each batch has been a task or an error, and all lanes have ended.
  bool done() const;
  // Whether Next() may be called.
  bool has_next() const { return error_.ok() && !done(); }
  // The worker of the next batch; not if done(). `load` is asked as ready.
  size_t NextWorker(absl::FunctionRef<size_t(size_t worker)> load) const;
  // The next task, without a ticket, for `worker` == NextWorker(). Nothing if
  // the sampler fails: then has_error(), and it is still the next batch.
  std::optional<WorkerLink::Task> Next(size_t worker);

  bool has_error() const { return !error_.ok(); }
  // The error as the result of its batch, which is passed over.
  BatchResult TakeError();

  // A lane of `worker` has no more batches. May be repeated.
  void EndLane(size_t worker, int64_t lane) { OrderOf(worker).End(lane); }

 private:
  ShardOrder& OrderOf(size_t worker) {
    return lanes_[options_.in_order ? 0 : worker];
  }
  WorkerLink::Task NextOfLane(ShardOrder& order);

  EpochPlan plan_;
  size_t workers_;
  uint64_t first_ticket_;
  Options options_;
  int64_t next_batch_;  // Of the sampler.
  // Of an iterable dataset: in order one for all workers, else one for each.
  std::vector<ShardOrder> lanes_;
  absl::Status error_;  // Of next_batch_.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_EPOCH_TASKS_H_
