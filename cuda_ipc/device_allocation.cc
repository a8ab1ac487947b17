// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_allocation.h"

#include <errno.h>
#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/devices.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

CUmemLocation LocationOf(const DeviceContext& device) {
  return {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device.device().ordinal};
}

CUmemAllocationProp PropertiesOf(const DeviceContext& device) {
  return {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
          .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
          .location = LocationOf(device),
          .win32HandleMetaData = nullptr,
          .allocFlags = {}};
}

absl::Status CheckVirtualMemory(const DeviceContext& device) {
  return CheckFeature(device.driver(), device.device().ordinal,
                      DriverFeature::kVirtualMemory);
}

}  // namespace

absl::StatusOr<size_t> RoundUpToDevice(const DeviceContext& device,
                                       size_t bytes) {
  TENON_RETURN_IF_ERROR(CheckVirtualMemory(device));
  const CUmemAllocationProp properties = PropertiesOf(device);
  size_t granularity = 0;
  TENON_RETURN_IF_ERROR(device.Run([&] {
    return device.Error(
        device.driver().cuMemGetAllocationGranularity(
            &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
  }));
  if (granularity == 0) {
    return absl::InternalError(
        "cuMemGetAllocationGranularity(): the granularity is 0");
  }
  if (bytes > std::numeric_limits<size_t>::max() - granularity) return 0;
  return (bytes + granularity - 1) / granularity * granularity;
}

absl::StatusOr<DeviceAllocation> DeviceAllocation::Create(
    const DeviceContext& device, size_t bytes) {
  TENON_RETURN_IF_ERROR(CheckVirtualMemory(device));
  DeviceAllocation memory(device, bytes);
  const auto create = [&memory]() -> absl::Status {
    TENON_RETURN_IF_ERROR(memory.Allocate());
    TENON_RETURN_IF_ERROR(memory.Map(DeviceAccess::kReadWrite));
    TENON_RETURN_IF_ERROR(memory.Export());
    return memory.DropHandle();
  };
  TENON_RETURN_IF_ERROR(device.Run(create));
  return memory;
}

absl::StatusOr<DeviceAllocation> DeviceAllocation::Import(
    const DeviceContext& device, UniqueFd&& fd, size_t bytes,
    DeviceAccess access) {
  TENON_RETURN_IF_ERROR(CheckVirtualMemory(device));
  DeviceAllocation memory(device, bytes);
  const auto import = [&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(memory.Open(fd.get()));
    TENON_RETURN_IF_ERROR(memory.Map(access));
    return memory.DropHandle();
  };
  TENON_RETURN_IF_ERROR(device.Run(import));
  memory.fd_ = std::move(fd);
  return memory;
}

DeviceAllocation::DeviceAllocation(DeviceAllocation&& other) noexcept
    : device_(other.device_),
      bytes_(other.bytes_),
      handle_(std::exchange(other.handle_, std::nullopt)),
      address_(std::exchange(other.address_, 0)),
      is_mapped_(std::exchange(other.is_mapped_, false)),
      access_(other.access_),
      fd_(std::move(other.fd_)) {}

DeviceAllocation& DeviceAllocation::operator=(
    DeviceAllocation&& other) noexcept {
  DeviceAllocation old(std::move(*this));
  device_ = other.device_;
  bytes_ = other.bytes_;
  handle_ = std::exchange(other.handle_, std::nullopt);
  address_ = std::exchange(other.address_, 0);
  is_mapped_ = std::exchange(other.is_mapped_, false);
  access_ = other.access_;
  fd_ = std::move(other.fd_);
  return *this;
}

DeviceAllocation::~DeviceAllocation() {
  // A driver that fails twice has lost the context, and with it the memory.
  if (!Release().ok()) static_cast<void>(Release());
}

absl::Status DeviceAllocation::Allocate() {
  const CUmemAllocationProp properties = PropertiesOf(*device_);
  CUmemGenericAllocationHandle handle = 0;
  TENON_RETURN_IF_ERROR(device_->Error(
      device_->driver().cuMemCreate(&handle, bytes_, &properties, 0),
      "cuMemCreate"));
  handle_ = handle;
  TENON_CRASH_POINT("device_memory.created");
  return absl::OkStatus();
}

absl::Status DeviceAllocation::Open(int fd) {
  const DriverTable& driver = device_->driver();
  CUmemGenericAllocationHandle handle = 0;
  // The driver takes the number of the descriptor in the pointer.
  void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  TENON_RETURN_IF_ERROR(device_->Error(
      driver.cuMemImportFromShareableHandle(
          &handle, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle"));
  handle_ = handle;
  TENON_CRASH_POINT("device_memory.imported");
  CUmemAllocationProp properties = {};
  TENON_RETURN_IF_ERROR(device_->Error(
      driver.cuMemGetAllocationPropertiesFromHandle(&properties, handle),
      "cuMemGetAllocationPropertiesFromHandle"));
  const CUmemLocation expected = LocationOf(*device_);
  if (properties.location.type != expected.type ||
      properties.location.id != expected.id) {
    return absl::InvalidArgumentError(
        absl::StrCat("the received memory is of device ",
                     properties.location.id, ", not of device ", expected.id,
                     " with UUID ", UuidText(device_->device().uuid)));
  }
  return absl::OkStatus();
}

absl::Status DeviceAllocation::Map(DeviceAccess access) {
  const DriverTable& driver = device_->driver();
  CUdeviceptr address = 0;
  TENON_RETURN_IF_ERROR(
      device_->Error(driver.cuMemAddressReserve(&address, bytes_, 0, 0, 0),
                     "cuMemAddressReserve"));
  address_ = address;
  TENON_RETURN_IF_ERROR(device_->Error(
      driver.cuMemMap(address_, bytes_, 0, *handle_, 0), "cuMemMap"));
  is_mapped_ = true;
  TENON_CRASH_POINT("device_memory.mapped");
  const absl::Status set = SetAccess(access);
  const bool is_refused =
      absl::IsUnimplemented(set) || absl::IsInvalidArgument(set);
  if (access == DeviceAccess::kReadWrite || !is_refused) return set;
  return SetAccess(DeviceAccess::kReadWrite);
}

absl::Status DeviceAllocation::SetAccess(DeviceAccess access) {
  CUmemAccessDesc description = {
      .location = LocationOf(*device_),
      .flags = access == DeviceAccess::kReadOnly
                   ? CU_MEM_ACCESS_FLAGS_PROT_READ
                   : CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  std::vector<CUmemAccessDesc> descriptions = {description};
  for (const int peer : device_->peers()) {
    description.location.id = peer;
    descriptions.push_back(description);
  }
  TENON_RETURN_IF_ERROR(device_->Error(
      device_->driver().cuMemSetAccess(address_, bytes_, descriptions.data(),
                                       descriptions.size()),
      "cuMemSetAccess"));
  access_ = access;
  return absl::OkStatus();
}

absl::Status DeviceAllocation::Export() {
  int fd = -1;
  TENON_RETURN_IF_ERROR(device_->Error(
      device_->driver().cuMemExportToShareableHandle(
          &fd, *handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      "cuMemExportToShareableHandle"));
  fd_ = UniqueFd(fd);
  TENON_CRASH_POINT("device_memory.exported");
  // The driver does not say whether it is close-on-exec.
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return PosixError(errno, "fcntl", "a descriptor of device memory");
  }
  return absl::OkStatus();
}

absl::Status DeviceAllocation::DropHandle() {
  if (!handle_.has_value()) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(
      device_->Error(device_->driver().cuMemRelease(*handle_), "cuMemRelease"));
  handle_.reset();
  return absl::OkStatus();
}

absl::Status DeviceAllocation::Release() {
  fd_.Reset();
  const bool is_released = !is_mapped_ && address_ == 0 && !handle_.has_value();
  // In a forked child the mapping is the parent's.
  if (is_released || !device_->CheckProcess().ok()) return absl::OkStatus();
  const DriverTable& driver = device_->driver();
  if (is_mapped_) {
    TENON_RETURN_IF_ERROR(
        device_->Error(driver.cuMemUnmap(address_, bytes_), "cuMemUnmap"));
    is_mapped_ = false;
    TENON_CRASH_POINT("device_memory.unmapped");
  }
  if (address_ != 0) {
    TENON_RETURN_IF_ERROR(device_->Error(
        driver.cuMemAddressFree(address_, bytes_), "cuMemAddressFree"));
    address_ = 0;
    TENON_CRASH_POINT("device_memory.freed");
  }
  return DropHandle();
}

}  // namespace tenon::cuda_ipc
