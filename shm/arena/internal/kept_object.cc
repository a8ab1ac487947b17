// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/kept_object.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/system_fence.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon {

constinit std::atomic<size_t> KeptObject::abandoned_ = 0;

struct KeptObject::Abandoned {
  ThreadMutex mutex;
  std::vector<std::unique_ptr<KeptObject>> all ABSL_GUARDED_BY(mutex);
};

KeptObject::Abandoned& KeptObject::OfThisProcess() {
  static constinit PerProcess<Abandoned> of_process;
  return of_process.Get();
}

void KeptObject::Abandon(std::unique_ptr<KeptObject> object) {
  if (!object->IsInUse()) return;
  {
    Abandoned& abandoned = OfThisProcess();
    const ThreadLock lock(&abandoned.mutex);
    abandoned.all.push_back(std::move(object));
    abandoned_.store(abandoned.all.size(), std::memory_order_relaxed);
  }
  // A thread that has ended a use and not seen the count has done so before
  // this fence, and is seen after it.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (JoinSystemFence()) SystemFence().IgnoreError();
  DestroyUnused();
}

void KeptObject::DestroyUnused() {
  Abandoned& abandoned = OfThisProcess();
  // Destroyed without the lock.
  std::vector<std::unique_ptr<KeptObject>> unused;
  const ThreadLock lock(&abandoned.mutex);
  for (auto& object : abandoned.all) {
    if (!object->IsInUse()) unused.push_back(std::move(object));
  }
  std::erase(abandoned.all, nullptr);
  // Stored, as a forked child has inherited the count of its parent.
  abandoned_.store(abandoned.all.size(), std::memory_order_relaxed);
}

}  // namespace tenon
