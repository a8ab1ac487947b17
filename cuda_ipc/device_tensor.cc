// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_tensor.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/cuda_memory.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_memory.h"

namespace tenon::cuda_ipc {
namespace {

// Before main(), in each program with this file. Never destroyed.
const CudaMemory* Register() {
  auto memory = std::make_unique<CudaMemory>();
  const CudaMemory* const registered = memory.get();
  const absl::Status done = RegisterDeviceMemory(kDLCUDA, std::move(memory));
  TENON_CHECK(done.ok(), "another library has registered kDLCUDA");
  return registered;
}
const CudaMemory* const kMemoryOfProcess = Register();

}  // namespace

absl::StatusOr<DLDevice> FindCudaDevice(const std::array<uint8_t, 16>& uuid) {
  TENON_ASSIGN_OR_RETURN(DeviceContexts* const devices,
                         DeviceContexts::OfProcess());
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const found, devices->Find(uuid));
  return DLDevice{kDLCUDA, found->device().ordinal};
}

absl::Status AllowPeerAccess(const DLDevice& device, const DLDevice& accessor) {
  if (DeviceType(device) != kDLCUDA || DeviceType(accessor) != kDLCUDA) {
    return absl::InvalidArgumentError(
        absl::StrCat("AllowPeerAccess(): ", DeviceName(device), " and ",
                     DeviceName(accessor), "; want two devices of CUDA"));
  }
  TENON_ASSIGN_OR_RETURN(DeviceContexts* const devices,
                         DeviceContexts::OfProcess());
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const owner,
                         devices->Get(device.device_id));
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const peer,
                         devices->Get(accessor.device_id));
  return owner->AllowPeer(*peer);
}

absl::StatusOr<size_t> TrimDeviceTensors() { return kMemoryOfProcess->Trim(); }

}  // namespace tenon::cuda_ipc
