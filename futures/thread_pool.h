// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ThreadPool: an Executor with a fixed number of threads and one queue.
//
//   TENON_ASSIGN_OR_RETURN(auto pool, ThreadPool::Create(4));
//   Future<Image> image = std::move(bytes).Then(*pool, Decode);
//
// Tasks start in the order of their submission. A task that blocks occupies its
// thread: if all threads wait for tasks that are queued behind their own, none
// of these runs before a deadline passes.

#ifndef TENON_FUTURES_THREAD_POOL_H_
#define TENON_FUTURES_THREAD_POOL_H_

#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/futures/executor.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::futures {

// Ownership: owns its threads, named "tenon-pool". A task may destroy the pool
//   that runs it; its thread ends when that task has returned.
// Threads: thread-safe.
// Processes: its threads do not exist in a forked child, which must not use it,
//   nor destroy it.
// Failure: a task that is not run is destroyed: see Task.
class ThreadPool final : public Executor {
 public:
  // Errors: kInvalidArgument if `threads` is not positive, kResourceExhausted
  // if the system cannot create that many threads.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Create(int threads);

  // Blocks until every submitted task has run, and those that they submit. In
  // one of its tasks: until all others have run, some of them inside of this
  // call.
  ~ThreadPool() override;

  // Never blocks. After Abort the task is destroyed.
  void Execute(Task task) override;

  // Destroys the tasks that have not begun, and all later ones. Does not wait
  // for those that have begun.
  void Abort();

 private:
  ThreadPool() = default;

  absl::Status Start(int threads);
  struct Worker;

  static Worker*& WorkerOfThisThread();
  void Work();
  // Runs tasks until the pool ends and none is left, or until a task has
  // destroyed the pool.
  void RunTasks(const Worker& worker);
  // Waits for a task; null once the pool ends and none is left.
  std::optional<Task> NextTask();

  ThreadMutex mutex_;
  ThreadCondition changed_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // Used by the destroying thread.
};

}  // namespace tenon::futures

#endif  // TENON_FUTURES_THREAD_POOL_H_
