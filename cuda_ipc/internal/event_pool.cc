// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/event_pool.h"

#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

struct Pools {
  ThreadMutex mutex;
  std::map<const DeviceContext*, std::unique_ptr<EventPool>> by_device
      ABSL_GUARDED_BY(mutex);
};

constinit PerProcess<Pools> pools;

}  // namespace

EventPool& EventPool::Of(const DeviceContext& device) {
  Pools& mine = pools.Get();
  const ThreadLock lock(&mine.mutex);
  std::unique_ptr<EventPool>& pool = mine.by_device[&device];
  if (pool == nullptr) pool = std::make_unique<EventPool>(device);
  return *pool;
}

absl::StatusOr<CUevent> EventPool::Record(CUstream stream,
                                          absl::string_view call) {
  return device_.Run([&]() -> absl::StatusOr<CUevent> {
    TENON_RETURN_IF_ERROR(device_.CheckNotCaptured(stream, call));
    TENON_ASSIGN_OR_RETURN(const CUevent event, Take());
    const absl::Status recorded = device_.Error(
        device_.driver().cuEventRecord(event, stream), "cuEventRecord");
    if (recorded.ok()) return event;
    Return(event);
    return recorded;
  });
}

absl::StatusOr<CUevent> EventPool::Take() {
  const ThreadLock lock(&mutex_);
  CUevent event = nullptr;
  if (free_.empty()) {
    TENON_RETURN_IF_ERROR(device_.Error(
        device_.driver().cuEventCreate(&event, kCuEventDisableTiming),
        "cuEventCreate"));
    return event;
  }
  event = free_.back();
  free_.pop_back();
  return event;
}

void EventPool::Return(CUevent event) {
  const ThreadLock lock(&mutex_);
  free_.push_back(event);
}

}  // namespace tenon::cuda_ipc
