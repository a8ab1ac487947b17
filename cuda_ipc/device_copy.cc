// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_copy.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/internal/trace_range.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

// Enqueues to the device's stream for copies, and waits for the stream.
absl::Status Finish(const DeviceContext& device, size_t bytes,
                    absl::string_view call,
                    absl::FunctionRef<CUresult(CUstream)> enqueue) {
  if (bytes == 0) return absl::OkStatus();
  return device.Run([&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const CUstream stream, device.CopyStream());
    TENON_RETURN_IF_ERROR(device.Error(enqueue(stream), call));
    const CUresult waited = device.driver().cuStreamSynchronize(stream);
    // The caller may free its memory after an error. If the second wait fails
    // too, the context is lost, and nothing runs in it any more.
    if (waited != CUDA_SUCCESS) device.driver().cuStreamSynchronize(stream);
    return device.Error(waited, "cuStreamSynchronize");
  });
}

}  // namespace

absl::Status CopyToDevice(const DeviceContext& device, CUdeviceptr to,
                          std::span<const std::byte> from) {
  const TraceRange range("CopyToDevice");
  return Finish(device, from.size(), "cuMemcpyHtoDAsync", [&](CUstream stream) {
    return device.driver().cuMemcpyHtoDAsync_v2(to, from.data(), from.size(),
                                                stream);
  });
}

absl::Status CopyToHost(const DeviceContext& device, std::span<std::byte> to,
                        CUdeviceptr from) {
  const TraceRange range("CopyToHost");
  return Finish(device, to.size(), "cuMemcpyDtoHAsync", [&](CUstream stream) {
    return device.driver().cuMemcpyDtoHAsync_v2(to.data(), from, to.size(),
                                                stream);
  });
}

absl::Status CopyBetweenDevices(const DeviceContext& to_device, CUdeviceptr to,
                                const DeviceContext& from_device,
                                CUdeviceptr from, size_t bytes) {
  const TraceRange range("CopyBetweenDevices");
  const DriverTable& driver = to_device.driver();
  if (to_device.context() == from_device.context()) {
    return Finish(to_device, bytes, "cuMemcpyDtoDAsync", [&](CUstream stream) {
      return driver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
    });
  }
  return Finish(to_device, bytes, "cuMemcpyPeerAsync", [&](CUstream stream) {
    return driver.cuMemcpyPeerAsync(to, to_device.context(), from,
                                    from_device.context(), bytes, stream);
  });
}

absl::Status FillDevice(const DeviceContext& device, CUdeviceptr to,
                        uint8_t value, size_t bytes) {
  const TraceRange range("FillDevice");
  return Finish(device, bytes, "cuMemsetD8Async", [&](CUstream stream) {
    return device.driver().cuMemsetD8Async(to, value, bytes, stream);
  });
}

}  // namespace tenon::cuda_ipc
