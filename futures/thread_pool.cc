// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/thread_pool.h"

#include <pthread.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/futures/executor.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::futures {

absl::StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::Create(int threads) {
  if (threads <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ThreadPool: ", threads, " threads; want at least 1"));
  }
  auto pool = absl::WrapUnique(new ThreadPool);
  const absl::Status started = pool->Start(threads);
  if (!started.ok()) return started;  // Joins the threads that did start.
  return pool;
}

absl::Status ThreadPool::Start(int threads) {
  threads_.reserve(static_cast<size_t>(threads));
  const absl::Status caught = internal_future::CatchExceptions([&] {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  });
  if (caught.ok()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "ThreadPool: only ", threads_.size(), " of ", threads,
      " threads could be started; ulimit -u, ulimit -v and the cgroup's "
      "pids.max bound them"));
}

// State of a thread, on its own stack: it outlives the pool if one of the
// thread's tasks destroys the pool.
struct ThreadPool::Worker {
  const ThreadPool* pool = nullptr;
  bool pool_is_gone = false;
};

ThreadPool::Worker*& ThreadPool::WorkerOfThisThread() {
  static constinit thread_local Worker* worker = nullptr;
  return worker;
}

ThreadPool::~ThreadPool() {
  {
    const ThreadLock lock(&mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  Worker* const self = WorkerOfThisThread();
  const bool is_own_task = self != nullptr && self->pool == this;
  // There may be no other thread to run the remaining tasks.
  if (is_own_task) RunTasks(*self);
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
  if (is_own_task) self->pool_is_gone = true;
}

void ThreadPool::Execute(Task task) {
  // Under the lock: as soon as it is released the task may run, and a thread
  // that sees the task's effects may destroy the pool.
  const ThreadLock lock(&mutex_);
  // The caller destroys a dropped task, without the lock.
  if (aborted_) return;
  queue_.push_back(std::move(task));
  changed_.NotifyOne();
}

void ThreadPool::Abort() {
  std::deque<Task> dropped;  // Destroyed last, without the lock.
  const ThreadLock lock(&mutex_);
  aborted_ = true;
  dropped.swap(queue_);
}

void ThreadPool::Work() {
  pthread_setname_np(pthread_self(), "tenon-pool");
  Worker worker = {.pool = this};
  WorkerOfThisThread() = &worker;
  RunTasks(worker);
  WorkerOfThisThread() = nullptr;
}

void ThreadPool::RunTasks(const Worker& worker) {
  while (std::optional<Task> task = NextTask()) {
    std::move(*task).Run();
    if (worker.pool_is_gone) return;
  }
}

std::optional<Task> ThreadPool::NextTask() {
  const ThreadLock lock(&mutex_);
  while (!ending_ && queue_.empty()) changed_.Wait(&mutex_);
  if (queue_.empty()) return std::nullopt;
  Task task = std::move(queue_.front());
  queue_.pop_front();
  return task;
}

}  // namespace tenon::futures
