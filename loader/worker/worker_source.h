// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerSource: makes batches in workers and returns them, in order or as they
// are ready.

#ifndef TENON_LOADER_WORKER_WORKER_SOURCE_H_
#define TENON_LOADER_WORKER_WORKER_SOURCE_H_

#include <poll.h>
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
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/doorbell/spin_budget.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/on_worker_death.h"
#include "tenon/loader/data/worker_kind.h"
#include "tenon/loader/stats/stats_board.h"
#include "tenon/loader/worker/batch_joiner.h"
#include "tenon/loader/worker/epoch_tasks.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_host.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/loader/worker/worker_tuner.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/spawn/settings/start_method.h"

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
// Replaced: a process that has died takes with it what it had not finished. Its
// results that are in its ring are kept, the tasks that are left are those of
// the process that takes its place, in the same order: so a batch is neither
// lost nor made twice. What hangs is ended, and has died then; what is recycled
// gets no more tasks, and is replaced when it has none. Until the new process
// has joined the rings its tasks wait here, and Next() keeps its deadline.
//
// Ownership: owns the workers; destroying it ends them. They have a second to
//   end by themselves, then SIGTERM and half a second, then SIGKILL; after that
//   no process and no name in /dev/shm of theirs is left. Threads have as long
//   as they take.
// Processes: of the process that made it; in a forked child the destructor
//   leaves the workers alone.
class WorkerSource : public BatchSource {
 public:
  struct Options {
    int workers = 1;
    WorkerKind kind = WorkerKind::kProcess;
    spawn::StartMethod start_method = spawn::StartMethod::kSpawn;
    std::string program = {};  // Of the processes; empty: this program.
    bool in_order = true;
    bool overlap_epochs = false;
    // Uses 1 to `workers` of them, by the time that the consumer waits.
    bool tune = false;

    // As in LoaderOptions. Only for processes; kSkipSample only for those that
    // make a map-style dataset.
    OnWorkerDeath on_death = OnWorkerDeath::kFail;
    int max_restarts = 3;
    absl::Duration sample_timeout = absl::InfiniteDuration();
    std::optional<int64_t> recycle_after_samples = {};
    std::optional<int64_t> recycle_after_bytes = {};
    StatsBoard* stats = nullptr;  // Must outlive it.
  };
  // Starts workers that make the dataset of `recipe`, and waits until they run.
  // `recipe` and `cancellation` must outlive it.
  // Errors: those of starting a worker (worker_host.h) and of WorkerLink.
  static absl::StatusOr<std::unique_ptr<WorkerSource>> Create(
      const Options& options, WorkerSetup setup, const DatasetRecipe& recipe,
      std::shared_ptr<const BatchLayout> layout,
      const Cancellation* cancellation);

  ~WorkerSource() override;

  void StartEpoch(const EpochPlan& plan) override;
  absl::StatusOr<std::optional<BatchResult>> Next(Deadline deadline) override;
  std::vector<pid_t> WorkerPids() const override;
  int Workers() const override {
    return static_cast<int>(assigning().tasks.workers());
  }
  std::string Tuning() const override {
    return tuner_ ? tuner_->reason() : std::string();
  }
  std::vector<absl::Status> Incidents() const override {
    return {incidents_.begin(), incidents_.end()};
  }
  int64_t Replaced() const override { return replaced_; }

 private:
  struct Worker {
    WritableMapping note;  // Outlives a thread.
    std::unique_ptr<WorkerHost> host;
    WorkerLink link;
    // Results that a process has left that was replaced. Before those of link.
    std::deque<absl::StatusOr<std::optional<WorkerLink::Finished>>> finished =
        {};
    // The tasks of a process that has yet to join the rings, until joins_by.
    std::deque<WorkerLink::Task> waiting = {};
    Deadline joins_by = Deadline::Never();
    int deaths = 0;  // In a row, without a batch or a sample less.

    // Of this process.
    int64_t samples = 0;
    int64_t first_bytes = -1;  // Of memory, at its first batch; -1: none yet.
    bool retires = false;      // Gets no more tasks.

    // What it was seen to do, and since when.
    uint64_t seen_ticket = 0;
    uint64_t seen_sample = 0;
    int64_t seen_since_ns = 0;
  };
  // How a worker has ended.
  struct End {
    absl::Status status;
    bool is_death = false;  // Not an error that it returned.
  };
  struct Awaited {
    size_t worker = 0;
    int64_t number = 0;
  };
  struct Epoch {
    EpochTasks tasks;
    // Its batches that are assigned and not yet returned, in their order. As
    // ready only their number is used.
    std::deque<Awaited> awaited;
  };

  WorkerSource(WorkerSetup setup, const Options& options,
               const DatasetRecipe& recipe,
               std::shared_ptr<const BatchLayout> layout,
               Segment::OwnerWritten control, const Cancellation* cancellation);

  absl::Status Start();
  absl::Status StartHosts(std::vector<WorkerLink> links);
  // Waits until the worker runs. Errors: kDeadlineExceeded, after which it may
  // be repeated; kUnavailable if it has ended.
  absl::Status Meet(size_t index, Deadline deadline);
  const WorkerNote& NoteOf(const Worker& worker) const {
    return *reinterpret_cast<const WorkerNote*>(worker.note.data());
  }
  absl::Status Watch(int fd, uint64_t what);
  // For what a worker has that was ended, or has crashed.
  bool wants_stacks() const {
    return options_.on_death != OnWorkerDeath::kFail ||
           options_.sample_timeout != absl::InfiniteDuration();
  }

  // Next() without a look at the clock.
  absl::StatusOr<std::optional<BatchResult>> NextResult(Deadline deadline);

  WorkerControl& control();
  Epoch NewEpoch(const EpochPlan& plan) const;
  // Begins to assign the epoch after this one. Whether it has a batch.
  bool BeginNextEpoch();
  // The epoch whose batches are assigned now.
  Epoch& assigning() { return ahead_ ? *ahead_ : epoch_; }
  const Epoch& assigning() const { return ahead_ ? *ahead_ : epoch_; }
  // Tasks with a lower ticket were abandoned.
  uint64_t first_ticket() const { return epoch_.tasks.first_ticket(); }
  // The worker of the next batch to be assigned.
  size_t NextWorker();
  static size_t LoadOf(const Worker& worker);
  // Assigns batches as far as the workers take them.
  absl::Status Dispatch();
  absl::Status AssignNext(size_t worker);
  // Whether the task is the first batch and finds all workers idle.
  bool MayBeInParts(const WorkerLink::Task& task) const;
  absl::Status AssignParts(const WorkerLink::Task& task, size_t parts);
  absl::Status AssignTo(size_t index, WorkerLink::Task task);
  bool CanDispatch();
  static bool CanTake(const Worker& worker) {
    return !worker.retires && worker.link.CanTake();
  }
  // The job of its next result.
  static const WorkerLink::Job* Current(const Worker& worker) {
    return worker.finished.empty() ? worker.link.current()
                                   : &(*worker.finished.front())->job;
  }
  static bool HasFinished(Worker& worker) {
    return !worker.finished.empty() || worker.link.HasFinished();
  }
  // Its next result, whichever epoch it is of.
  absl::StatusOr<std::optional<WorkerLink::Finished>> TakeAny(Worker& worker);
  // Counts the batches that wait in the rings of those that are awaited.
  void NoteReady();
  // Removes the results of abandoned tasks.
  absl::Status DropAbandoned(Worker& worker);
  // The workers whose next result is awaited; not empty before the end.
  absl::Span<Worker> AwaitedWorkers();
  // The next result of this epoch that one of `workers` has finished.
  absl::StatusOr<std::optional<WorkerLink::Finished>> TakeOne(
      absl::Span<Worker> workers);
  // Whether a result of `worker` would be of this epoch, or an error.
  bool IsAwaited(const Worker& worker) const {
    const WorkerLink::Job* job = Current(worker);
    return job == nullptr || !ahead_ ||
           job->ticket < ahead_->tasks.first_ticket();
  }
  // The next result of this epoch, if `worker` has finished one.
  absl::StatusOr<std::optional<WorkerLink::Finished>> Take(Worker& worker);
  // Waits until one of `workers` has finished a job, or any worker has ended.
  absl::Status Wait(absl::Span<Worker> workers, Deadline deadline);
  absl::Status SpinAndSleep(absl::Span<Worker> workers, Deadline deadline);
  absl::Status Sleep(absl::Span<Worker> workers, Deadline deadline);
  // Waits as Sleep() says.
  absl::StatusOr<int> Poll(Deadline deadline);

  // An error of a worker. OK if another process has taken its place; else the
  // error of the loader, never kDeadlineExceeded nor kCancelled.
  absl::Status OnError(Worker& worker, const absl::Status& why);
  // The same for an error that may be its end. Puts the worker's name before a
  // message; if it has ended, says how, and what it was loading.
  End EndOf(Worker& worker, const absl::Status& why);
  absl::Status Failure(Worker& worker, const absl::Status& why) {
    return EndOf(worker, why).status;
  }
  // What the worker loads of a task that it has: "sample 17 (item 4)". Empty if
  // nothing.
  std::string LoadingOf(const Worker& worker) const;
  // Puts another process in the place of one that has ended so.
  absl::Status Replace(Worker& worker, absl::Status end);
  // Leaves out of `tasks` the sample that the worker has died of. Whether there
  // is one, or a better way to find it.
  bool LeaveOut(const Worker& worker, const absl::Status& end,
                std::deque<WorkerLink::Task>& tasks) const;
  // Moves the tasks that the worker has not finished to `waiting`.
  void TakeBack(Worker& worker);
  // Starts another process for `worker`, which is assigned what is waiting as
  // soon as it has joined. OK, or how that process has ended already.
  End StartAgain(Worker& worker);
  // Goes on with the handshake; then assigns what is waiting. OK also if the
  // deadline passes. Or how the process has ended.
  End Join(Worker& worker, Deadline deadline);
  absl::Status AssignWaiting(Worker& worker);
  // Join() for all that have yet to join, without waiting.
  absl::Status JoinNew();
  void CountJoining();
  absl::StatusOr<std::unique_ptr<WorkerHost>> StartHost(int index,
                                                        WorkerEnd end);
  // After a result: replaces a worker that has done enough.
  absl::Status Recycle(Worker& worker);
  bool IsWorn(Worker& worker);
  // Ends a worker that loads a sample for too long.
  absl::Status EndHung();
  // Whether it loads one for so long; `now` is the time.
  bool Hangs(Worker& worker, int64_t now);
  // The batches and workers that are awaited, for the error of a deadline.
  std::string Waiting() const;

  void JoinAll(Deadline deadline);

  const uint64_t fork_count_ = ForkCount();
  const WorkerSetup setup_;
  const Options options_;
  const DatasetRecipe& recipe_;
  StatsBoard* const stats_;
  const bool in_order_;
  const bool overlap_epochs_;
  const std::shared_ptr<const BatchLayout> layout_;
  Segment::OwnerWritten control_;
  const Cancellation* cancellation_;
  std::vector<Worker> workers_;
  // Those that were replaced and may still run.
  std::vector<std::unique_ptr<WorkerHost>> retired_;
  std::deque<absl::Status> incidents_;  // The last ones.
  int64_t replaced_ = 0;
  int64_t looked_at_ns_ = 0;  // EndHung()
  // The ends of the workers, the handshakes of new ones, and the cancellation.
  UniqueFd epoll_;
  size_t joining_ = 0;  // Workers that were replaced and have yet to join.
  Deadline deadline_ = Deadline::Never();  // Of Next().
  SpinBudget spin_;
  std::optional<WorkerTuner> tuner_;
  int64_t returned_at_ns_ = 0;  // The last batch of this epoch; 0: none.
  int64_t waited_ns_ = 0;       // Since then.
  bool has_returned_ = false;   // A batch of this epoch.

  BatchJoiner joiner_;  // Of the first batch; before all others.
  Epoch epoch_;
  std::optional<Epoch> ahead_;  // The next one, if that is assigned already.
  size_t next_polled_ = 0;  // As ready: the worker whose result is taken first.
  absl::Status failure_;    // For the next call of Next().
  std::vector<pollfd> polled_;  // Kept for its memory.
  uint64_t next_ticket_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_SOURCE_H_
