// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SampleThreads: the threads that make the samples of one batch
// (LoaderOptions::threads_per_worker).

#ifndef TENON_LOADER_WORKER_SAMPLE_THREADS_H_
#define TENON_LOADER_WORKER_SAMPLE_THREADS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tenon/futures/thread_pool.h"
#include "tenon/shm/base/fork_count.h"

namespace tenon::loader {

// Ownership: owns its threads; they sleep between two calls of ForEach(), and
//   end with it.
// Threads: thread-compatible.
// Processes: of the process that made it; in a forked child, which has none of
//   its threads, the destructor leaves them alone.
class SampleThreads {
 public:
  // `threads` of them, of which the caller of ForEach() is one. Errors:
  // ThreadPool::Create()'s.
  static absl::StatusOr<std::unique_ptr<SampleThreads>> Create(int threads);

  ~SampleThreads();
  SampleThreads(const SampleThreads&) = delete;
  SampleThreads& operator=(const SampleThreads&) = delete;

  // With the caller.
  int size() const { return size_; }

  // Calls call(0) to call(count - 1), in the caller and the other threads, and
  // returns when all of them have returned; the caller then sees what they have
  // written. They begin in this order: a thread that is free takes the next
  // one. GetWorkerInfo() is the caller's in all of them. `call` must not throw.
  // Allocates memory for each thread, none for each call.
  void ForEach(int64_t count, absl::FunctionRef<void(int64_t)> call);

 private:
  SampleThreads(int size, std::unique_ptr<futures::ThreadPool> pool)
      : size_(size), pool_(std::move(pool)) {}

  const uint64_t fork_count_ = ForkCount();
  const int size_;
  std::unique_ptr<futures::ThreadPool> pool_;  // Of size_ - 1 threads.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_SAMPLE_THREADS_H_
