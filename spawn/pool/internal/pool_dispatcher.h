// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolDispatcher: a ProcessPool without its types. Not for users.
//
// It brings tasks (pool_task_queue.h) and workers (pool_workers.h) together,
// under one mutex. Threads:
//
// - A thread that submits a task packs it and sends it to an idle worker
// itself.
// - A thread that waits for a task leads the worker that runs it: it sleeps on
//   that worker's channel, receives the answer and tells the receiver.
// - The pool's own thread leads all other workers: it sleeps on the poll set,
//   starts workers, sees their ends, keeps the deadlines, and follows where a
//   waiter leads.
//
// So no answer takes a detour over a second thread. Tasks are packed, which for
// a large one means copied, without the mutex.

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

struct PoolCounts {
  size_t workers = 0;  // Not those that are about to end.
  size_t idle = 0;
  size_t pending = 0;    // Tasks that wait for a worker.
  uint64_t started = 0;  // Workers, ever.
};

// Ownership: owns its workers and its thread; destroying it aborts.
// Threads: thread-safe, but for destruction.
// Processes: in a forked child, calls fail with kFailedPrecondition, and it
//   must not be destroyed.
class PoolDispatcher {
 public:
  // Starts the least number of workers. Errors: as ProcessPool::Create().
  static absl::StatusOr<std::unique_ptr<PoolDispatcher>> Create(
      PoolOptions options);

  ~PoolDispatcher();
  PoolDispatcher(const PoolDispatcher&) = delete;
  PoolDispatcher& operator=(const PoolDispatcher&) = delete;

  // A task that is more than one message has room for becomes several.
  // Receivers of a task that is not accepted get the reason, as all errors.
  // Blocks for as long as a copy of what it sends takes.
  void Submit(PoolTask task);

  uint64_t NewTaskId() { return next_task_id_.fetch_add(1); }

  // For a thread that waits for the task of this id, which no other task has:
  // leads the worker that runs it until the answer is there, and tells the
  // receiver. Returns at once if the task is not running, or another thread
  // leads. Blocks until then, or the task has ended otherwise, or `until`.
  void Lead(uint64_t task_id, std::chrono::steady_clock::time_point until);

  // Tasks of this id that wait for a worker fail with kCancelled, as do those
  // that run with kill_on_cancel, whose workers are killed. Receivers are told
  // on this thread. The time depends on the number of these tasks and of
  // workers, not on that of other tasks.
  void Cancel(uint64_t task_id);

  // As ProcessPool's.
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

  // Queues `task`, in as many parts as it takes messages.
  void Enqueue(PoolTask task);
  // Hands tasks to idle workers; without the mutex while it packs one.
  void SendPending(Lock& lock, PoolCompletions& done);
  // Accepts no task from now on, and fails those that wait.
  void Break(const absl::Status& why, PoolCompletions& done);
  void FailPending(const absl::Status& why, PoolCompletions& done);
  // What was received from a worker. False if there is nothing more.
  bool HandleAnswers(Worker& worker, absl::StatusOr<PoolAnswers> answers,
                     PoolCompletions& done);
  void EndWorkers(PoolCompletions& done);
  Deadline NextDeadline() const;
  // Shutdown() waits for the Tell() that follows.
  void StartTelling(const PoolCompletions& done);
  // The pool's thread sleeps longer than it should.
  bool MustWakeThread() const;
  size_t CountWanted() const;
  bool IsDrained() const;

  // ---- Without it ----

  // Errors: those of Channel::Receive(); kDataLoss.
  absl::StatusOr<PoolAnswers> Receive(Worker& worker);
  // Packs a task and sends it.
  void SendOne(PoolWorkers::Assignment assignment, PoolCompletions& done);
  // Tells receivers on the thread of a caller, after StartTelling().
  void Tell(PoolCompletions done);
  bool IsToldByThisThread() const;

  // ---- The pool's thread ----

  absl::Status StartThread();
  void Run();
  bool RunOnce();  // False once there is nothing more to do.
  void StartMissing();
  bool StartLeading(Worker& worker);
  bool ReceiveAll(Worker& worker, PoolCompletions& done);
  void ServeWorkers(PoolCompletions& done);
  void RemoveWorker(Worker& worker, PoolCompletions& done);

  const uint64_t fork_count_ = ForkCount();
  const PoolPoller poller_;
  TensorClaimer claimer_;  // Of what workers answer.
  std::atomic<uint64_t> next_task_id_ = 1;
  std::thread thread_;
  std::thread::id thread_id_;  // Also once somebody has joined it.
  std::mutex join_mutex_;      // Held by the thread that joins it.

  mutable std::mutex mutex_;  // For all below.
  std::condition_variable drained_;
  PoolTaskQueue queue_;
  PoolWorkers workers_;
  // As of when the pool's thread last looked what to wait for.
  Deadline sleeps_until_ = Deadline::Passed();
  PoolCompletions deferred_;  // For the pool's thread to tell.
  size_t telling_ = 0;        // Calls of Tell() to come or in progress.
  std::optional<absl::Status> closed_;  // Why nothing is accepted any more.
  bool aborting_ = false;
  bool ending_ = false;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_DISPATCHER_H_
