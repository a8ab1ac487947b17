// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Synchronous copies and fills of device memory.
//
//   TENON_RETURN_IF_ERROR(
//       CopyToDevice(*gpu, memory.address(), std::as_bytes(pixels)));
//
// Each call enqueues to a stream of Tenon's own (DeviceContext::CopyStream())
// and waits for it. It is ordered with no stream of the user: work that wrote
// the source, or still uses the destination, must have ended before the call.
//
// Thread-safe; calls for one device wait for each other. 0 bytes cost no driver
// call. Each blocks until the copy is done: never call one where a tensor is
// released. Errors: those of CudaError; the destination is undefined then.

#ifndef TENON_CUDA_IPC_DEVICE_COPY_H_
#define TENON_CUDA_IPC_DEVICE_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"

namespace tenon::cuda_ipc {

absl::Status CopyToDevice(const DeviceContext& device, CUdeviceptr to,
                          std::span<const std::byte> from);
absl::Status CopyToHost(const DeviceContext& device, std::span<std::byte> to,
                        CUdeviceptr from);
// The devices may be the same one. The driver copies between devices without
// access to each other's memory by way of the host.
absl::Status CopyBetweenDevices(const DeviceContext& to_device, CUdeviceptr to,
                                const DeviceContext& from_device,
                                CUdeviceptr from, size_t bytes);
absl::Status FillDevice(const DeviceContext& device, CUdeviceptr to,
                        uint8_t value, size_t bytes);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_COPY_H_
