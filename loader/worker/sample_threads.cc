// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/sample_threads.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/status/statusor.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/thread_pool.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::loader {
namespace {

// The calls of one ForEach(). A thread that comes when all have begun finds
// nothing to do: ForEach() does not wait for it.
class Round {
 public:
  Round(int64_t count, absl::FunctionRef<void(int64_t)> call)
      : count_(count), call_(call), left_(count), done_(count == 0) {}

  void Work() {
    for (;;) {
      const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= count_) return;
      call_(i);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
      const ThreadLock lock(&mutex_);
      done_ = true;
      changed_.NotifyAll();
    }
  }
  // Until all calls have returned.
  void Wait() {
    const ThreadLock lock(&mutex_);
    while (!done_) changed_.Wait(&mutex_);
  }

 private:
  const int64_t count_;
  const absl::FunctionRef<void(int64_t)> call_;  // Until all have returned.
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> left_;  // That have not returned.
  ThreadMutex mutex_;
  ThreadCondition changed_;
  bool done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleThreads>> SampleThreads::Create(
    int threads) {
  TENON_ASSIGN_OR_RETURN(auto pool, futures::ThreadPool::Create(threads - 1));
  return absl::WrapUnique(new SampleThreads(threads, std::move(pool)));
}

SampleThreads::~SampleThreads() {
  if (fork_count_ != ForkCount()) static_cast<void>(pool_.release());
}

void SampleThreads::ForEach(int64_t count,
                            absl::FunctionRef<void(int64_t)> call) {
  const auto round = std::make_shared<Round>(count, call);
  const std::optional<WorkerInfo> info = GetWorkerInfo();
  for (int64_t i = 1; i < std::min<int64_t>(size_, count); ++i) {
    pool_->Execute(futures::Task([round, info] {
      std::optional<ScopedWorkerInfo> scoped;
      if (info) scoped.emplace(*info);
      round->Work();
    }));
  }
  round->Work();
  round->Wait();
}

}  // namespace tenon::loader
