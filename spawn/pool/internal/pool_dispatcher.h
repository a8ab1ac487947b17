// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolDispatcher: a ProcessPool without its types. Not for users.
//
// It brings together tasks (pool_task_queue.h) and workers (pool_workers.h),
// under one mutex. Threads:
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
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/spawn/arguments/tensor_parcel.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
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
  size_t max_workers() const { return workers_.most(); }

 private:
  using Worker = PoolWorkers::Worker;
  using Leader = PoolWorkers::Leader;
  using Lock = std::unique_lock<std::mutex>;

  PoolDispatcher(PoolOptions options, PoolPoller poller);

  // ---- With the mutex ----

  // Queues `task`, split into as many parts as it needs messages.
  void Enqueue(PoolTask task);
  // Assigns tasks to idle workers; releases the mutex while it packs one.
  void SendPending(Lock& lock, PoolCompletions& done);
  // Accepts no tasks from now on, and fails those that wait.
  void Break(const absl::Status& why, PoolCompletions& done);
  void FailPending(const absl::Status& why, PoolCompletions& done);
  // Handles a message of a worker. False if there are no more messages.
  bool HandleAnswers(Worker& worker, absl::StatusOr<PoolAnswers> answers,
                     PoolCompletions& done);
  void EndWorkers(PoolCompletions& done);
  Deadline NextDeadline() const;
  // Shutdown() waits for the Complete() that follows.
  void StartCompleting(const PoolCompletions& done);
  // Whether the pool's thread would sleep too long.
  bool MustWakeThread() const;
  size_t CountWanted() const;
  bool IsDrained() const;

  // ---- Without the mutex ----

  // Errors: those of Channel::Receive(); kDataLoss.
  absl::StatusOr<PoolAnswers> Receive(Worker& worker);
  // Packs a task and sends it.
  void SendOne(PoolWorkers::Assignment assignment, PoolCompletions& done);
  // Calls receivers on the caller's thread, after StartCompleting().
  void Complete(PoolCompletions done);
  bool IsToldByThisThread() const;

  // ---- The pool's thread ----

  absl::Status StartThread();
  void Run();
  bool RunOnce();  // False once the thread can end.
  void StartMissing();
  bool StartLeading(Worker& worker);
  bool ReceiveAll(Worker& worker, PoolCompletions& done);
  void ServeWorkers(PoolCompletions& done);
  void RemoveWorker(Worker& worker, PoolCompletions& done);

  const uint64_t fork_count_ = ForkCount();
  const PoolPoller poller_;
  TensorClaimer claimer_;  // Claims tensors of answers.
  std::atomic<uint64_t> next_task_id_ = 1;
  std::thread thread_;
  std::thread::id thread_id_;  // Still set after the thread has been joined.
  std::mutex join_mutex_;      // Held by the thread that joins it.

  mutable std::mutex mutex_;  // For all members below.
  std::condition_variable drained_;
  PoolTaskQueue queue_;
  PoolWorkers workers_;
  // Set when the pool's thread last computed how long to sleep.
  Deadline sleeps_until_ = Deadline::Passed();
  PoolCompletions deferred_;  // Receivers for the pool's thread to call.
  size_t completing_ = 0;     // Calls of Complete() pending or in progress.
  std::optional<absl::Status> closed_;  // Why no task is accepted.
  bool aborting_ = false;
  bool ending_ = false;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_DISPATCHER_H_
