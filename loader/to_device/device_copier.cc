// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/to_device/device_copier.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/internal/trace_range.h"
#include "tenon/loader/to_device/copies_in_flight.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::loader {

using cuda_ipc::CUevent;
using cuda_ipc::CUresult;
using cuda_ipc::CUstream;

namespace {

constexpr char kNext[] = "ToDevice::Next()";

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceCopier>> DeviceCopier::Create(
    const cuda_ipc::DeviceContext& device, CUstream user) {
  auto copier = absl::WrapUnique(new DeviceCopier(device, user));
  TENON_RETURN_IF_ERROR(device.Run([&] { return copier->Start(); }));
  return copier;
}

absl::Status DeviceCopier::Start() {
  TENON_RETURN_IF_ERROR(Error(
      device_.driver().cuStreamCreate(&stream_, cuda_ipc::kCuStreamNonBlocking),
      "cuStreamCreate"));
  const ThreadLock lock(&mutex_);
  TENON_ASSIGN_OR_RETURN(used_, TakeEvent());
  return absl::OkStatus();
}

DeviceCopier::~DeviceCopier() {
  if (!device_.CheckProcess().ok()) return;
  CheckContext().IgnoreError();
  std::vector<CUevent> events;
  {
    const ThreadLock lock(&mutex_);
    events.swap(events_);
  }
  const cuda_ipc::DriverTable& driver = device_.driver();
  // A stream finishes its work, and an event stays until it has happened.
  device_
      .Run([&] {
        for (const CUevent event : events) driver.cuEventDestroy_v2(event);
        if (stream_ != nullptr) driver.cuStreamDestroy_v2(stream_);
        return absl::OkStatus();
      })
      .IgnoreError();
}

absl::StatusOr<CUevent> DeviceCopier::TakeEvent() {
  if (!unused_.empty()) {
    const CUevent event = unused_.back();
    unused_.pop_back();
    return event;
  }
  CUevent event = nullptr;
  TENON_RETURN_IF_ERROR(Error(
      device_.driver().cuEventCreate(&event, cuda_ipc::kCuEventDisableTiming),
      "cuEventCreate"));
  events_.push_back(event);
  return event;
}

absl::Status DeviceCopier::RunOrDrop(absl::FunctionRef<absl::Status()> calls) {
  absl::Status ran = device_.Run(calls);
  if (!ran.ok()) CheckContext().IgnoreError();
  return ran;
}

absl::Status DeviceCopier::OrderBehindUser() {
  return RunOrDrop([&]() -> absl::Status {
    const cuda_ipc::DriverTable& driver = device_.driver();
    const ThreadLock lock(&mutex_);
    TENON_RETURN_IF_ERROR(device_.CheckNotCaptured(user_, kNext));
    TENON_RETURN_IF_ERROR(
        Error(driver.cuEventRecord(used_, user_), "cuEventRecord"));
    return Error(driver.cuStreamWaitEvent(stream_, used_, 0),
                 "cuStreamWaitEvent");
  });
}

absl::StatusOr<CUevent> DeviceCopier::Copy(const CopiesInFlight::Copy& copy) {
  const cuda_ipc::TraceRange range("ToDevice::Copy");
  CUevent copied = nullptr;
  TENON_RETURN_IF_ERROR(RunOrDrop([&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(copied, Enqueue(copy));
    return absl::OkStatus();
  }));
  return copied;
}

absl::StatusOr<CUevent> DeviceCopier::Enqueue(
    const CopiesInFlight::Copy& copy) {
  const ThreadLock lock(&mutex_);
  TENON_ASSIGN_OR_RETURN(const CUevent copied, TakeEvent());
  const absl::StatusOr<void*> begun = in_flight_->Begin(copy);
  absl::Status enqueued = begun.status();
  if (begun.ok()) enqueued = EnqueueBegun(copy, *begun, copied);
  if (enqueued.ok()) return copied;
  if (begun.ok()) {
    // The copy may run, and its memory must not be reused before.
    device_.driver().cuStreamSynchronize(stream_);
    CopiesInFlight::Land(*begun);
  }
  unused_.push_back(copied);
  return enqueued;
}

absl::Status DeviceCopier::EnqueueBegun(const CopiesInFlight::Copy& copy,
                                        void* begun, CUevent copied) {
  const cuda_ipc::DriverTable& driver = device_.driver();
  TENON_ASSIGN_OR_RETURN(const std::byte* const from, copy.from->Read());
  TENON_ASSIGN_OR_RETURN(std::byte* const to, copy.to->Address());
  TENON_RETURN_IF_ERROR(
      Error(driver.cuMemcpyHtoDAsync_v2(reinterpret_cast<uintptr_t>(to), from,
                                        copy.from->size_bytes(), stream_),
            "cuMemcpyHtoDAsync"));
  TENON_RETURN_IF_ERROR(
      Error(driver.cuEventRecord(copied, stream_), "cuEventRecord"));
  return Error(driver.cuLaunchHostFunc(stream_, CopiesInFlight::Land, begun),
               "cuLaunchHostFunc");
}

absl::Status DeviceCopier::CheckContext() {
  absl::Status asked = device_.Run([&] {
    const CUresult now = device_.driver().cuStreamQuery(stream_);
    return cuda_ipc::MayBePending(now) ? absl::OkStatus()
                                       : Error(now, "cuStreamQuery");
  });
  if (!asked.ok()) in_flight_->DropAll(asked);
  return asked;
}

absl::Status DeviceCopier::MakeUserWait(CUevent copied) {
  absl::Status waits = RunOrDrop([&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(device_.CheckNotCaptured(user_, kNext));
    return Error(device_.driver().cuStreamWaitEvent(user_, copied, 0),
                 "cuStreamWaitEvent");
  });
  if (waits.ok()) GiveBack(copied);
  return waits;
}

void DeviceCopier::GiveBack(CUevent copied) {
  const ThreadLock lock(&mutex_);
  unused_.push_back(copied);
}

}  // namespace tenon::loader
