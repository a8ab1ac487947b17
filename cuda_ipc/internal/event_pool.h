// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// EventPool: events of a device within this process, used again and again.
// Internal to fences and stream futures.

#ifndef TENON_CUDA_IPC_INTERNAL_EVENT_POOL_H_
#define TENON_CUDA_IPC_INTERNAL_EVENT_POOL_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::cuda_ipc {

// Ownership: owns the events, also those that were taken. Never destroyed.
// Threads: thread-safe.
// Processes: one per process and device, a forked child too.
class EventPool {
 public:
  static EventPool& Of(const DeviceContext& device);

  // An event that has been recorded at this place of the stream's work; two
  // driver calls the first time, then one. A wait that was enqueued before an
  // event is returned is for its record then. `call` is for errors: those of
  // CheckNotCaptured(), with a third driver call, and of CudaError.
  absl::StatusOr<CUevent> Record(CUstream stream, absl::string_view call);
  // Makes no driver call.
  void Return(CUevent event);

  explicit EventPool(const DeviceContext& device) : device_(device) {}

 private:
  // With the context current.
  absl::StatusOr<CUevent> Take();

  const DeviceContext& device_;
  ThreadMutex mutex_;
  std::vector<CUevent> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_EVENT_POOL_H_
