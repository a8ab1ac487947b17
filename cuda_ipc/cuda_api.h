// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The part of the CUDA driver API that Tenon calls: types, constants and the
// list of functions, as CUDA's ABI has them. No CUDA header is needed to build.
// Where a toolkit is installed, cuda_api_toolkit_test compares each of them
// with its cuda.h.
//
// Types and constants have CUDA's names, inside tenon::cuda_ipc. Handles
// (CUstream, CUcontext) and CUdeviceptr are the same types as cuda.h's, so a
// program that includes both passes them without casts; enumerations and
// structures are distinct types of the same layout. A program that includes
// cuda.h should not have `using namespace tenon::cuda_ipc`.

#ifndef TENON_CUDA_IPC_CUDA_API_H_
#define TENON_CUDA_IPC_CUDA_API_H_

#include <cstddef>
#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

// NOLINTBEGIN(readability-identifier-naming): CUDA's names.

// Declared where cuda.h declares them, never defined.
struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUmod_st;
struct CUstream_st;

namespace tenon::cuda_ipc {

using CUcontext = ::CUctx_st*;
using CUevent = ::CUevent_st*;
using CUfunction = ::CUfunc_st*;
using CUgraph = ::CUgraph_st*;
using CUmodule = ::CUmod_st*;
using CUstream = ::CUstream_st*;

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUhostFn = void (*)(void* data);

// Of CUDA's enumerations, the values that Tenon uses. The underlying type is
// fixed, so that a value of a newer driver is valid here.
enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
  CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_TOO_MANY_PEERS = 711,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
  CUDA_ERROR_UNKNOWN = 999,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
  CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
  CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
  CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
  CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED = 125,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
};

enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
  CU_POINTER_ATTRIBUTE_MAPPED = 13,
};

enum CUmemorytype : int {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
};

enum CUmemAllocationType : int { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };

enum CUmemAllocationHandleType : int {
  CU_MEM_HANDLE_TYPE_NONE = 0,
  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
};

enum CUmemLocationType : int { CU_MEM_LOCATION_TYPE_DEVICE = 1 };

enum CUmemAccess_flags : int {
  CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
  CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
};

enum CUmemAllocationGranularity_flags : int {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
};

enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};

enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

// Handles of streams that every context has.
inline constexpr uintptr_t kCuStreamLegacy = 1;
inline constexpr uintptr_t kCuStreamPerThread = 2;

// Parameters of type unsigned int.
inline constexpr unsigned int kCuIpcMemLazyEnablePeerAccess = 1;
inline constexpr unsigned int kCuEventBlockingSync = 1;
inline constexpr unsigned int kCuEventDisableTiming = 2;
inline constexpr unsigned int kCuEventInterprocess = 4;
inline constexpr unsigned int kCuStreamDefault = 0;
inline constexpr unsigned int kCuStreamNonBlocking = 1;
inline constexpr unsigned int kCuStreamWaitValueGeq = 0;
inline constexpr unsigned int kCuStreamWaitValueEq = 1;
inline constexpr unsigned int kCuStreamWaitValueAnd = 2;
inline constexpr unsigned int kCuStreamWriteValueDefault = 0;
inline constexpr unsigned int kCuMemHostRegisterPortable = 1;
inline constexpr unsigned int kCuMemHostRegisterDeviceMap = 2;
inline constexpr unsigned int kCuMemHostRegisterReadOnly = 8;

struct CUuuid {
  char bytes[16];
};

struct CUipcMemHandle {
  char reserved[64];
};

struct CUipcEventHandle {
  char reserved[64];
};

struct CUmemLocation {
  CUmemLocationType type;
  int id;
};

struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

}  // namespace tenon::cuda_ipc
// NOLINTEND(readability-identifier-naming)

// The functions, by the name of their symbol. cuda.h maps most names to a
// versioned one (cuMemAlloc to cuMemAlloc_v2), while libcuda also exports the
// plain name, with another signature; so the version is part of the name here.
//
// F(symbol, parameters).
#define TENON_CUDA_REQUIRED_FUNCTIONS(F)                                     \
  F(cuInit, (unsigned int flags))                                            \
  F(cuDriverGetVersion, (int* version))                                      \
  F(cuGetErrorName, (CUresult error, const char** text))                     \
  F(cuGetErrorString, (CUresult error, const char** text))                   \
  F(cuDeviceGetCount, (int* count))                                          \
  F(cuDeviceGet, (CUdevice * device, int ordinal))                           \
  F(cuDeviceGetName, (char* name, int length, CUdevice device))              \
  F(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                    \
  F(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                  \
  F(cuDeviceGetAttribute,                                                    \
    (int* value, CUdevice_attribute attribute, CUdevice device))             \
  F(cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer))       \
  F(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))        \
  F(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                         \
  F(cuCtxGetCurrent, (CUcontext * context))                                  \
  F(cuCtxSetCurrent, (CUcontext context))                                    \
  F(cuCtxPushCurrent_v2, (CUcontext context))                                \
  F(cuCtxPopCurrent_v2, (CUcontext * context))                               \
  F(cuCtxGetDevice, (CUdevice * device))                                     \
  F(cuCtxSynchronize, ())                                                    \
  F(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                    \
  F(cuMemFree_v2, (CUdeviceptr address))                                     \
  F(cuMemGetAddressRange_v2,                                                 \
    (CUdeviceptr * base, size_t * bytes, CUdeviceptr address))               \
  F(cuMemGetInfo_v2, (size_t * free, size_t * total))                        \
  F(cuPointerGetAttribute,                                                   \
    (void* value, CUpointer_attribute attribute, CUdeviceptr address))       \
  F(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, size_t bytes))       \
  F(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, size_t bytes))             \
  F(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))       \
  F(cuMemcpyHtoDAsync_v2,                                                    \
    (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))       \
  F(cuMemcpyDtoHAsync_v2,                                                    \
    (void* to, CUdeviceptr from, size_t bytes, CUstream stream))             \
  F(cuMemcpyDtoDAsync_v2,                                                    \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))       \
  F(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,   \
                   CUcontext from_context, size_t bytes))                    \
  F(cuMemcpyPeerAsync,                                                       \
    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,                 \
     CUcontext from_context, size_t bytes, CUstream stream))                 \
  F(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t bytes))      \
  F(cuMemsetD8Async,                                                         \
    (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))    \
  F(cuStreamCreate, (CUstream * stream, unsigned int flags))                 \
  F(cuStreamDestroy_v2, (CUstream stream))                                   \
  F(cuStreamSynchronize, (CUstream stream))                                  \
  F(cuStreamQuery, (CUstream stream))                                        \
  F(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))  \
  F(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags)) \
  F(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void* data))      \
  F(cuEventCreate, (CUevent * event, unsigned int flags))                    \
  F(cuEventRecord, (CUevent event, CUstream stream))                         \
  F(cuEventQuery, (CUevent event))                                           \
  F(cuEventSynchronize, (CUevent event))                                     \
  F(cuEventDestroy_v2, (CUevent event))

// F(feature, symbol, parameters). The features are those of DriverFeature.
#define TENON_CUDA_OPTIONAL_FUNCTIONS(F)                                      \
  F(kVirtualMemory, cuMemGetAllocationGranularity,                            \
    (size_t * granularity, const CUmemAllocationProp* properties,             \
     CUmemAllocationGranularity_flags option))                                \
  F(kVirtualMemory, cuMemCreate,                                              \
    (CUmemGenericAllocationHandle * handle, size_t bytes,                     \
     const CUmemAllocationProp* properties, unsigned long long flags))        \
  F(kVirtualMemory, cuMemRelease, (CUmemGenericAllocationHandle handle))      \
  F(kVirtualMemory, cuMemAddressReserve,                                      \
    (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr hint, \
     unsigned long long flags))                                               \
  F(kVirtualMemory, cuMemAddressFree, (CUdeviceptr address, size_t bytes))    \
  F(kVirtualMemory, cuMemMap,                                                 \
    (CUdeviceptr address, size_t bytes, size_t offset,                        \
     CUmemGenericAllocationHandle handle, unsigned long long flags))          \
  F(kVirtualMemory, cuMemUnmap, (CUdeviceptr address, size_t bytes))          \
  F(kVirtualMemory, cuMemSetAccess,                                           \
    (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,        \
     size_t count))                                                           \
  F(kVirtualMemory, cuMemExportToShareableHandle,                             \
    (void* shareable, CUmemGenericAllocationHandle handle,                    \
     CUmemAllocationHandleType type, unsigned long long flags))               \
  F(kVirtualMemory, cuMemImportFromShareableHandle,                           \
    (CUmemGenericAllocationHandle * handle, void* shareable,                  \
     CUmemAllocationHandleType type))                                         \
  F(kVirtualMemory, cuMemGetAllocationPropertiesFromHandle,                   \
    (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle))  \
  F(kVirtualMemory, cuMemRetainAllocationHandle,                              \
    (CUmemGenericAllocationHandle * handle, void* address))                   \
  F(kLegacyIpc, cuIpcGetMemHandle,                                            \
    (CUipcMemHandle * handle, CUdeviceptr address))                           \
  F(kLegacyIpc, cuIpcOpenMemHandle_v2,                                        \
    (CUdeviceptr * address, CUipcMemHandle handle, unsigned int flags))       \
  F(kLegacyIpc, cuIpcCloseMemHandle, (CUdeviceptr address))                   \
  F(kIpcEvents, cuIpcGetEventHandle,                                          \
    (CUipcEventHandle * handle, CUevent event))                               \
  F(kIpcEvents, cuIpcOpenEventHandle,                                         \
    (CUevent * event, CUipcEventHandle handle))                               \
  F(kStreamMemoryOps, cuStreamWriteValue32_v2,                                \
    (CUstream stream, CUdeviceptr address, uint32_t value,                    \
     unsigned int flags))                                                     \
  F(kStreamMemoryOps, cuStreamWaitValue32_v2,                                 \
    (CUstream stream, CUdeviceptr address, uint32_t value,                    \
     unsigned int flags))                                                     \
  F(kHostRegister, cuMemHostRegister_v2,                                      \
    (void* memory, size_t bytes, unsigned int flags))                         \
  F(kHostRegister, cuMemHostUnregister, (void* memory))                       \
  F(kHostRegister, cuMemHostGetDevicePointer_v2,                              \
    (CUdeviceptr * address, void* memory, unsigned int flags))                \
  F(kGraphs, cuStreamBeginCapture_v2,                                         \
    (CUstream stream, CUstreamCaptureMode mode))                              \
  F(kGraphs, cuStreamEndCapture, (CUstream stream, CUgraph * graph))          \
  F(kGraphs, cuGraphDestroy, (CUgraph graph))                                 \
  F(kKernels, cuModuleLoadData, (CUmodule * module, const void* image))       \
  F(kKernels, cuModuleUnload, (CUmodule module))                              \
  F(kKernels, cuModuleGetFunction,                                            \
    (CUfunction * function, CUmodule module, const char* name))               \
  F(kKernels, cuLaunchKernel,                                                 \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y,           \
     unsigned int grid_z, unsigned int block_x, unsigned int block_y,         \
     unsigned int block_z, unsigned int shared_bytes, CUstream stream,        \
     void** parameters, void** extra))

#endif  // TENON_CUDA_IPC_CUDA_API_H_
