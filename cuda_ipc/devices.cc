// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/devices.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

absl::StatusOr<Device> Describe(const DriverTable& driver, int ordinal) {
  const std::string object = absl::StrCat("device ", ordinal);
  CUdevice device;
  TENON_RETURN_IF_ERROR(CudaError(driver, driver.cuDeviceGet(&device, ordinal),
                                  "cuDeviceGet", object));
  // One byte more than the driver may write, so that the name is always
  // terminated.
  char name[257] = {};
  TENON_RETURN_IF_ERROR(
      CudaError(driver, driver.cuDeviceGetName(name, sizeof(name) - 1, device),
                "cuDeviceGetName", object));
  size_t total_bytes = 0;
  TENON_RETURN_IF_ERROR(
      CudaError(driver, driver.cuDeviceTotalMem_v2(&total_bytes, device),
                "cuDeviceTotalMem", object));
  CUuuid uuid;
  TENON_RETURN_IF_ERROR(CudaError(driver,
                                  driver.cuDeviceGetUuid_v2(&uuid, device),
                                  "cuDeviceGetUuid", object));
  Device result = {
      .ordinal = ordinal, .name = name, .total_bytes = total_bytes, .uuid = {}};
  static_assert(sizeof(result.uuid) == sizeof(uuid.bytes));
  std::memcpy(result.uuid.data(), uuid.bytes, sizeof(uuid.bytes));
  return result;
}

// The attributes of a device without which it lacks the feature.
std::vector<CUdevice_attribute> AttributesOf(DriverFeature feature) {
  switch (feature) {
    case DriverFeature::kVirtualMemory:
      return {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED};
    case DriverFeature::kLegacyIpc:
      return {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING};
    case DriverFeature::kIpcEvents:
      return {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
              CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED};
    case DriverFeature::kHostRegister:
      return {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED};
    case DriverFeature::kStreamMemoryOps:  // No attribute for 32 bits.
    case DriverFeature::kGraphs:
    case DriverFeature::kKernels:
      break;
  }
  return {};
}

}  // namespace

absl::StatusOr<std::vector<Device>> ListDevices(const DriverTable& driver) {
  int count = 0;
  TENON_RETURN_IF_ERROR(CudaError(driver, driver.cuDeviceGetCount(&count),
                                  "cuDeviceGetCount", ""));
  std::vector<Device> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    TENON_ASSIGN_OR_RETURN(Device device, Describe(driver, ordinal));
    devices.push_back(std::move(device));
  }
  return devices;
}

absl::Status CheckFeature(const DriverTable& driver, int ordinal,
                          DriverFeature feature) {
  TENON_RETURN_IF_ERROR(CheckFeature(driver, feature));
  const std::string object = absl::StrCat("device ", ordinal);
  CUdevice device;
  TENON_RETURN_IF_ERROR(CudaError(driver, driver.cuDeviceGet(&device, ordinal),
                                  "cuDeviceGet", object));
  for (const CUdevice_attribute attribute : AttributesOf(feature)) {
    int value = 0;
    const CUresult result =
        driver.cuDeviceGetAttribute(&value, attribute, device);
    // A driver does not know attributes that are newer than it is.
    if (result == CUDA_ERROR_INVALID_VALUE) {
      return absl::FailedPreconditionError(absl::StrCat(
          driver.path, " is too old for ", FeatureName(feature),
          ": it does not know attribute ", attribute, " of devices"));
    }
    TENON_RETURN_IF_ERROR(
        CudaError(driver, result, "cuDeviceGetAttribute", object));
    if (value == 0) {
      return absl::UnimplementedError(
          absl::StrCat(object, " does not support ", FeatureName(feature),
                       ": its attribute ", attribute, " is 0"));
    }
  }
  return absl::OkStatus();
}

std::string UuidText(const std::array<uint8_t, 16>& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppend(&text, absl::Hex(uuid[i], absl::kZeroPad2));
  }
  return text;
}

}  // namespace tenon::cuda_ipc
