// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/stream_scope.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/internal/event_pool.h"
#include "tenon/cuda_ipc/internal/poll_thread.h"
#include "tenon/cuda_ipc/internal/stream_event.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::cuda_ipc {
namespace {

struct Current {
  const DeviceContext* device;
  CUstream stream;
};
thread_local std::vector<Current> scopes;  // The innermost is the last.
thread_local StreamUses* uses = nullptr;

// As many as PyTorch has, for the same reason: they are few queues of the
// device in any case.
constexpr size_t kPoolStreams = 32;

struct Pool {
  std::array<CUstream, kPoolStreams> streams = {};
  size_t next = 0;
};
struct StreamPools {
  ThreadMutex mutex;
  std::map<const DeviceContext*, Pool> by_device ABSL_GUARDED_BY(mutex);
};
constinit PerProcess<StreamPools> stream_pools;

}  // namespace

// ---- Scopes ----

StreamScope::StreamScope(const DeviceContext& device, CUstream stream) {
  scopes.push_back({&device, stream});
  if (uses != nullptr) uses->Note(device, stream);
}

StreamScope::~StreamScope() { scopes.pop_back(); }

absl::StatusOr<CUstream> CurrentStream(const DeviceContext& device) {
  for (size_t i = scopes.size(); i-- > 0;) {
    if (scopes[i].device == &device) return scopes[i].stream;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("this thread has no current stream of device ",
                   device.device().ordinal, "; enter a StreamScope"));
}

absl::Status RecordUse(const Tensor& tensor) {
  if (tensor.storage() == nullptr || tensor.device().device_type != kDLCUDA) {
    return absl::OkStatus();
  }
  TENON_ASSIGN_OR_RETURN(DeviceContexts * devices, DeviceContexts::OfProcess());
  TENON_ASSIGN_OR_RETURN(const DeviceContext* device,
                         devices->Get(tensor.device().device_id));
  TENON_ASSIGN_OR_RETURN(const CUstream stream, CurrentStream(*device));
  return RetainOn(*device, stream, {tensor.storage()});
}

// ---- Events ----

absl::StatusOr<std::shared_ptr<const StreamEvent>> StreamEvent::Record(
    const DeviceContext& device, CUstream stream, absl::string_view call) {
  TENON_ASSIGN_OR_RETURN(const CUevent event,
                         EventPool::Of(device).Record(stream, call));
  return std::shared_ptr<const StreamEvent>(new StreamEvent(device, event));
}

StreamEvent::~StreamEvent() {
  if (device_.CheckProcess().ok()) EventPool::Of(device_).Return(event_);
}

absl::Status StreamEvent::WaitOn(const DeviceContext& device,
                                 CUstream stream) const {
  return device.Run([&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(
        device.CheckNotCaptured(stream, "StreamFuture::Wait()"));
    return device.Error(device.driver().cuStreamWaitEvent(stream, event_, 0),
                        "cuStreamWaitEvent");
  });
}

absl::Status StreamEvent::Check() const {
  TENON_RETURN_IF_ERROR(device_.CheckProcess());
  const CUresult queried = device_.driver().cuEventQuery(event_);
  return device_.Error(MayBePending(queried) ? CUDA_ERROR_NOT_READY : queried,
                       "cuEventQuery");
}

absl::Status RetainOn(const DeviceContext& device, CUstream stream,
                      Storages storages) {
  if (storages.empty()) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(auto event,
                         StreamEvent::Record(device, stream, "RecordUse()"));
  return PollThread::OfProcess().Add(
      [event = std::move(event), storages = std::move(storages)] {
        // After another error no work of the context goes on.
        return !absl::IsUnavailable(event->Check());
      });
}

StreamUses::StreamUses() : outer_(std::exchange(uses, this)) {}

StreamUses::~StreamUses() { uses = outer_; }

void StreamUses::Note(const DeviceContext& device, CUstream stream) {
  const std::pair<const DeviceContext*, CUstream> used(&device, stream);
  if (std::find(streams_.begin(), streams_.end(), used) == streams_.end()) {
    streams_.push_back(used);
  }
  if (outer_ != nullptr) outer_->Note(device, stream);
}

absl::Status StreamUses::Retain(const Storages& storages) const {
  for (const auto& [device, stream] : streams_) {
    TENON_RETURN_IF_ERROR(RetainOn(*device, stream, storages));
  }
  return absl::OkStatus();
}

absl::StatusOr<CUstream> NextPoolStream(const DeviceContext& device) {
  StreamPools& pools = stream_pools.Get();
  const ThreadLock lock(&pools.mutex);
  Pool& pool = pools.by_device[&device];
  CUstream& stream = pool.streams[pool.next];
  if (stream == nullptr) {
    TENON_RETURN_IF_ERROR(device.Run([&] {
      return device.Error(
          device.driver().cuStreamCreate(&stream, kCuStreamNonBlocking),
          "cuStreamCreate");
    }));
  }
  pool.next = (pool.next + 1) % kPoolStreams;
  return stream;
}

}  // namespace tenon::cuda_ipc
