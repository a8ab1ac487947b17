// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerSet: the workers of a loader, each of which is replaced when its
// process dies.

#ifndef TENON_LOADER_WORKER_WORKER_SET_H_
#define TENON_LOADER_WORKER_WORKER_SET_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/doorbell/spin_budget.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/on_worker_death.h"
#include "tenon/loader/data/worker_kind.h"
#include "tenon/loader/stats/stats_board.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_host.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/loader/worker/worker_run.h"
#include "tenon/loader/worker/worker_waiter.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {

// A worker returns the results of its tasks in their order, whichever process
// it runs in. A process that has died leaves the results in its ring, which are
// kept; its other tasks are assigned, in the same order, to the process that
// takes its place: no batch is lost or made twice. A process that hangs is
// killed, and counts as dead. A process that is recycled gets no more tasks,
// and is replaced when it has none. The tasks of a new process wait here until
// it has joined the rings; no call waits for that beyond the deadline.
//
// Ownership: owns the workers; destroying it ends them. They have a second to
//   end by themselves, then SIGTERM and half a second, then SIGKILL; after that
//   no process and no name in /dev/shm of theirs is left. Threads have as long
//   as they take.
// Threads: thread-compatible.
// Processes: of the process that made it; in a forked child the destructor
//   leaves the workers alone.
// Failure: an error of a worker that cannot be replaced is the error of the
//   loader, never kDeadlineExceeded nor kCancelled: name, end, stack, and the
//   sample that the worker was loading. No call may follow.
class WorkerSet {
 public:
  struct Options {
    WorkerKind kind = WorkerKind::kProcess;
    spawn::StartMethod start_method = spawn::StartMethod::kSpawn;
    std::string program = {};  // Of the processes; empty: this program.

    // As in LoaderOptions. Only for processes; kSkipSample only for those that
    // make a map-style dataset, of `dataset_size` items.
    OnWorkerDeath on_death = OnWorkerDeath::kFail;
    int64_t dataset_size = 0;
    int max_restarts = 3;
    absl::Duration sample_timeout = absl::InfiniteDuration();
    std::optional<int64_t> recycle_after_samples = {};
    std::optional<int64_t> recycle_after_bytes = {};
    StatsBoard* stats = nullptr;  // Must outlive it.
  };
  // Starts setup.workers workers that make the dataset of `recipe`, and waits
  // until they run. `recipe` and `cancellation` must outlive it.
  // Errors: those of starting a worker (worker_host.h) and of WorkerLink.
  static absl::StatusOr<std::unique_ptr<WorkerSet>> Create(
      const Options& options, WorkerSetup setup, const DatasetRecipe& recipe,
      std::shared_ptr<const BatchLayout> layout,
      const Cancellation* cancellation);

  ~WorkerSet();

  size_t size() const { return workers_.size(); }
  StatsBoard& stats() const { return *options_.stats; }

  // For all calls from now on.
  void SetDeadline(Deadline deadline) { deadline_ = deadline; }
  // Tasks below `first_ticket` are abandoned: their results are dropped. Those
  // from `end_ticket` on are not awaited: their results stay where they are.
  static constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();
  void Await(uint64_t first_ticket, uint64_t end_ticket = kNoEnd);

  // How many tasks the worker has; the highest number if it takes none for a
  // while, because it is being replaced.
  size_t LoadOf(size_t worker) const;
  bool CanTake(size_t worker) const { return workers_[worker].CanTake(); }
  // Drops results of abandoned tasks, so that it may take others.
  absl::Status DropAbandoned(size_t worker) {
    return DropAbandonedOf(workers_[worker]);
  }
  // CanTake() must hold. Moves from `task`.
  absl::Status Assign(size_t worker, WorkerLink::Task& task);

  // Below, `only` is the one worker whose result is awaited; empty: all are,
  // and take turns, so that a fast one does not keep the others waiting.
  // An awaited result, if there is one. Recycle() of its worker should follow.
  absl::StatusOr<std::optional<WorkerLink::Finished>> Take(
      std::optional<size_t> only);
  // Replaces a worker that has made enough samples, or has become too large.
  absl::Status Recycle(size_t worker);
  // Spins until there is a result, or the loader is cancelled. False if that
  // takes longer than a wake-up.
  bool Spin(std::optional<size_t> only);
  // Sleeps until then, or until a worker has ended or joined. May return early.
  // Errors: kDeadlineExceeded, whose message lists what each worker does: "; a
  // worker is making batch 3, sample 17; ...".
  absl::Status Sleep(std::optional<size_t> only);
  // Goes on with the handshakes of new processes. Does not wait.
  absl::Status JoinNew();

  // The mean number of batches that wait in a ring.
  uint64_t Ready(std::optional<size_t> only);
  std::vector<pid_t> Pids() const;
  // How the last workers ended that were replaced, and how many there were.
  const std::deque<absl::Status>& incidents() const { return incidents_; }
  int64_t replaced() const { return replaced_; }

 private:
  struct Worker {
    int index = 0;
    WorkerRun run;
    // Results of a process that was replaced. Before those of run.link.
    std::deque<WorkerLink::Finished> finished = {};
    // The tasks of a process that has yet to join the rings, until joins_by.
    std::deque<WorkerLink::Task> waiting = {};
    Deadline joins_by = Deadline::Never();
    int deaths = 0;  // In a row, without a batch or a sample less.

    bool CanTake() const { return !run.retires && run.link.CanTake(); }
    // The job of its next result.
    const WorkerLink::Job* current() const {
      return finished.empty() ? run.link.current() : &finished.front().job;
    }
    bool HasFinished() { return !finished.empty() || run.link.HasFinished(); }
  };

  WorkerSet(WorkerSetup setup, const Options& options,
            const DatasetRecipe& recipe,
            std::shared_ptr<const BatchLayout> layout,
            Segment::OwnerWritten control, const Cancellation* cancellation);

  absl::Status Start();
  // Appends to `runs` the workers [first, first + count); after an error, those
  // that were started.
  absl::Status StartRuns(int first, int count, std::vector<WorkerRun>& runs);
  WorkerControl& control();
  void JoinAll(Deadline deadline);

  absl::Span<Worker> Awaited(std::optional<size_t> only);
  // Whether a result of `worker` would be awaited, or an error.
  bool IsAwaited(const Worker& worker) const {
    const WorkerLink::Job* job = worker.current();
    return job == nullptr || job->ticket < end_ticket_;
  }
  absl::Status DropAbandonedOf(Worker& worker);
  // Its next result, whether it is awaited or not.
  absl::StatusOr<std::optional<WorkerLink::Finished>> TakeAny(Worker& worker);
  absl::StatusOr<std::optional<WorkerLink::Finished>> TakeOf(Worker& worker);
  // What each worker does.
  std::string Describe() const;
  // When a sleep ends at the latest.
  Deadline LatestWakeUp() const;

  // An error of a worker. OK if another process has taken its place.
  absl::Status OnError(Worker& worker, const absl::Status& why) {
    return OnEnd(worker, worker.run.EndOf(why));
  }
  absl::Status OnEnd(Worker& worker, WorkerRun::End end) {
    return end.is_death ? Replace(worker, std::move(end.status)) : end.status;
  }
  absl::Status Replace(Worker& worker, absl::Status end);
  // Keeps what a process that has died has finished.
  absl::Status KeepFinished(Worker& worker);
  // Moves the tasks that the worker has not finished to `waiting`.
  void TakeBack(Worker& worker);
  // Starts another process for `worker`. The process gets the waiting tasks as
  // soon as it has joined. Returns OK, or how the process has ended already.
  WorkerRun::End StartAgain(Worker& worker);
  // Begins the handshake by which the new process joins, and sets joins_by.
  absl::Status BeginJoin(Worker& worker);
  // Goes on with that handshake until the deadline, and once it is done assigns
  // the waiting tasks. Returns OK, also if the deadline passes, or how the
  // process has ended.
  WorkerRun::End Join(Worker& worker, Deadline deadline);
  absl::Status AssignWaiting(Worker& worker);
  void CountJoining();
  // Ends a worker that loads a sample for too long.
  absl::Status EndHung();

  const uint64_t fork_count_ = ForkCount();
  const WorkerSetup setup_;
  const Options options_;
  const DatasetRecipe& recipe_;
  const std::shared_ptr<const BatchLayout> layout_;
  Segment::OwnerWritten control_;
  const Cancellation* cancellation_;
  std::vector<Worker> workers_;
  // Those that were replaced and may still run.
  std::vector<std::unique_ptr<WorkerHost>> retired_;
  std::deque<absl::Status> incidents_;
  int64_t replaced_ = 0;
  size_t joining_ = 0;  // Workers that have yet to join.

  Deadline deadline_ = Deadline::Never();
  uint64_t first_ticket_ = 0;
  uint64_t end_ticket_ = kNoEnd;
  size_t next_polled_ = 0;  // The worker whose result is taken first.
  SpinBudget spin_;
  WorkerWaiter waiter_;
  std::vector<WorkerWaiter::Awaited> awaited_;  // Kept for its memory.
  int64_t looked_at_ns_ = 0;                    // EndHung()
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_SET_H_
