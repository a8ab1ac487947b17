// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_queue/tensor_reaper.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tenon/shm/base/fork_count.h"

namespace tenon {
namespace {

// Never destroyed: queues may be destroyed after main().
struct Reapers {
  const uint64_t fork_count = ForkCount();
  std::mutex mutex;
  std::vector<TensorReaper*> all;
};

std::atomic<Reapers*> reapers{nullptr};

// A forked child leaks its parent's list: a thread of the parent may hold its
// lock.
Reapers& TheReapers() {
  Reapers* there = reapers.load(std::memory_order_acquire);
  while (there == nullptr || there->fork_count != ForkCount()) {
    auto* const made = new Reapers;
    if (reapers.compare_exchange_strong(there, made,
                                        std::memory_order_acq_rel)) {
      return *made;
    }
    delete made;
  }
  return *there;
}

}  // namespace

void Enlist(TensorReaper* reaper) {
  Reapers& list = TheReapers();
  const std::lock_guard<std::mutex> lock(list.mutex);
  list.all.push_back(reaper);
}

void Delist(TensorReaper* reaper) {
  Reapers& list = TheReapers();
  const std::lock_guard<std::mutex> lock(list.mutex);
  std::erase(list.all, reaper);
}

bool ReapAllTensors() {
  Reapers& list = TheReapers();
  const std::unique_lock<std::mutex> lock(list.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  bool holds = false;
  for (TensorReaper* reaper : list.all) {
    if (reaper->ReapIfIdle()) holds = true;
  }
  return holds;
}

}  // namespace tenon
