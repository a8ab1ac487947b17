// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/fork_hazard.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

// 12040 is 12.4.
std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

std::string PathOf(void* library, const std::string& name) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) {
    return name;
  }
  return map->l_name;
}

template <typename Function>
void Find(void* library, const char* name, Function& function,
          std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) absl::StrAppend(&missing, " ", name);
}

// Returns the names that were not found, each after a space.
std::string FindRequired(void* library, DriverTable& table) {
  std::string missing;
#define TENON_FIND(symbol, parameters) \
  Find(library, #symbol, table.symbol, missing);
  TENON_CUDA_REQUIRED_FUNCTIONS(TENON_FIND)
#undef TENON_FIND
  return missing;
}

// The functions of `feature` that the driver lacks, each after a space.
std::string MissingOf(const DriverTable& table, DriverFeature feature) {
  std::string missing;
  const std::string all = absl::StrCat(table.missing, " ");
#define TENON_MISSING(its_feature, symbol, parameters) \
  if (DriverFeature::its_feature == feature &&         \
      absl::StrContains(all, " " #symbol " ")) {       \
    absl::StrAppend(&missing, " ", #symbol);           \
  }
  TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_MISSING)
#undef TENON_MISSING
  return missing;
}

// A feature with some of its functions would be used until the first call of
// another; it is off.
void FindOptional(void* library, DriverTable& table) {
#define TENON_FIND(feature, symbol, parameters) \
  Find(library, #symbol, table.symbol, table.missing);
  TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_FIND)
#undef TENON_FIND
#define TENON_SWITCH_OFF(feature, symbol, parameters)      \
  if (!MissingOf(table, DriverFeature::feature).empty()) { \
    table.symbol = nullptr;                                \
  }
  TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_SWITCH_OFF)
#undef TENON_SWITCH_OFF
}

// `error` with another code: the caller of GetDriver asks why there is no
// usable driver, and the details are in the message.
absl::Status WithCode(absl::StatusCode code, const absl::Status& error,
                      absl::string_view more) {
  return absl::Status(code, absl::StrCat(error.message(), more));
}

// Why a working driver may see no device.
std::string VisibleDevicesHint() {
  const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "";
  return absl::StrCat("; CUDA_VISIBLE_DEVICES is '", visible, "'");
}

// The failure of a call without which the driver is of no use.
absl::Status Unusable(const DriverTable& table, CUresult result,
                      absl::string_view call) {
  const absl::Status error = CudaError(table, result, call, table.path);
  if (result == CUDA_ERROR_NO_DEVICE) {
    return WithCode(absl::StatusCode::kUnavailable, error,
                    VisibleDevicesHint());
  }
  // A stub library has no text for its own error, and container images may put
  // one where the loader searches for a driver.
  if (result == CUDA_ERROR_STUB_LIBRARY) {
    return WithCode(
        absl::StatusCode::kNotFound, error,
        "; this is the toolkit's stub library for linking, not a driver");
  }
  return WithCode(absl::StatusCode::kInternal, error, "");
}

absl::Status CheckVersion(DriverTable& table) {
  const CUresult result = table.cuDriverGetVersion(&table.version);
  if (result != CUDA_SUCCESS) {
    return Unusable(table, result, "cuDriverGetVersion");
  }
  if (table.version >= kOldestDriverVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      table.path, " is too old: it supports CUDA ", VersionText(table.version),
      ", and ", VersionText(kOldestDriverVersion), " is needed"));
}

absl::Status Initialize(const DriverTable& table) {
  CUresult result = table.cuInit(0);
  if (result != CUDA_SUCCESS) return Unusable(table, result, "cuInit");
  int count = 0;
  result = table.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) {
    return Unusable(table, result, "cuDeviceGetCount");
  }
  if (count > 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      table.path, " works, but has no device", VisibleDevicesHint()));
}

// The library of GetDriver, which need not exist.
std::string DriverLibrary() {
  // Not for programs that run with more rights than their caller has.
  const char* const chosen = secure_getenv("TENON_LIBCUDA");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  constexpr char kName[] = "libcuda.so.1";
  constexpr char kInContainers[] = "/usr/local/nvidia/lib64/libcuda.so.1";
  // Stays loaded: LoadDriver loads it again.
  if (dlopen(kName, RTLD_NOW | RTLD_LOCAL) != nullptr) return kName;
  return access(kInContainers, R_OK) == 0 ? kInContainers : kName;
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
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
      return absl::StatusCode::kFailedPrecondition;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NOT_READY:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return absl::StatusCode::kUnavailable;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
      return absl::StatusCode::kAlreadyExists;
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
    case CUDA_ERROR_NOT_FOUND:
      return absl::StatusCode::kNotFound;
    case CUDA_ERROR_NOT_PERMITTED:
      return absl::StatusCode::kPermissionDenied;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
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
  const std::string missing = FindRequired(handle, table);
  if (!missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        table.path, " is too old, or not a CUDA driver: it lacks", missing,
        "; CUDA ", VersionText(kOldestDriverVersion), " is needed"));
  }
  FindOptional(handle, table);
  TENON_RETURN_IF_ERROR(CheckVersion(table));
  // Before the call: a driver that fails in it may be of no use to a fork
  // either.
  NoteForkHazard("CUDA has been initialized");
  TENON_RETURN_IF_ERROR(Initialize(table));
  return table;
}

absl::StatusOr<const DriverTable*> GetDriver() {
  struct Loaded {
    uint64_t fork_count;
    absl::StatusOr<DriverTable> driver;
  };
  // Never destroyed: the last threads of the process may still use it.
  static const auto* const loaded =
      new Loaded{ForkCount(), LoadDriver(DriverLibrary())};
  if (!loaded->driver.ok()) return loaded->driver.status();
  if (loaded->fork_count != ForkCount()) {
    return absl::FailedPreconditionError(absl::StrCat(
        loaded->driver->path,
        " was initialized before this process was forked, and cannot be used "
        "here; start children by exec (StartMethod::kSpawn)"));
  }
  return &*loaded->driver;
}

absl::string_view FeatureName(DriverFeature feature) {
  switch (feature) {
    case DriverFeature::kVirtualMemory:
      return "virtual memory";
    case DriverFeature::kLegacyIpc:
      return "legacy IPC";
    case DriverFeature::kIpcEvents:
      return "events between processes";
    case DriverFeature::kStreamMemoryOps:
      return "memory operations of streams (CUDA 11.7)";
    case DriverFeature::kHostRegister:
      return "registration of host memory";
    case DriverFeature::kGraphs:
      return "graphs";
    case DriverFeature::kKernels:
      return "kernels";
  }
  return "unknown feature";
}

absl::Status CheckFeature(const DriverTable& driver, DriverFeature feature) {
  const std::string missing = MissingOf(driver, feature);
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      driver.path, " (CUDA ", VersionText(driver.version), ") is too old for ",
      FeatureName(feature), ": it lacks", missing));
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
