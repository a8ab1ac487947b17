// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Devices: the memory that a tensor is in, in DLPack's terms.
//
//   const DLDevice device = tensor.device();      // {kDLCUDA, 1}
//   const std::string name = DeviceName(device);  // "cuda:1"
//   TENON_ASSIGN_OR_RETURN(const Tensor here, tensor.To(kCpuDevice));
//   return IsOnCpu(here.device());

#ifndef TENON_SHM_TENSOR_DEVICE_H_
#define TENON_SHM_TENSOR_DEVICE_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "dlpack/dlpack.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

inline constexpr DLDevice kCpuDevice = {kDLCPU, 0};

// The type as a number: one from another library may be a type that this
// header of DLPack does not name, which an enum cannot hold.
inline int32_t DeviceType(const DLDevice& device) {
  int32_t type;
  static_assert(sizeof(type) == sizeof(device.device_type));
  std::memcpy(&type, &device.device_type, sizeof(type));
  return type;
}

inline bool SameDevice(const DLDevice& a, const DLDevice& b) {
  return DeviceType(a) == DeviceType(b) && a.device_id == b.device_id;
}

// Whether the CPU can access the memory: its own, or host memory that is pinned
// for CUDA (kDLCUDAHost).
inline bool IsOnCpu(const DLDevice& device) {
  const int32_t type = DeviceType(device);
  return type == kDLCPU || type == kDLCUDAHost;
}

// "cpu", "cuda:1", "cuda_host", "device type 12 (number 0)".
std::string DeviceName(const DLDevice& device);

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_DEVICE_H_
