// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DeviceContext: this process's primary context of a device, and how a call
// uses it. DeviceContexts: those of all devices of a driver.
//
//   TENON_ASSIGN_OR_RETURN(DeviceContexts * devices,
//                          DeviceContexts::OfProcess());
//   TENON_ASSIGN_OR_RETURN(const DeviceContext* gpu, devices->Find(uuid));
//   TENON_RETURN_IF_ERROR(gpu->Run([&] {
//     return gpu->Error(gpu->driver().cuMemAlloc_v2(&address, bytes),
//                       "cuMemAlloc");
//   }));
//
// A driver call needs a current context on its thread. Run() pushes the primary
// context and pops it, so that callers need no context and none of theirs
// changes. It is the context that cudart and PyTorch use: their pointers and
// Tenon's are valid in each other's calls.
//
// A primary context is retained by its first use and never released: the last
// release destroys a context, and with it the streams and imports that tensors
// may still use, and waits for the device, which no release of a tensor may
// do. The driver destroys it when the process ends. Until then a context costs
// a few hundred MiB of the device's memory.

#ifndef TENON_CUDA_IPC_DEVICE_CONTEXT_H_
#define TENON_CUDA_IPC_DEVICE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/devices.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::cuda_ipc {

// Ownership: owned by its DeviceContexts. Keeps the context until the process
//   ends.
// Threads: thread-safe.
// Processes: of the process that made it. In a forked child calls fail with
//   kFailedPrecondition.
// Failure: a failed call leaves the thread's contexts as they were.
class DeviceContext {
 public:
  DeviceContext(const DriverTable& driver, Device device, CUcontext context);
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  const DriverTable& driver() const { return driver_; }
  const Device& device() const { return device_; }
  CUcontext context() const { return context_; }

  // body(), which returns a Status or a StatusOr, with the context current on
  // this thread. Errors: those of `body`; kFailedPrecondition in a forked
  // child; else those of CudaError for pushing or popping the context, and then
  // the result of `body` is destroyed.
  template <typename Body>
  std::invoke_result_t<Body> Run(Body&& body) const {
    absl::Status pushed = Push();
    if (!pushed.ok()) return pushed;
    std::invoke_result_t<Body> result = std::forward<Body>(body)();
    absl::Status popped = Pop();
    if (result.ok() && !popped.ok()) return popped;
    return result;
  }

  // CudaError for this device: "cuMemCreate(device 0): out of memory ...".
  absl::Status Error(CUresult result, absl::string_view call) const;

  // OK unless a CUDA graph captures `stream`, which holds no order with other
  // work: each launch of the graph would do the same again. `call` is for the
  // message. With the context current; one driver call, which enqueues nothing.
  // Errors: kFailedPrecondition; those of CudaError.
  absl::Status CheckNotCaptured(CUstream stream, absl::string_view call) const;

  // A stream for Tenon's own copies, which no user's work is enqueued to. Made
  // by the first call, with the context current. Errors: those of CudaError.
  absl::StatusOr<CUstream> CopyStream() const;

  // From now on, `peer` may access what this process maps of this device's
  // virtual memory, by the same addresses: segments of pools, own and received,
  // with the access that this device has. Not memory that is mapped already.
  // For the rest of the process. No effect if it was called before, or for this
  // device itself.
  // Errors: kUnimplemented if the driver says that the two are not connected;
  // those of CudaError; kFailedPrecondition in a forked child.
  absl::Status AllowPeer(const DeviceContext& peer) const;
  // The ordinals of these peers.
  std::vector<int> peers() const;

  // OK unless this process is a fork of the one that made it.
  absl::Status CheckProcess() const;

 private:
  absl::Status Push() const;
  absl::Status Pop() const;

  const DriverTable& driver_;
  const Device device_;
  const CUcontext context_;
  const uint64_t fork_count_;
  mutable ThreadMutex mutex_;
  mutable CUstream copy_stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  mutable std::vector<int> peers_ ABSL_GUARDED_BY(mutex_);
};

// Ownership: owns its DeviceContexts; the driver outlives it.
// Threads: thread-safe.
// Processes: as DeviceContext.
class DeviceContexts {
 public:
  // Of all devices of `driver`, without a context yet. For tests, and for
  // drivers of LoadDriver(). Errors: those of ListDevices().
  static absl::StatusOr<std::unique_ptr<DeviceContexts>> Create(
      const DriverTable& driver);

  // Of GetDriver()'s devices; the same in each call, and never destroyed.
  // Errors: those of GetDriver() and ListDevices(); a later call tries again.
  static absl::StatusOr<DeviceContexts*> OfProcess();

  // Of this process's ordinal, or of the device with this UUID: an ordinal from
  // another process may be another device. The first call for a device retains
  // its primary context, which may block for as long as the driver takes to
  // create it. Errors: kNotFound naming the devices that this process sees;
  // those of CudaError; kFailedPrecondition in a forked child.
  absl::StatusOr<const DeviceContext*> Get(int ordinal);
  absl::StatusOr<const DeviceContext*> Find(
      const std::array<uint8_t, 16>& uuid);

  const std::vector<Device>& devices() const { return devices_; }
  const DriverTable& driver() const { return driver_; }

 private:
  DeviceContexts(const DriverTable& driver, std::vector<Device> devices);

  std::string DevicesText() const;

  const DriverTable& driver_;
  const std::vector<Device> devices_;
  const uint64_t fork_count_;
  ThreadMutex mutex_;
  // By ordinal; null if it was not used yet.
  std::vector<std::unique_ptr<DeviceContext>> contexts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_CONTEXT_H_
