// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_context.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

absl::Status CheckProcessOf(uint64_t fork_count) {
  if (fork_count == ForkCount()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "CUDA was initialized before this process was forked, and cannot be used "
      "here; start children by exec (StartMethod::kSpawn)");
}

// The one of OfProcess().
struct SharedContexts {
  ThreadMutex mutex;
  DeviceContexts* contexts ABSL_GUARDED_BY(mutex) = nullptr;
};

constinit PerProcess<SharedContexts> shared_contexts;

}  // namespace

DeviceContext::DeviceContext(const DriverTable& driver, Device device,
                             CUcontext context)
    : driver_(driver),
      device_(std::move(device)),
      context_(context),
      fork_count_(ForkCount()) {}

absl::Status DeviceContext::Error(CUresult result,
                                  absl::string_view call) const {
  return CudaError(driver_, result, call,
                   absl::StrCat("device ", device_.ordinal));
}

absl::Status DeviceContext::CheckProcess() const {
  return CheckProcessOf(fork_count_);
}

absl::Status DeviceContext::Push() const {
  TENON_RETURN_IF_ERROR(CheckProcess());
  return Error(driver_.cuCtxPushCurrent_v2(context_), "cuCtxPushCurrent");
}

absl::Status DeviceContext::Pop() const {
  CUcontext popped = nullptr;
  absl::Status result =
      Error(driver_.cuCtxPopCurrent_v2(&popped), "cuCtxPopCurrent");
  // The thread must not keep a context that its caller did not make current.
  if (!result.ok()) driver_.cuCtxPopCurrent_v2(&popped);
  return result;
}

absl::Status DeviceContext::CheckNotCaptured(CUstream stream,
                                             absl::string_view call) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  TENON_RETURN_IF_ERROR(Error(driver_.cuStreamIsCapturing(stream, &status),
                              "cuStreamIsCapturing"));
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      call, ": stream 0x", absl::Hex(reinterpret_cast<uintptr_t>(stream)),
      " of device ", device_.ordinal,
      " is under capture by a CUDA graph, each launch of which would repeat "
      "this; end the capture first, or call this between launches"));
}

absl::StatusOr<CUstream> DeviceContext::CopyStream() const {
  const ThreadLock lock(&mutex_);
  if (copy_stream_ == nullptr) {
    CUstream stream = nullptr;
    TENON_RETURN_IF_ERROR(
        Error(driver_.cuStreamCreate(&stream, kCuStreamNonBlocking),
              "cuStreamCreate"));
    copy_stream_ = stream;
  }
  return copy_stream_;
}

absl::Status DeviceContext::AllowPeer(const DeviceContext& peer) const {
  TENON_RETURN_IF_ERROR(CheckProcess());
  const int accessor = peer.device().ordinal;
  if (accessor == device_.ordinal) return absl::OkStatus();
  int can = 0;
  TENON_RETURN_IF_ERROR(
      Error(driver_.cuDeviceCanAccessPeer(&can, accessor, device_.ordinal),
            "cuDeviceCanAccessPeer"));
  if (can == 0) {
    return absl::UnimplementedError(
        absl::StrCat("AllowPeer(): device ", accessor,
                     " cannot access the memory of device ", device_.ordinal,
                     " (cuDeviceCanAccessPeer); copy tensors by Tensor::To()"));
  }
  const ThreadLock lock(&mutex_);
  if (std::find(peers_.begin(), peers_.end(), accessor) == peers_.end()) {
    peers_.push_back(accessor);
  }
  return absl::OkStatus();
}

std::vector<int> DeviceContext::peers() const {
  const ThreadLock lock(&mutex_);
  return peers_;
}

DeviceContexts::DeviceContexts(const DriverTable& driver,
                               std::vector<Device> devices)
    : driver_(driver),
      devices_(std::move(devices)),
      fork_count_(ForkCount()),
      contexts_(devices_.size()) {}

absl::StatusOr<std::unique_ptr<DeviceContexts>> DeviceContexts::Create(
    const DriverTable& driver) {
  TENON_ASSIGN_OR_RETURN(std::vector<Device> devices, ListDevices(driver));
  return std::unique_ptr<DeviceContexts>(
      new DeviceContexts(driver, std::move(devices)));
}

absl::StatusOr<DeviceContexts*> DeviceContexts::OfProcess() {
  SharedContexts& shared = shared_contexts.Get();
  const ThreadLock lock(&shared.mutex);
  if (shared.contexts == nullptr) {
    TENON_ASSIGN_OR_RETURN(const DriverTable* driver, GetDriver());
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<DeviceContexts> contexts,
                           Create(*driver));
    shared.contexts = contexts.release();
  }
  return shared.contexts;
}

absl::StatusOr<const DeviceContext*> DeviceContexts::Get(int ordinal) {
  TENON_RETURN_IF_ERROR(CheckProcessOf(fork_count_));
  if (ordinal < 0 || ordinal >= static_cast<int>(devices_.size())) {
    return absl::NotFoundError(absl::StrCat(
        "no device ", ordinal, "; this process sees ", DevicesText()));
  }
  const ThreadLock lock(&mutex_);
  std::unique_ptr<DeviceContext>& made = contexts_[ordinal];
  if (made == nullptr) {
    CUcontext context = nullptr;
    TENON_RETURN_IF_ERROR(CudaError(
        driver_, driver_.cuDevicePrimaryCtxRetain(&context, ordinal),
        "cuDevicePrimaryCtxRetain", absl::StrCat("device ", ordinal)));
    made = std::make_unique<DeviceContext>(driver_, devices_[ordinal], context);
  }
  return made.get();
}

absl::StatusOr<const DeviceContext*> DeviceContexts::Find(
    const std::array<uint8_t, 16>& uuid) {
  for (const Device& device : devices_) {
    if (device.uuid == uuid) return Get(device.ordinal);
  }
  return absl::NotFoundError(absl::StrCat(
      "no device with UUID ", UuidText(uuid), "; this process sees ",
      DevicesText(), " (CUDA_VISIBLE_DEVICES selects them)"));
}

std::string DeviceContexts::DevicesText() const {
  std::string text;
  for (const Device& device : devices_) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", device.ordinal, ": ",
                    UuidText(device.uuid));
  }
  return text.empty() ? "no device" : text;
}

}  // namespace tenon::cuda_ipc
