// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/slot_pool.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tenon/loader/data/batch.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/pages/mapping.h"

namespace tenon::loader {

uint32_t SlotPool::Take() {
  const ThreadLock lock(&mutex_);
  if (free_.empty()) {
    mappings_.emplace_back();
    return static_cast<uint32_t>(mappings_.size() - 1);
  }
  // The last one returned: its pages are the likeliest to be in a cache.
  const uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotPool::Return(uint32_t slot) {
  const ThreadLock lock(&mutex_);
  free_.push_back(slot);
}

bool SlotPool::IsMapped(uint32_t slot) const {
  const ThreadLock lock(&mutex_);
  return mappings_[slot].data() != nullptr;
}

void SlotPool::SetMapping(uint32_t slot, ReadOnlyMapping mapping) {
  const ThreadLock lock(&mutex_);
  mappings_[slot] = std::move(mapping);
}

Batch::Memory SlotPool::MemoryOf(uint32_t slot) {
  const std::byte* data;
  {
    const ThreadLock lock(&mutex_);
    data = mappings_[slot].data();
  }
  return Batch::Memory(data, [pool = shared_from_this(),
                              slot](const std::byte*) { pool->Return(slot); });
}

}  // namespace tenon::loader
