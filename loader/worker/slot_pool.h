// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SlotPool: the memory slots of one worker as the consumer sees them: which are
// free, and where they are mapped. Lives as long as any batch in one of them.

#ifndef TENON_LOADER_WORKER_SLOT_POOL_H_
#define TENON_LOADER_WORKER_SLOT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tenon/loader/data/batch.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/pages/mapping.h"

namespace tenon::loader {

// A slot is a segment that its worker writes one batch into at a time. There
// are as many slots as batches were ever alive at once. Threads: thread-safe,
// since batches are destroyed in any thread.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  // A free slot; a new, not yet mapped one if there is none.
  uint32_t Take();

  // Gives a slot back that never became a batch.
  void Return(uint32_t slot);

  bool IsMapped(uint32_t slot) const;
  void SetMapping(uint32_t slot, ReadOnlyMapping mapping);

  // The memory of a mapped slot; the slot is given back when the last copy
  // goes.
  Batch::Memory MemoryOf(uint32_t slot);

 private:
  mutable ThreadMutex mutex_;
  std::vector<ReadOnlyMapping> mappings_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_SLOT_POOL_H_
