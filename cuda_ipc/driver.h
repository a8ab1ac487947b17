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
// Four answers are told apart by their code, in GetDriver and CheckFeature:
// - kNotFound: there is no driver;
// - kUnavailable: the driver has no device;
// - kFailedPrecondition: the driver is too old, or lacks a function;
// - kUnimplemented: this device does not support the feature (devices.h).
//
// dlsym finds the functions, by the versioned names of cuda_api.h, and not
// cuGetProcAddress: that function must itself be found by dlsym, and selects by
// a version number; here the name selects.

#ifndef TENON_CUDA_IPC_DRIVER_H_
#define TENON_CUDA_IPC_DRIVER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::cuda_ipc {

// 11.4, which introduced the newest required function: cuDeviceGetUuid_v2,
// which distinguishes the instances of a partitioned GPU.
inline constexpr int kOldestDriverVersion = 11040;

// Parts of the driver that may be missing. What needs them is off without them.
enum class DriverFeature {
  kVirtualMemory,    // cuMemCreate, cuMemMap, export as descriptors: 11.0.
  kLegacyIpc,        // cuIpcOpenMemHandle_v2: 11.0.
  kIpcEvents,        // cuIpcOpenEventHandle: 4.1.
  kStreamMemoryOps,  // cuStreamWaitValue32_v2: 11.7.
  kHostRegister,     // cuMemHostRegister_v2: 6.5.
  kGraphs,           // cuStreamBeginCapture_v2, for tests: 10.1.
  kKernels,          // cuModuleLoadData, cuLaunchKernel: 4.0.
};

// Functions of a loaded driver, after cuInit. The required ones are never null.
// The functions of a feature are all null if one of them is missing.
//
// Ownership: a value; the functions stay loaded until the process ends.
// Threads: const, so any number; the functions are as safe as CUDA says.
// Processes: in a forked child the functions fail with
//   CUDA_ERROR_NOT_INITIALIZED if the parent has loaded a driver. Start
//   children with exec: a process that has loaded a driver refuses to start
//   them by fork (fork_hazard.h).
// Trust: the driver is trusted, like any library.
// Failure: the functions return a CUresult; CudaError converts it to a status.
struct DriverTable {
#define TENON_CUDA_MEMBER(symbol, parameters) CUresult(*symbol) parameters;
#define TENON_CUDA_OPTIONAL_MEMBER(feature, symbol, parameters) \
  CUresult(*symbol) parameters;
  TENON_CUDA_REQUIRED_FUNCTIONS(TENON_CUDA_MEMBER)
  TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_CUDA_OPTIONAL_MEMBER)
#undef TENON_CUDA_MEMBER
#undef TENON_CUDA_OPTIONAL_MEMBER

  int version;          // 12040 is CUDA 12.4.
  std::string path;     // Path of the loaded file.
  std::string missing;  // Optional functions that it lacks: " cuA cuB".
};

// The driver of this process: the library that $TENON_LIBCUDA names, else
// libcuda.so.1 as the dynamic loader finds it, else the one in
// /usr/local/nvidia/lib64, where container runtimes mount it. The first call
// loads it, calls cuInit and may block for as long as that takes; later calls
// return the same result, an error too. Thread-safe.
// Errors: kNotFound with the loader's message if the library cannot be loaded,
// or is the toolkit's stub for linking; kFailedPrecondition if it lacks a
// required function or is older than kOldestDriverVersion, and in a child
// forked after it was loaded; kUnavailable if there is no device; kInternal
// with the driver's text if it fails otherwise.
absl::StatusOr<const DriverTable*> GetDriver();

// GetDriver's single load, for `library`: a path if it has a slash, else a name
// to search for. For tests, and for drivers in other locations.
absl::StatusOr<DriverTable> LoadDriver(const std::string& library);

// "virtual memory": for messages.
absl::string_view FeatureName(DriverFeature feature);

// OK if the driver has all functions of `feature`. Thread-safe.
// Errors: kFailedPrecondition that names the missing functions.
absl::Status CheckFeature(const DriverTable& driver, DriverFeature feature);

// The result of `call` as a status; OK if it is CUDA_SUCCESS. The message has
// the call, the object it was made on, the driver's text and the error's name:
//   RESOURCE_EXHAUSTED: cuDeviceGetCount(): out of memory
//   [CUDA_ERROR_OUT_OF_MEMORY]
// The table is a parameter because it provides the texts. Codes:
// kInvalidArgument, kResourceExhausted, kFailedPrecondition (not initialized,
// wrong context), kUnavailable (no driver, device or service; not ready),
// kNotFound, kAlreadyExists (memory is registered), kPermissionDenied,
// kUnimplemented (not supported here), else kInternal.
absl::Status CudaError(const DriverTable& driver, CUresult result,
                       absl::string_view call, absl::string_view object);

// Of a result of cuEventQuery or cuStreamQuery: whether the work may still run.
// Both refuse to say while a thread captures a graph in the mode GLOBAL.
inline bool MayBePending(CUresult queried) {
  return queried == CUDA_ERROR_NOT_READY ||
         queried == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DRIVER_H_
