// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_queue/tensor_reaper.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon {
namespace {

// Never destroyed: queues may be destroyed after main().
struct Reapers {
  ThreadMutex mutex;
  std::vector<TensorReaper*> all ABSL_GUARDED_BY(mutex);
};

constinit PerProcess<Reapers> reapers;

template <typename Reap>
bool ReapAll(const Reap& reap) {
  Reapers& list = reapers.Get();
  if (!list.mutex.TryLock()) return true;
  const ThreadLock lock(&list.mutex, std::adopt_lock);
  bool holds = false;
  for (TensorReaper* reaper : list.all) {
    if (reap(*reaper)) holds = true;
  }
  return holds;
}

}  // namespace

void Enlist(TensorReaper* reaper) {
  Reapers& list = reapers.Get();
  const ThreadLock lock(&list.mutex);
  list.all.push_back(reaper);
}

void Delist(TensorReaper* reaper) {
  Reapers& list = reapers.Get();
  const ThreadLock lock(&list.mutex);
  std::erase(list.all, reaper);
}

bool ReapAllTensors() {
  return ReapAll([](TensorReaper& reaper) { return reaper.ReapIfIdle(); });
}

bool ReapAllGently() {
  return ReapAll([](TensorReaper& reaper) { return reaper.ReapGently(); });
}

}  // namespace tenon
