// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/faults.h"

#include <stdio.h>
#include <stdlib.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/settings.h"

namespace tenon::cuda_ipc::fake {
namespace {

constexpr size_t kEntries = static_cast<size_t>(Entry::kCount);

#define TENON_FAKE_NAME(symbol, parameters) #symbol,
#define TENON_FAKE_OPTIONAL_NAME(feature, symbol, parameters) #symbol,
constexpr std::array<const char*, kEntries> kNames = {
    TENON_CUDA_REQUIRED_FUNCTIONS(TENON_FAKE_NAME)
        TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_FAKE_OPTIONAL_NAME)};

struct Fault {
  uint64_t nth = 0;  // Calls from now on; 0 is all.
  CUresult error = CUDA_SUCCESS;
};

std::array<std::atomic<uint64_t>, kEntries> calls;
std::array<std::atomic<bool>, kEntries> has_fault;
std::mutex mutex;                    // Guards `faults`.
std::array<Fault, kEntries> faults;  // Where has_fault.

size_t IndexOf(const std::string& name) {
  for (size_t i = 0; i < kEntries; ++i) {
    if (name == kNames[i]) return i;
  }
  fprintf(stderr, "fake driver: no entry '%s'\n", name.c_str());
  abort();
}

// By cuda.h of CUDA 13.0, section "return" of each function. cuInit's list
// lacks the error without a device, which is in the text of the constant.
const std::map<std::string, std::vector<int>>& AllDocumentedErrors() {
  static const auto* const errors = new std::map<std::string, std::vector<int>>{
      {"cuInit",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE,
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE}},
      {"cuDriverGetVersion", {CUDA_ERROR_INVALID_VALUE}},
      {"cuGetErrorName", {CUDA_ERROR_INVALID_VALUE}},
      {"cuGetErrorString", {CUDA_ERROR_INVALID_VALUE}},
      {"cuDeviceGetCount",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuDeviceGet",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_DEVICE}},
      {"cuDeviceGetName",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_DEVICE}},
      {"cuDeviceGetUuid_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE}},
      {"cuDeviceTotalMem_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_DEVICE}},
      {"cuDeviceGetAttribute",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_DEVICE}},
      {"cuDevicePrimaryCtxRetain",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_DEVICE,
        CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_UNKNOWN}},
      {"cuDevicePrimaryCtxRelease_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_CONTEXT}},
      {"cuCtxGetCurrent",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED}},
      {"cuCtxSetCurrent",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT}},
      {"cuCtxPushCurrent_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuCtxPopCurrent_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT}},
      {"cuCtxGetDevice",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuCtxSynchronize",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT}},
      {"cuDeviceCanAccessPeer",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_DEVICE}},
      {"cuMemAlloc_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_OUT_OF_MEMORY}},
      {"cuMemFree_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuMemGetAddressRange_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_NOT_FOUND,
        CUDA_ERROR_INVALID_VALUE}},
      {"cuMemGetInfo_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuPointerGetAttribute",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_DEVICE}},
      {"cuMemcpyHtoD_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuMemcpyDtoH_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuMemcpyDtoD_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuMemcpyHtoDAsync_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_HANDLE}},
      {"cuMemcpyDtoHAsync_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_HANDLE}},
      {"cuMemcpyDtoDAsync_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_HANDLE}},
      {"cuMemcpyPeer",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuMemcpyPeerAsync",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_HANDLE}},
      {"cuMemsetD8_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuMemsetD8Async",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuStreamCreate",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_OUT_OF_MEMORY}},
      {"cuStreamDestroy_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_HANDLE}},
      {"cuStreamSynchronize",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE}},
      {"cuStreamQuery",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_NOT_READY}},
      {"cuStreamWaitEvent",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE}},
      {"cuLaunchHostFunc",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuEventCreate",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_OUT_OF_MEMORY}},
      {"cuEventRecord",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_INVALID_VALUE}},
      {"cuEventQuery",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_NOT_READY}},
      {"cuEventSynchronize",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE}},
      {"cuEventDestroy_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE}},
      {"cuMemGetAllocationGranularity",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemCreate",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemRelease",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemAddressReserve",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_DEINITIALIZED,
        CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemAddressFree",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemMap",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE,
        CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_ILLEGAL_STATE}},
      {"cuMemUnmap",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemSetAccess",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemExportToShareableHandle",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemImportFromShareableHandle",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemGetAllocationPropertiesFromHandle",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemRetainAllocationHandle",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_PERMITTED,
        CUDA_ERROR_NOT_SUPPORTED}},
      {"cuIpcGetMemHandle",
       {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_CONTEXT,
        CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_MAP_FAILED,
        CUDA_ERROR_INVALID_VALUE}},
      {"cuIpcOpenMemHandle_v2",
       {CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_MAP_FAILED,
        CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_TOO_MANY_PEERS,
        CUDA_ERROR_INVALID_VALUE}},
      {"cuIpcCloseMemHandle",
       {CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_MAP_FAILED,
        CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE}},
      {"cuIpcGetEventHandle",
       {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_MAP_FAILED, CUDA_ERROR_INVALID_VALUE}},
      {"cuIpcOpenEventHandle",
       {CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_MAP_FAILED,
        CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_INVALID_VALUE}},
      {"cuStreamWriteValue32_v2",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED}},
      {"cuStreamWaitValue32_v2",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemHostRegister_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED}},
      {"cuMemHostUnregister",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED}},
      {"cuMemHostGetDevicePointer_v2",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE}},
      {"cuModuleLoadData",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
        CUDA_ERROR_SHARED_OBJECT_INIT_FAILED,
        CUDA_ERROR_JIT_COMPILER_NOT_FOUND}},
      {"cuModuleUnload",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_NOT_PERMITTED}},
      {"cuModuleGetFunction",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_NOT_FOUND}},
      {"cuLaunchKernel",
       {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING,
        CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, CUDA_ERROR_NOT_FOUND}},
  };
  return *errors;
}

}  // namespace

CUresult CountCall(Entry entry) {
  const auto index = static_cast<size_t>(entry);
  calls[index].fetch_add(1, std::memory_order_relaxed);
  if (!has_fault[index].load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  const std::lock_guard lock(mutex);
  Fault& fault = faults[index];
  if (fault.nth == 0) return fault.error;
  if (--fault.nth > 0) return CUDA_SUCCESS;
  has_fault[index] = false;
  return fault.error;
}

uint64_t CallsOf(const std::string& name) {
  if (!name.empty()) return calls[IndexOf(name)];
  uint64_t sum = 0;
  for (const auto& count : calls) sum += count;
  return sum;
}

void SetFault(const std::string& name, uint64_t nth, int error) {
  const size_t index = IndexOf(name);
  const std::lock_guard lock(mutex);
  faults[index] = {.nth = nth, .error = static_cast<CUresult>(error)};
  has_fault[index] = error != CUDA_SUCCESS;
}

void ResetFaults() {
  for (size_t i = 0; i < kEntries; ++i) {
    calls[i] = 0;
    has_fault[i] = false;
  }
  for (const FaultSettings& fault : CurrentSettings().faults) {
    SetFault(fault.entry, fault.nth, fault.error);
  }
}

std::vector<int> DocumentedErrors(const std::string& name) {
  IndexOf(name);
  const auto found = AllDocumentedErrors().find(name);
  return found == AllDocumentedErrors().end() ? std::vector<int>()
                                              : found->second;
}

}  // namespace tenon::cuda_ipc::fake
