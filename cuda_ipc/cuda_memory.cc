// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/cuda_memory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_copy.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon::cuda_ipc {
namespace {

CUdeviceptr AddressOf(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// With the context current.
absl::Status CheckOn(const DeviceContext& device, CUdeviceptr address) {
  int ordinal = -1;
  const CUresult result = device.driver().cuPointerGetAttribute(
      &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  if (result == CUDA_ERROR_INVALID_VALUE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address 0x", absl::Hex(address), " is not of the driver's memory"));
  }
  TENON_RETURN_IF_ERROR(device.Error(result, "cuPointerGetAttribute"));
  if (ordinal == device.device().ordinal) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("address 0x", absl::Hex(address), " is on cuda:", ordinal));
}

}  // namespace

absl::StatusOr<const DeviceContext*> CudaMemory::Of(
    const DLDevice& device) const {
  DeviceContexts* devices = devices_;
  if (devices == nullptr) {
    TENON_ASSIGN_OR_RETURN(devices, DeviceContexts::OfProcess());
  }
  return devices->Get(device.device_id);
}

absl::Status CudaMemory::Copy(const To& to, const From& from,
                              size_t bytes) const {
  if (IsOnCpu(from.device)) {
    TENON_ASSIGN_OR_RETURN(const DeviceContext* const device, Of(to.device));
    return CopyToDevice(*device, AddressOf(to.address), from.address, bytes);
  }
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const device, Of(from.device));
  if (IsOnCpu(to.device)) {
    return CopyToHost(*device, to.address, AddressOf(from.address), bytes);
  }
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const there, Of(to.device));
  return CopyBetweenDevices(*there, AddressOf(to.address), *device,
                            AddressOf(from.address), bytes);
}

absl::StatusOr<std::shared_ptr<Storage>> CudaMemory::Allocate(
    const DLDevice& device, size_t bytes) const {
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const context, Of(device));
  TENON_ASSIGN_OR_RETURN(const size_t size, RoundUpToDevice(*context, bytes));
  if (size == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no device has the ", bytes, " bytes of a tensor"));
  }
  TENON_ASSIGN_OR_RETURN(DeviceAllocation made,
                         DeviceAllocation::Create(*context, size));
  auto owner = std::make_shared<DeviceAllocation>(std::move(made));
  // The driver's addresses are numbers.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  auto* const data = reinterpret_cast<std::byte*>(owner->address());
  return Storage::FromLent({.data = data,
                            .size_bytes = bytes,
                            .writable = true,
                            .lender = std::move(owner),
                            .device = device});
}

absl::Status CudaMemory::CheckLent(const DLDevice& device,
                                   const std::byte* address,
                                   size_t bytes) const {
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const context, Of(device));
  return context->Run([&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(CheckOn(*context, AddressOf(address)));
    return CheckOn(*context, AddressOf(address) + (bytes - 1));
  });
}

}  // namespace tenon::cuda_ipc
