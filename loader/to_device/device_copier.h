// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DeviceCopier: enqueues copies to a device on a stream of its own, ordered
// with the user's stream by events of this process. Internal to ToDevice.

#ifndef TENON_LOADER_TO_DEVICE_DEVICE_COPIER_H_
#define TENON_LOADER_TO_DEVICE_DEVICE_COPIER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/loader/to_device/copies_in_flight.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::loader {

// Ownership: owns its stream and its events. Enqueued copies are executed even
//   after its end, and hold their memory until then.
// Threads: thread-safe. No call waits for the device, except a Copy() that
//   fails.
// Processes: in a forked child the destructor has no effect.
// Failure: an error of the driver that means a lost context drops the memory of
//   all copies.
class DeviceCopier {
 public:
  // A waiter for copies calls CheckContext() once in this time.
  static constexpr absl::Duration kCheckPeriod = absl::Milliseconds(100);

  // `user` is a stream of `device`; both are not owned. Errors: those of
  // CudaError.
  static absl::StatusOr<std::unique_ptr<DeviceCopier>> Create(
      const cuda_ipc::DeviceContext& device, cuda_ipc::CUstream user);
  ~DeviceCopier();
  DeviceCopier(const DeviceCopier&) = delete;
  DeviceCopier& operator=(const DeviceCopier&) = delete;

  const cuda_ipc::DeviceContext& device() const { return device_; }

  // Copies of later calls begin behind all work that the user's stream has now.
  // Errors: those of CudaError; kFailedPrecondition if that stream is under
  // capture.
  absl::Status OrderBehindUser();

  // Enqueues one copy of copy.from, memory of the CPU, to copy.to, memory of
  // the device. Returns the event of its end, for one of the two calls below.
  // Errors: those of CudaError.
  absl::StatusOr<cuda_ipc::CUevent> Copy(const CopiesInFlight::Copy& copy);

  // Work that is enqueued to the user's stream from now on waits for the copy.
  // Errors: those of OrderBehindUser(), after which the event is still the
  // caller's.
  absl::Status MakeUserWait(cuda_ipc::CUevent copied);
  // Returns the event of a copy that no work waits for.
  void GiveBack(cuda_ipc::CUevent copied);

  CopiesInFlight& in_flight() { return *in_flight_; }
  // Drops the memory of all copies if the context is lost. A lost context
  // executes no copy and calls no host function, so a waiter for copies must
  // call this. Does not block.
  // Errors: those of CudaError if the context is lost.
  absl::Status CheckContext();

 private:
  DeviceCopier(const cuda_ipc::DeviceContext& device, cuda_ipc::CUstream user)
      : device_(device), user_(user) {}

  absl::Status Error(cuda_ipc::CUresult result, absl::string_view call) const {
    return device_.Error(result, call);
  }
  absl::Status Start();
  // With the context current.
  absl::StatusOr<cuda_ipc::CUevent> TakeEvent()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<cuda_ipc::CUevent> Enqueue(const CopiesInFlight::Copy& copy);
  absl::Status RunOrDrop(absl::FunctionRef<absl::Status()> calls);
  absl::Status EnqueueBegun(const CopiesInFlight::Copy& copy, void* begun,
                            cuda_ipc::CUevent copied)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const cuda_ipc::DeviceContext& device_;
  const cuda_ipc::CUstream user_;
  const std::shared_ptr<CopiesInFlight> in_flight_ = CopiesInFlight::Create();
  cuda_ipc::CUstream stream_ = nullptr;
  ThreadMutex mutex_;  // Held while a copy is enqueued.
  // What the user's stream has.
  cuda_ipc::CUevent used_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<cuda_ipc::CUevent> events_ ABSL_GUARDED_BY(mutex_);  // All,
  std::vector<cuda_ipc::CUevent> unused_ ABSL_GUARDED_BY(mutex_);  // and these.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_TO_DEVICE_DEVICE_COPIER_H_
