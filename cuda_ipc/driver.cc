// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cuda.h"
#include "tenon/shm/base/status_macros.h"

// The name of a function after expansion of cuda.h's macros.
#define TENON_CUDA_NAME_(function) #function
#define TENON_CUDA_NAME(function) TENON_CUDA_NAME_(function)

namespace tenon::cuda_ipc {
namespace {

// 12040 is 12.4.
std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

std::string PathOf(void* library, const std::string& name) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return name;
  return map->l_name;
}

template <typename Function>
void Find(void* library, const char* name, Function& function,
          std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) absl::StrAppend(&missing, " ", name);
}

// Returns the names that were not found, each after a space.
std::string FindAll(void* library, DriverTable& table) {
  std::string missing;
#define TENON_FIND(function) \
  Find(library, TENON_CUDA_NAME(function), table.function, missing)
  TENON_FIND(cuInit);
  TENON_FIND(cuDriverGetVersion);
  TENON_FIND(cuGetErrorName);
  TENON_FIND(cuGetErrorString);
  TENON_FIND(cuDeviceGetCount);
  TENON_FIND(cuDeviceGet);
  TENON_FIND(cuDeviceGetName);
  TENON_FIND(cuDeviceGetUuid);
  TENON_FIND(cuDeviceTotalMem);
#undef TENON_FIND
  return missing;
}

// `error` as kUnavailable: the caller of GetDriver asks whether there is a
// usable driver, and the details are in the message.
absl::Status Unavailable(const absl::Status& error, absl::string_view more) {
  return absl::UnavailableError(absl::StrCat(error.message(), more));
}

// Why a working driver may see no device.
std::string VisibleDevicesHint() {
  const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "";
  return absl::StrCat("; CUDA_VISIBLE_DEVICES is '", visible, "'");
}

absl::Status CheckVersion(DriverTable& table) {
  const CUresult result = table.cuDriverGetVersion(&table.version);
  if (result != CUDA_SUCCESS) {
    // A stub library has no text for its own error, and container images may
    // put one where the loader searches for a driver.
    const absl::string_view hint =
        result == CUDA_ERROR_STUB_LIBRARY
            ? "; this is the toolkit's stub library for linking, not a driver"
            : "";
    return Unavailable(
        CudaError(table, result, "cuDriverGetVersion", table.path), hint);
  }
  if (table.version >= kOldestDriverVersion) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      table.path, " is too old: it supports CUDA ", VersionText(table.version),
      ", and ", VersionText(kOldestDriverVersion), " is needed"));
}

absl::Status Initialize(const DriverTable& table) {
  CUresult result = table.cuInit(0);
  if (result != CUDA_SUCCESS) {
    const std::string hint =
        result == CUDA_ERROR_NO_DEVICE ? VisibleDevicesHint() : "";
    return Unavailable(CudaError(table, result, "cuInit", table.path), hint);
  }
  int count = 0;
  result = table.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) {
    return Unavailable(CudaError(table, result, "cuDeviceGetCount", table.path),
                       "");
  }
  if (count > 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      table.path, " works, but has no device", VisibleDevicesHint()));
}

absl::StatusCode CodeOf(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_HANDLE:
      return absl::StatusCode::kInvalidArgument;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return absl::StatusCode::kFailedPrecondition;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return absl::StatusCode::kUnavailable;
    case CUDA_ERROR_NOT_FOUND:
      return absl::StatusCode::kNotFound;
    case CUDA_ERROR_NOT_PERMITTED:
      return absl::StatusCode::kPermissionDenied;
    case CUDA_ERROR_NOT_SUPPORTED:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<DriverTable> LoadDriver(const std::string& library) {
  // Never closed: a driver starts threads that cannot be stopped.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "no CUDA driver: dlopen(", library, "): ", dlerror(),
        "; NVIDIA's driver brings this library, the CUDA toolkit does not"));
  }
  DriverTable table{};
  table.path = PathOf(handle, library);
  const std::string missing = FindAll(handle, table);
  if (!missing.empty()) {
    return absl::UnavailableError(absl::StrCat(
        table.path, " is too old, or not a CUDA driver: it lacks", missing,
        "; CUDA ", VersionText(kOldestDriverVersion), " is needed"));
  }
  TENON_RETURN_IF_ERROR(CheckVersion(table));
  TENON_RETURN_IF_ERROR(Initialize(table));
  return table;
}

absl::StatusOr<const DriverTable*> GetDriver() {
  // Never destroyed: the last threads of the process may still use it.
  static const auto* const driver =
      new absl::StatusOr<DriverTable>(LoadDriver("libcuda.so.1"));
  if (!driver->ok()) return driver->status();
  return &**driver;
}

absl::Status CudaError(const DriverTable& driver, CUresult result,
                       absl::string_view call, absl::string_view object) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* words = nullptr;
  // These fail for errors newer than the driver, and always in a stub library
  // that exists only to link against.
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS) name = nullptr;
  if (driver.cuGetErrorString(result, &words) != CUDA_SUCCESS) words = nullptr;
  const std::string number = absl::StrCat("CUresult ", result);
  return absl::Status(
      CodeOf(result),
      absl::StrCat(call, "(", object,
                   "): ", words != nullptr ? words : "unknown error", " [",
                   name != nullptr ? name : number.c_str(), "]"));
}

}  // namespace tenon::cuda_ipc
