// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerSource: makes batches in workers and returns them, in order or as they
// are ready.

#ifndef TENON_LOADER_WORKER_WORKER_SOURCE_H_
#define TENON_LOADER_WORKER_WORKER_SOURCE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/worker/batch_joiner.h"
#include "tenon/loader/worker/epoch_tasks.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/loader/worker/worker_set.h"
#include "tenon/loader/worker/worker_tuner.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::loader {

// In order: batch n is made by worker n mod workers, those of lane l by worker
// l mod workers; each has up to `prefetch` batches assigned. So the next batch
// is the next record of one known ring, and no batch waits for its turn in this
// process. It has no thread: everything happens inside Next(), and the tasks in
// their rings keep the workers busy while the consumer is elsewhere.
//
// Tuned: the same with the first workers only, more or fewer of them from some
// batch on.
//
// As ready: the worker with the fewest batches gets the next one, or the next
// one of its lanes, and the first result of any worker is returned. A sleep
// then arms the bell of each worker.
//
// The first batch of an epoch that finds all workers idle is in parts, in
// order: each worker makes some of its samples, and Next() copies them into a
// block of this process. So it takes the time of batch_size / workers samples.
//
// Overlapping epochs: once all batches of an epoch have been assigned, workers
// are assigned those of the next one; StartEpoch() of that one then goes on, of
// any other abandons them.
//
// Ownership, Threads, Processes: as WorkerSet, which it owns.
class WorkerSource : public BatchSource {
 public:
  struct Options {
    EpochTasks::Options tasks = {};
    bool overlap_epochs = false;
    // Uses 1 to all workers, by the time that the consumer waits.
    bool tune = false;
    int prefetch = 1;  // Batches of each worker.
  };
  // `cancellation` must outlive it.
  WorkerSource(const Options& options, std::unique_ptr<WorkerSet> workers,
               std::shared_ptr<const BatchLayout> layout,
               const Cancellation* cancellation);

  void StartEpoch(const EpochPlan& plan) override;
  absl::StatusOr<std::optional<BatchResult>> Next(Deadline deadline) override;
  std::vector<pid_t> WorkerPids() const override { return workers_->Pids(); }
  int Workers() const override {
    return static_cast<int>(assigning().tasks.workers());
  }
  std::string Tuning() const override {
    return tuner_ ? tuner_->reason() : std::string();
  }
  std::vector<absl::Status> Incidents() const override {
    return {workers_->incidents().begin(), workers_->incidents().end()};
  }
  int64_t Replaced() const override { return workers_->replaced(); }

 private:
  struct Awaited {
    size_t worker = 0;
    int64_t number = 0;
  };
  struct Epoch {
    EpochTasks tasks;
    // Its batches that are assigned and not yet returned, in their order. As
    // ready only their number is used.
    std::deque<Awaited> awaited = {};
  };

  bool in_order() const { return options_.tasks.in_order; }
  Epoch NewEpoch(const EpochPlan& plan) const;
  // Begins to assign the epoch after this one. Whether it has a batch.
  bool BeginNextEpoch();
  // The epoch whose batches are assigned now.
  Epoch& assigning() { return ahead_ ? *ahead_ : epoch_; }
  const Epoch& assigning() const { return ahead_ ? *ahead_ : epoch_; }

  // Next() without a look at the clock.
  absl::StatusOr<std::optional<BatchResult>> NextResult();
  // The worker of the next batch to be assigned.
  size_t NextWorker() const;
  bool CanDispatch() const;
  // Assigns batches as far as the workers take them.
  absl::Status Dispatch();
  absl::Status AssignNext(size_t worker);
  // Whether the task is the first batch and finds all workers idle.
  bool MayBeInParts(const WorkerLink::Task& task) const;
  absl::Status AssignParts(const WorkerLink::Task& task, size_t parts);
  // Moves from `task`.
  absl::Status Assign(size_t worker, WorkerLink::Task& task);
  // In order: the worker of the next batch to be returned. Nothing as ready.
  std::optional<size_t> AwaitedWorker() const;
  // Whether finished.batch is to be returned, which is the joined batch if the
  // result is its last part.
  bool OnFinished(WorkerLink::Finished& finished);
  // Until `only`, or any worker, has a result.
  absl::Status Wait(std::optional<size_t> only);

  const Options options_;
  const std::unique_ptr<WorkerSet> workers_;
  StageMeter& meter_;
  const Cancellation* const cancellation_;
  std::optional<WorkerTuner> tuner_;
  int64_t returned_at_ns_ = 0;  // The last batch of this epoch; 0: none.
  int64_t waited_ns_ = 0;       // Since then.
  bool has_returned_ = false;   // A batch of this epoch.

  BatchJoiner joiner_;  // Of the first batch; before all others.
  Epoch epoch_;
  std::optional<Epoch> ahead_;  // The next one, if that is assigned already.
  uint64_t next_ticket_ = 0;
  absl::Status failure_;  // For the next call of Next().
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_SOURCE_H_
