// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// GetDriver: the functions of the CUDA driver, loaded at run time.
//
//   TENON_ASSIGN_OR_RETURN(const DriverTable* driver, GetDriver());
//   int count = 0;
//   TENON_RETURN_IF_ERROR(CudaError(*driver, driver->cuDeviceGetCount(&count),
//                                   "cuDeviceGetCount", ""));
//
// Nothing links against libcuda or libcudart, so one binary starts on machines
// with and without a GPU, and detects here which it is on. No contexts, streams
// or memory are created here, and nothing is ever unloaded.
//
// cuda.h maps most names to a versioned one (cuDeviceTotalMem is a macro for
// cuDeviceTotalMem_v2), while libcuda also exports the plain name, with another
// signature. Member, type and symbol are all derived from the one
// macro-expanded name, so they cannot disagree. dlsym finds them, not
// cuGetProcAddress: that function must itself be found by dlsym, and selects by
// a version number; here the name selects.

#ifndef TENON_CUDA_IPC_DRIVER_H_
#define TENON_CUDA_IPC_DRIVER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cuda.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::cuda_ipc {

// 11.4, which introduced the newest function below: cuDeviceGetUuid_v2, which
// distinguishes the instances of a partitioned GPU.
inline constexpr int kOldestDriverVersion = 11040;

// Functions of a loaded driver, none of them null, after cuInit.
//
// Ownership: a value; the functions stay loaded until the process ends.
// Threads: const, so any number; the functions are as safe as CUDA says.
// Processes: in a forked child the functions fail with
//   CUDA_ERROR_NOT_INITIALIZED if the parent has loaded a driver. Start
//   children with exec.
// Trust: the driver is trusted, like any library.
// Failure: the functions return a CUresult; CudaError converts it to a status.
struct DriverTable {
  decltype(&::cuInit) cuInit;
  decltype(&::cuDriverGetVersion) cuDriverGetVersion;
  decltype(&::cuGetErrorName) cuGetErrorName;
  decltype(&::cuGetErrorString) cuGetErrorString;
  decltype(&::cuDeviceGetCount) cuDeviceGetCount;
  decltype(&::cuDeviceGet) cuDeviceGet;
  decltype(&::cuDeviceGetName) cuDeviceGetName;
  decltype(&::cuDeviceGetUuid) cuDeviceGetUuid;
  decltype(&::cuDeviceTotalMem) cuDeviceTotalMem;

  int version;       // 12040 is CUDA 12.4.
  std::string path;  // Path of the loaded file.
};

// The driver of this process: libcuda.so.1, as found by the dynamic loader. The
// first call loads it, calls cuInit and may block for as long as that takes;
// later calls return the same result, an error too. Thread-safe.
// Errors: kNotFound with the loader's message if the library cannot be loaded;
// kUnavailable if it is loaded but not usable: a function is missing or the
// driver older than kOldestDriverVersion, cuInit fails, there is no device.
absl::StatusOr<const DriverTable*> GetDriver();

// GetDriver's single load, for `library`: a path if it has a slash, else a name
// to search for. For tests, and for drivers in other locations.
absl::StatusOr<DriverTable> LoadDriver(const std::string& library);

// The result of `call` as a status; OK if it is CUDA_SUCCESS. The message has
// the call, the object it was made on, the driver's text and the error's name:
//   RESOURCE_EXHAUSTED: cuDeviceGetCount(): out of memory
//   [CUDA_ERROR_OUT_OF_MEMORY]
// The table is a parameter because it provides the texts. Codes:
// kInvalidArgument, kResourceExhausted, kFailedPrecondition (not initialized,
// wrong context), kUnavailable (no driver, device or service), kNotFound,
// kPermissionDenied, kUnimplemented (not supported here), else kInternal.
absl::Status CudaError(const DriverTable& driver, CUresult result,
                       absl::string_view call, absl::string_view object);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DRIVER_H_
