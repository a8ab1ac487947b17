// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors on CUDA devices. A program that links this target copies tensors to
// devices and back, and takes device memory from other libraries (DLPack); it
// calls nothing to begin with.
//
//   TENON_ASSIGN_OR_RETURN(const DLDevice gpu, FindCudaDevice(uuid));
//   TENON_ASSIGN_OR_RETURN(const Tensor there, tensor.To(gpu));
//   TENON_ASSIGN_OR_RETURN(float* const pixels, there.device_data<float>());
//   // A kernel writes `pixels`; after it has ended:
//   TENON_ASSIGN_OR_RETURN(const Tensor here, there.ToCpu());
//
// The driver is loaded, and the device's primary context retained, by the first
// of these calls. Copies return when the bytes have arrived, and wait for no
// stream but their own (device_copy.h). A tensor has to outlive the kernels
// that use it: its memory is free again with its last reference. RecordUse()
// keeps it for them (fence.h).
//
// To() and Clone() create tensors in pools of this process, one for each
// device, so that they can be sent to other processes as those of a DevicePool
// (device_pool.h), which is for limits, reports and an end of its own.

#ifndef TENON_CUDA_IPC_DEVICE_TENSOR_H_
#define TENON_CUDA_IPC_DEVICE_TENSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::cuda_ipc {

// The device that this process knows by a number of its own
// (CUDA_VISIBLE_DEVICES). Thread-safe.
// Errors: kNotFound naming the devices that this process sees, or if there is
// no driver; others of GetDriver() and ListDevices().
absl::StatusOr<DLDevice> FindCudaDevice(const std::array<uint8_t, 16>& uuid);

// From now on, kernels of `accessor` may use tensors on `device` that are in
// pools, own and received, by the addresses of device_data(); also of pools
// that are made later. Call it before the first tensor: memory that this
// process has mapped already stays with its own device. Does not reach tensors
// that another library lends. For the rest of the process. Thread-safe.
// Errors: kUnimplemented if the driver says that the two are not connected: use
// Tensor::To(); kInvalidArgument unless both are kDLCUDA; kNotFound if there is
// no such device; others of GetDriver() and CudaError.
absl::Status AllowPeerAccess(const DLDevice& device, const DLDevice& accessor);

// Returns memory of tensors of To() and Clone() that have been dropped to the
// devices, which is else kept for later ones; the bytes. To() itself does so
// before it fails with kResourceExhausted. Waits for the driver. Thread-safe.
// Errors: kFailedPrecondition in a forked child that has inherited such memory.
absl::StatusOr<size_t> TrimDeviceTensors();

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_TENSOR_H_
