// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DeviceMemory: what tensors need of a type of device, so that they depend on
// no driver. The target that has the driver registers one per type; a program
// without that target has tensors of the device (it may receive, forward and
// drop them), but can neither copy nor import them.
//
// For drivers; users of tensors call Tensor::To().

#ifndef TENON_SHM_TENSOR_DEVICE_MEMORY_H_
#define TENON_SHM_TENSOR_DEVICE_MEMORY_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {

// Of all devices of one type.
// Threads: calls run concurrently, in threads that may have called the driver
//   never before; they leave the thread's state of it (a current context) as it
//   was.
// Processes: not called in a forked child for memory of its parent.
// Order: by the host. What was enqueued on a stream before is not waited for;
//   the caller has waited.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Copies bytes that do not overlap; they have arrived when it returns. One of
  // the two is of this type, the other of this type or on the CPU (IsOnCpu()).
  // Both have the same size. Addresses are the device's.
  // Errors: kInvalidArgument if the sizes differ; the driver's.
  struct To {
    DLDevice device;
    std::span<std::byte> bytes;
  };
  struct From {
    DLDevice device;
    std::span<const std::byte> bytes;
  };
  virtual absl::Status Copy(const To& to, const From& from) const = 0;

  // New writable memory of a device, at least one byte, aligned as its kernels
  // need it. Its contents are undefined. In a forked child it is destroyed
  // without a call of the driver.
  // Errors: kNotFound if there is no such device; kResourceExhausted; the
  // driver's.
  virtual absl::StatusOr<std::shared_ptr<Storage>> Allocate(
      const DLDevice& device, size_t bytes) const = 0;

  // OK if another library may lend these bytes, at least one, as far as the
  // driver can tell: the device exists, and the addresses are its own.
  // Errors: kInvalidArgument; kNotFound if there is no such device; the
  // driver's.
  virtual absl::Status CheckLent(const DLDevice& device,
                                 std::span<const std::byte> bytes) const = 0;

  // The loan of memory that is in no pool (tensor_loan.h): bytes in a block of
  // an arena, by which another process finds the memory. While a process holds
  // the block, this one keeps `memory`. The loan of borrowed memory is the one
  // by which it was borrowed.
  // Errors: kUnimplemented if devices of this type have none, which is the
  // default; kInvalidArgument if this memory has none; the driver's.
  virtual absl::StatusOr<std::shared_ptr<Storage>> Lend(
      const std::shared_ptr<Storage>& memory) const;
  // The memory of a loan, which it holds as long as the memory is used here.
  // Trust: the loan may be anything.
  // Errors: kUnimplemented by default; kInvalidArgument if it is malformed, or
  // its lender has freed the memory or ended; kNotFound if this process does
  // not have the device; the driver's.
  virtual absl::StatusOr<std::shared_ptr<Storage>> Borrow(
      std::shared_ptr<Storage> loan) const;
};

// For the rest of the process. Thread-safe.
// Errors: kAlreadyExists if the type has one; kInvalidArgument for kDLCPU.
absl::Status RegisterDeviceMemory(DLDeviceType type,
                                  std::unique_ptr<DeviceMemory> memory);

// That of the device's type, valid until the process ends. Thread-safe, does
// not block.
// Errors: kFailedPrecondition naming the target to link; kInvalidArgument if
// there is none for such devices, or the device's number is negative.
absl::StatusOr<const DeviceMemory*> DeviceMemoryOf(const DLDevice& device);

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_DEVICE_MEMORY_H_
