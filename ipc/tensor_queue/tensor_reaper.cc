// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_queue/tensor_reaper.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "tenon/shm/base/per_process.h"

namespace tenon {
namespace {

// Never destroyed: queues may be destroyed after main().
struct Reapers {
  std::mutex mutex;
  std::vector<TensorReaper*> all;
};

constinit PerProcess<Reapers> reapers;

}  // namespace

void Enlist(TensorReaper* reaper) {
  Reapers& list = reapers.Get();
  const std::lock_guard<std::mutex> lock(list.mutex);
  list.all.push_back(reaper);
}

void Delist(TensorReaper* reaper) {
  Reapers& list = reapers.Get();
  const std::lock_guard<std::mutex> lock(list.mutex);
  std::erase(list.all, reaper);
}

bool ReapAllTensors() {
  Reapers& list = reapers.Get();
  const std::unique_lock<std::mutex> lock(list.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  bool holds = false;
  for (TensorReaper* reaper : list.all) {
    if (reaper->ReapIfIdle()) holds = true;
  }
  return holds;
}

}  // namespace tenon
