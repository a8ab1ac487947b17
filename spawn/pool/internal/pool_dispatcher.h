// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolDispatcher: a ProcessPool without its types. Not for users.
//
// It brings together tasks (pool_task_queue.h) and workers (pool_workers.h),
// under one mutex, and starts workers (pool_starter.h). Threads:
//
// - A thread that submits a task packs it and sends it to an idle worker
//   itself.
// - A thread that waits for a task leads the worker that runs it: it sleeps on
//   that worker's channel, receives the answer and calls the receiver.
// - The pool's own thread leads all other workers: it sleeps on the poll set,
//   starts workers, notices their ends, enforces the deadlines, and takes over
//   workers whose waiter stops leading.
//
// So no answer makes a detour through a second thread. Tasks are packed, which
// means copied for a large one, without holding the mutex.

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_DISPATCHER_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_DISPATCHER_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/spawn/arguments/tensor_parcel.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/internal/pool_starter.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/internal/pool_task_queue.h"
#include "tenon/spawn/pool/internal/pool_workers.h"
#include "tenon/spawn/pool/pool_options.h"

namespace tenon::spawn {

// Ownership: owns its workers and its thread; the destructor aborts.
// Threads: thread-safe, except for destruction.
// Processes: in a forked child, calls fail with kFailedPrecondition, and it
//   must not be destroyed.
class PoolDispatcher {
 public:
  // Starts the minimum number of workers. Errors: as ProcessPool::Create().
  static absl::StatusOr<std::unique_ptr<PoolDispatcher>> Create(
      PoolOptions options);

  ~PoolDispatcher();
  PoolDispatcher(const PoolDispatcher&) = delete;
  PoolDispatcher& operator=(const PoolDispatcher&) = delete;

  // Accepts a task; one that exceeds the capacity of a message is split into
  // several. Receivers of a task that is not accepted get the reason as an
  // error. Blocks for as long as copying the message takes.
  void Submit(PoolTask task);

  uint64_t NewTaskId() { return next_task_id_.fetch_add(1); }

  // For a thread that waits for the task with this unique id: leads the worker
  // that runs it until the answer arrives, and calls the receiver. Returns at
  // once if the task is not running, or if another thread leads. Blocks until
  // then, until the task has ended otherwise, or until `until`.
  void Lead(uint64_t task_id, std::chrono::steady_clock::time_point until);

  // Fails waiting tasks of this id with kCancelled, and running ones with
  // kill_on_cancel, whose workers are killed. Receivers are called on this
  // thread. The time depends on the number of these tasks and of workers, not
  // on the number of other tasks.
  void Cancel(uint64_t task_id);

  // See ProcessPool.
  absl::Status Shutdown(Deadline deadline);
  void Abort();

  PoolCounts counts() const;
  std::vector<pid_t> WorkerPids() const;
  size_t max_workers() const { return max_workers_; }

 private:
  using Worker = PoolWorkers::Worker;
  using Leader = PoolWorkers::Leader;

  PoolDispatcher(PoolOptions options, PoolPoller poller);

  // ---- With the mutex ----

  // Queues `task`, split into as many parts as it needs messages.
  void Enqueue(PoolTask task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Assigns tasks to idle workers; releases the mutex while it packs one.
  void SendPending(PoolCompletions& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Accepts no tasks from now on, and fails those that wait.
  void Break(const absl::Status& why, PoolCompletions& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailPending(const absl::Status& why, PoolCompletions& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Handles a message of a worker. False if there are no more messages.
  bool HandleAnswers(Worker& worker, absl::StatusOr<PoolAnswers> answers,
                     PoolCompletions& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWorkers(PoolCompletions& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Deadline NextDeadline() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Shutdown() waits for the Complete() that follows.
  void StartCompleting(const PoolCompletions& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the pool's thread would sleep too long.
  bool MustWakeThread() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t CountWanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDrained() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- Without the mutex ----

  // Errors: those of Channel::Receive(); kDataLoss.
  absl::StatusOr<PoolAnswers> Receive(Worker& worker);
  // Packs a task and sends it.
  void SendOne(PoolWorkers::Assignment assignment, PoolCompletions& done);
  // Calls receivers on the caller's thread, after StartCompleting().
  void Complete(PoolCompletions done);
  bool IsToldByThisThread() const;

  // ---- The pool's thread ----

  absl::Status StartLeast();  // Before there is a thread.
  absl::Status StartThread();
  void Run();
  // False once the thread can end. Keeps reported workers that have ended and
  // could not be removed yet.
  bool RunOnce(std::vector<Worker*>& reported);
  void StartMissing();
  bool StartLeading(Worker& worker);
  bool ReceiveAll(Worker& worker, PoolCompletions& done);
  bool ServeWorker(Worker& worker, PoolCompletions& done);
  bool RemoveWorker(Worker& worker, PoolCompletions& done);

  const uint64_t fork_count_ = ForkCount();
  const size_t max_workers_;
  const PoolPoller poller_;
  TensorClaimer claimer_;  // Claims tensors of answers.
  std::atomic<uint64_t> next_task_id_ = 1;

  ThreadMutex join_mutex_;  // Held by the thread that joins the pool's.
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
  std::thread::id thread_id_;  // Still set after the thread has been joined.

  mutable ThreadMutex mutex_;
  ThreadCondition drained_;
  PoolTaskQueue queue_ ABSL_GUARDED_BY(mutex_);
  PoolWorkers workers_ ABSL_GUARDED_BY(mutex_);
  // Set when the pool's thread last computed how long to sleep.
  Deadline sleeps_until_ ABSL_GUARDED_BY(mutex_) = Deadline::Passed();
  // Receivers for the pool's thread to call.
  PoolCompletions deferred_ ABSL_GUARDED_BY(mutex_);
  // Calls of Complete() pending or in progress.
  size_t completing_ ABSL_GUARDED_BY(mutex_) = 0;
  // Why no task is accepted.
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);
  bool aborting_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;

  PoolStarter starter_;  // Used by the pool's thread.
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_DISPATCHER_H_
