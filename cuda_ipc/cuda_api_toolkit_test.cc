// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Compares cuda_api.h with the toolkit's cuda.h, while compiling.

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "cuda.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"

namespace tenon::cuda_ipc {
namespace {

// Whether values of both types are passed alike: the same type, or two of the
// structures and enumerations that this file compares, or pointers to those.
template <typename Ours, typename Theirs>
constexpr bool SameAbi() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using OursPointee = std::remove_pointer_t<Ours>;
    using TheirsPointee = std::remove_pointer_t<Theirs>;
    return std::is_const_v<OursPointee> == std::is_const_v<TheirsPointee> &&
           SameAbi<std::remove_cv_t<OursPointee>,
                   std::remove_cv_t<TheirsPointee>>();
  } else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_class_v<Ours> && std::is_class_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
  } else {
    return false;
  }
}

template <typename Ours, typename Theirs>
struct SameFunction : std::false_type {};
template <typename... Ours, typename... Theirs>
struct SameFunction<CUresult(Ours...), ::CUresult(Theirs...)> {
  static constexpr bool Compare() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return (SameAbi<Ours, Theirs>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = Compare();
};

static_assert(!SameFunction<CUresult(int), ::CUresult(unsigned)>::value);
static_assert(!SameFunction<CUresult(int), ::CUresult(int, int)>::value);
static_assert(!SameFunction<CUresult(char*), ::CUresult(const char*)>::value);

// #symbol is not expanded, TENON_EXPANDED is: they differ if cuda.h means
// another symbol by this name.
#define TENON_EXPANDED_(symbol) #symbol
#define TENON_EXPANDED(symbol) TENON_EXPANDED_(symbol)
#define TENON_COMPARE(symbol, parameters)                                     \
  static_assert(std::string_view(#symbol) == TENON_EXPANDED(symbol));         \
  static_assert(SameFunction<CUresult parameters, decltype(::symbol)>::value, \
                #symbol);
#define TENON_COMPARE_OPTIONAL(feature, symbol, parameters) \
  TENON_COMPARE(symbol, parameters)
TENON_CUDA_REQUIRED_FUNCTIONS(TENON_COMPARE)
TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_COMPARE_OPTIONAL)

static_assert(std::is_same_v<CUcontext, ::CUcontext>);
static_assert(std::is_same_v<CUevent, ::CUevent>);
static_assert(std::is_same_v<CUfunction, ::CUfunction>);
static_assert(std::is_same_v<CUgraph, ::CUgraph>);
static_assert(std::is_same_v<CUmodule, ::CUmodule>);
static_assert(std::is_same_v<CUstream, ::CUstream>);
static_assert(std::is_same_v<CUdevice, ::CUdevice>);
static_assert(std::is_same_v<CUdeviceptr, ::CUdeviceptr>);
static_assert(std::is_same_v<CUhostFn, ::CUhostFn>);

#define TENON_SIZE(type)                         \
  static_assert(sizeof(type) == sizeof(::type)); \
  static_assert(alignof(type) == alignof(::type))
TENON_SIZE(CUuuid);
TENON_SIZE(CUipcMemHandle);
TENON_SIZE(CUipcEventHandle);
TENON_SIZE(CUmemLocation);
TENON_SIZE(CUmemAllocationProp);
TENON_SIZE(CUmemAccessDesc);

#define TENON_FIELD(type, field)                                   \
  static_assert(offsetof(type, field) == offsetof(::type, field)); \
  static_assert(sizeof(type::field) == sizeof(::type::field))
TENON_FIELD(CUuuid, bytes);
TENON_FIELD(CUipcMemHandle, reserved);
TENON_FIELD(CUipcEventHandle, reserved);
TENON_FIELD(CUmemLocation, type);
TENON_FIELD(CUmemLocation, id);
TENON_FIELD(CUmemAllocationProp, type);
TENON_FIELD(CUmemAllocationProp, requestedHandleTypes);
TENON_FIELD(CUmemAllocationProp, location);
TENON_FIELD(CUmemAllocationProp, win32HandleMetaData);
TENON_FIELD(CUmemAllocationProp, allocFlags);
TENON_FIELD(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
TENON_FIELD(CUmemAllocationProp, allocFlags.usage);
TENON_FIELD(CUmemAccessDesc, location);
TENON_FIELD(CUmemAccessDesc, flags);

#define TENON_VALUE(name) \
  static_assert(static_cast<int>(name) == static_cast<int>(::name))
TENON_VALUE(CUDA_SUCCESS);
TENON_VALUE(CUDA_ERROR_INVALID_VALUE);
TENON_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
TENON_VALUE(CUDA_ERROR_NOT_INITIALIZED);
TENON_VALUE(CUDA_ERROR_DEINITIALIZED);
TENON_VALUE(CUDA_ERROR_STUB_LIBRARY);
TENON_VALUE(CUDA_ERROR_DEVICE_UNAVAILABLE);
TENON_VALUE(CUDA_ERROR_NO_DEVICE);
TENON_VALUE(CUDA_ERROR_INVALID_DEVICE);
TENON_VALUE(CUDA_ERROR_INVALID_IMAGE);
TENON_VALUE(CUDA_ERROR_INVALID_CONTEXT);
TENON_VALUE(CUDA_ERROR_MAP_FAILED);
TENON_VALUE(CUDA_ERROR_NO_BINARY_FOR_GPU);
TENON_VALUE(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
TENON_VALUE(CUDA_ERROR_INVALID_PTX);
TENON_VALUE(CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
TENON_VALUE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
TENON_VALUE(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
TENON_VALUE(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
TENON_VALUE(CUDA_ERROR_INVALID_HANDLE);
TENON_VALUE(CUDA_ERROR_ILLEGAL_STATE);
TENON_VALUE(CUDA_ERROR_NOT_FOUND);
TENON_VALUE(CUDA_ERROR_NOT_READY);
TENON_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
TENON_VALUE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
TENON_VALUE(CUDA_ERROR_LAUNCH_TIMEOUT);
TENON_VALUE(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING);
TENON_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
TENON_VALUE(CUDA_ERROR_TOO_MANY_PEERS);
TENON_VALUE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
TENON_VALUE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
TENON_VALUE(CUDA_ERROR_LAUNCH_FAILED);
TENON_VALUE(CUDA_ERROR_NOT_PERMITTED);
TENON_VALUE(CUDA_ERROR_NOT_SUPPORTED);
TENON_VALUE(CUDA_ERROR_SYSTEM_NOT_READY);
TENON_VALUE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
TENON_VALUE(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
TENON_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
TENON_VALUE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
TENON_VALUE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
TENON_VALUE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
TENON_VALUE(CUDA_ERROR_UNKNOWN);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
TENON_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
TENON_VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
TENON_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
TENON_VALUE(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
TENON_VALUE(CU_POINTER_ATTRIBUTE_MAPPED);
TENON_VALUE(CU_MEMORYTYPE_HOST);
TENON_VALUE(CU_MEMORYTYPE_DEVICE);
TENON_VALUE(CU_MEM_ALLOCATION_TYPE_PINNED);
TENON_VALUE(CU_MEM_HANDLE_TYPE_NONE);
TENON_VALUE(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
TENON_VALUE(CU_MEM_LOCATION_TYPE_DEVICE);
TENON_VALUE(CU_MEM_ACCESS_FLAGS_PROT_NONE);
TENON_VALUE(CU_MEM_ACCESS_FLAGS_PROT_READ);
TENON_VALUE(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
TENON_VALUE(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
TENON_VALUE(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
TENON_VALUE(CU_STREAM_CAPTURE_STATUS_NONE);
TENON_VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE);
TENON_VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
TENON_VALUE(CU_STREAM_CAPTURE_MODE_GLOBAL);
TENON_VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
TENON_VALUE(CU_STREAM_CAPTURE_MODE_RELAXED);

#define TENON_FLAG(ours, theirs) static_assert((ours) == unsigned{theirs})
TENON_FLAG(kCuIpcMemLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
TENON_FLAG(kCuEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
TENON_FLAG(kCuEventDisableTiming, CU_EVENT_DISABLE_TIMING);
TENON_FLAG(kCuEventInterprocess, CU_EVENT_INTERPROCESS);
TENON_FLAG(kCuStreamDefault, CU_STREAM_DEFAULT);
TENON_FLAG(kCuStreamNonBlocking, CU_STREAM_NON_BLOCKING);
TENON_FLAG(kCuStreamWaitValueGeq, CU_STREAM_WAIT_VALUE_GEQ);
TENON_FLAG(kCuStreamWaitValueEq, CU_STREAM_WAIT_VALUE_EQ);
TENON_FLAG(kCuStreamWaitValueAnd, CU_STREAM_WAIT_VALUE_AND);
TENON_FLAG(kCuStreamWriteValueDefault, CU_STREAM_WRITE_VALUE_DEFAULT);
TENON_FLAG(kCuMemHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
TENON_FLAG(kCuMemHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP);
TENON_FLAG(kCuMemHostRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY);

TEST(CudaApiToolkitTest, TypesConstantsAndFunctionsAreThoseOfCudaH) {
  // All is compared while compiling; this is the toolkit it was compared with.
  RecordProperty("cuda_version", CUDA_VERSION);
  EXPECT_GE(CUDA_VERSION, 11040);
  // Casts, which a constant expression has not.
  EXPECT_EQ(reinterpret_cast<CUstream>(kCuStreamLegacy), CU_STREAM_LEGACY);
  EXPECT_EQ(reinterpret_cast<CUstream>(kCuStreamPerThread),
            CU_STREAM_PER_THREAD);
}

}  // namespace
}  // namespace tenon::cuda_ipc
