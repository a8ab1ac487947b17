// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DeviceAllocation: memory of a device that processes share by a descriptor.
//
//   TENON_ASSIGN_OR_RETURN(DeviceAllocation made,
//                          DeviceAllocation::Create(*gpu, bytes));
//   // Send made.fd() and made.size() to another process; there:
//   TENON_ASSIGN_OR_RETURN(DeviceAllocation same,
//                          DeviceAllocation::Import(*gpu, std::move(fd), bytes,
//                                                   DeviceAccess::kReadOnly));
//
// The memory is freed when no process maps it or has a descriptor of it, in any
// order and also by SIGKILL: a creator that exits takes nothing away.

#ifndef TENON_CUDA_IPC_DEVICE_ALLOCATION_H_
#define TENON_CUDA_IPC_DEVICE_ALLOCATION_H_

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::cuda_ipc {

// How this process's device may access memory.
enum class DeviceAccess { kReadOnly, kReadWrite };

// `bytes`, rounded up to what the device can allocate: 2 MiB on most. 0 if
// `bytes` is 0, or too large to be rounded up. Errors: those of CudaError;
// CheckFeature()'s for DriverFeature::kVirtualMemory.
absl::StatusOr<size_t> RoundUpToDevice(const DeviceContext& device,
                                       size_t bytes);

// Ownership: owns the mapping and a descriptor; move-only. Keeps no memory
//   handle of the driver: the mapping keeps the memory, the descriptor names it.
// Threads: thread-compatible.
// Processes: in a forked child its destructor closes the descriptor, and makes
//   no driver call.
// Trust: Import() checks that the descriptor is memory of that device and size.
// Failure: a failed Create() or Import() leaves nothing behind.
class DeviceAllocation {
 public:
  // Memory that is readable and writable by `device` and the peers that it has
  // (DeviceContext::AllowPeer()). Its contents are undefined. `bytes` is a
  // multiple of RoundUpToDevice(). Blocks for as long as the driver does.
  // Errors: those of CudaError, kResourceExhausted if the device is full;
  // CheckFeature()'s.
  static absl::StatusOr<DeviceAllocation> Create(const DeviceContext& device,
                                                 size_t bytes);

  // Maps the memory of a descriptor that another process sent; `bytes` is its
  // size. Takes over the descriptor unless it fails. A driver that refuses
  // read-only access gives kReadWrite: see access(). Errors: kInvalidArgument
  // if the descriptor is not device memory, or of another size or device; those
  // of CudaError; CheckFeature()'s.
  static absl::StatusOr<DeviceAllocation> Import(const DeviceContext& device,
                                                 UniqueFd&& fd, size_t bytes,
                                                 DeviceAccess access);

  DeviceAllocation(DeviceAllocation&& other) noexcept;
  DeviceAllocation& operator=(DeviceAllocation&& other) noexcept;
  // Release(), twice if the first fails.
  ~DeviceAllocation();

  // Valid on the device only: the CPU cannot read it.
  CUdeviceptr address() const { return address_; }
  size_t size() const { return bytes_; }
  DeviceAccess access() const { return access_; }
  const DeviceContext& device() const { return *device_; }

  // To send; still owned here. Each has the same memory.
  int fd() const { return fd_.get(); }

  // Unmaps the memory and closes the descriptor. Waits for nothing: work of the
  // device that uses it must have ended, else that work faults. No effect if it
  // was called before. Errors: those of CudaError; what is left is released by
  // another call, or by the destructor.
  absl::Status Release();

 private:
  DeviceAllocation(const DeviceContext& device, size_t bytes)
      : device_(&device), bytes_(bytes) {}

  // The steps, each with the context current.
  absl::Status Allocate();
  absl::Status Open(int fd);
  absl::Status Map(DeviceAccess access);
  absl::Status SetAccess(DeviceAccess access);
  absl::Status Export();
  absl::Status DropHandle();

  const DeviceContext* device_;
  size_t bytes_;
  std::optional<CUmemGenericAllocationHandle> handle_;
  CUdeviceptr address_ = 0;  // 0 if none is reserved.
  bool is_mapped_ = false;
  DeviceAccess access_ = DeviceAccess::kReadWrite;
  UniqueFd fd_;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_ALLOCATION_H_
