// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Memory for checks, made by the bare calls of the driver.

#ifndef TENON_TOOLS_GPU_CHECK_MEMORY_H_
#define TENON_TOOLS_GPU_CHECK_MEMORY_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/tools/gpu_check/check.h"

namespace tenon::gpu_check {

// Of memory of the device that is shared by descriptors.
inline cuda_ipc::CUmemAllocationProp Properties(const Gpu& gpu) {
  return {.type = cuda_ipc::CU_MEM_ALLOCATION_TYPE_PINNED,
          .requestedHandleTypes =
              cuda_ipc::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
          .location = {cuda_ipc::CU_MEM_LOCATION_TYPE_DEVICE,
                       gpu.device.device().ordinal},
          .win32HandleMetaData = nullptr,
          .allocFlags = {}};
}

inline cuda_ipc::CUmemAccessDesc Access(
    const Gpu& gpu, cuda_ipc::CUmemAccess_flags flags =
                        cuda_ipc::CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  return {.location = {cuda_ipc::CU_MEM_LOCATION_TYPE_DEVICE,
                       gpu.device.device().ordinal},
          .flags = flags};
}

inline size_t Granularity(const Gpu& gpu) {
  const cuda_ipc::CUmemAllocationProp wanted = Properties(gpu);
  size_t unit = 0;
  Need(gpu.d.cuMemGetAllocationGranularity(
           &unit, &wanted, cuda_ipc::CU_MEM_ALLOC_GRANULARITY_MINIMUM),
       "cuMemGetAllocationGranularity");
  return unit;
}

inline cuda_ipc::CUresult Import(
    const Gpu& gpu, int fd, cuda_ipc::CUmemGenericAllocationHandle* handle) {
  return gpu.d.cuMemImportFromShareableHandle(
      handle, reinterpret_cast<void*>(static_cast<uintptr_t>(fd)),
      cuda_ipc::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

// Memory of the device, mapped for reading and writing, and its handle.
class VirtualMemory {
 public:
  VirtualMemory(const Gpu& gpu, size_t bytes) : gpu_(gpu), bytes_(bytes) {
    const cuda_ipc::CUmemAllocationProp wanted = Properties(gpu);
    Need(gpu.d.cuMemCreate(&handle_, bytes, &wanted, 0), "cuMemCreate");
    Map();
  }
  // Takes over an imported handle.
  VirtualMemory(const Gpu& gpu, size_t bytes,
                cuda_ipc::CUmemGenericAllocationHandle handle)
      : gpu_(gpu), bytes_(bytes), handle_(handle) {
    Map();
  }
  ~VirtualMemory() {
    gpu_.d.cuMemUnmap(address_, bytes_);
    gpu_.d.cuMemAddressFree(address_, bytes_);
    gpu_.d.cuMemRelease(handle_);
  }
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  cuda_ipc::CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }
  cuda_ipc::CUmemGenericAllocationHandle handle() const { return handle_; }

  UniqueFd Export() const {
    int fd = -1;
    Need(gpu_.d.cuMemExportToShareableHandle(
             &fd, handle_, cuda_ipc::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
             0),
         "cuMemExportToShareableHandle");
    return UniqueFd(fd);
  }

 private:
  void Map() {
    const cuda_ipc::CUmemAccessDesc access = Access(gpu_);
    Need(gpu_.d.cuMemAddressReserve(&address_, bytes_, 0, 0, 0),
         "cuMemAddressReserve");
    Need(gpu_.d.cuMemMap(address_, bytes_, 0, handle_, 0), "cuMemMap");
    Need(gpu_.d.cuMemSetAccess(address_, bytes_, &access, 1), "cuMemSetAccess");
  }

  const Gpu& gpu_;
  const size_t bytes_;
  cuda_ipc::CUmemGenericAllocationHandle handle_ = 0;
  cuda_ipc::CUdeviceptr address_ = 0;
};

// Pages of the CPU, not registered. The process that runs a check ends soon:
// they are not unmapped.
class HostPages {
 public:
  explicit HostPages(size_t bytes)
      : data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw Broken("mmap() failed");
  }
  void* data() const { return data_; }

 private:
  void* const data_;
};

}  // namespace tenon::gpu_check

#endif  // TENON_TOOLS_GPU_CHECK_MEMORY_H_
