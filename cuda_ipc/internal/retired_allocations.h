// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RetiredAllocations: device memory whose last user has gone, and registered
// memory of the CPU, until a thread of its own has unmapped it. The last tensor
// of a closed pool may end in any thread, in a deleter of another library or in
// a callback of the driver, where no call of the driver may be made. Internal
// to cuda_ipc.

#ifndef TENON_CUDA_IPC_INTERNAL_RETIRED_ALLOCATIONS_H_
#define TENON_CUDA_IPC_INTERNAL_RETIRED_ALLOCATIONS_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::cuda_ipc {

// Ownership: owns the allocations. Never destroyed.
// Threads: thread-safe.
// Processes: one per process, a forked child too.
class RetiredAllocations {
 public:
  static RetiredAllocations& OfProcess();

  // An object for Add(): what Add() would have to allocate, and its thread. For
  // calls that may block. Errors: kResourceExhausted if the thread cannot be
  // started.
  struct Place {
    std::unique_ptr<DeviceAllocation> allocation;
    // Memory of the CPU, instead: its destructor unregisters it.
    std::shared_ptr<void> registered;
    std::unique_ptr<Place> next;
  };
  absl::StatusOr<std::unique_ptr<Place>> Reserve();

  // Neither calls the driver, nor allocates memory, nor waits for a call of the
  // driver.
  void Add(std::unique_ptr<Place> place);

  // Unmaps those that were added before, in this thread.
  void Release();

 private:
  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  std::unique_ptr<Place> TakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Free(std::unique_ptr<Place> first);

  ThreadMutex mutex_;
  ThreadCondition changed_;
  bool has_thread_ ABSL_GUARDED_BY(mutex_) = false;
  int freeing_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Place> first_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_RETIRED_ALLOCATIONS_H_
