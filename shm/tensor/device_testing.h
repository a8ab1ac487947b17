// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests: devices without hardware. As with a GPU, the CPU cannot access
// their memory at its addresses: a test that tries dies of SIGSEGV.

#ifndef TENON_SHM_TENSOR_DEVICE_TESTING_H_
#define TENON_SHM_TENSOR_DEVICE_TESTING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {

// Two devices of a type. Stricter than a driver: each address of a call has to
// be inside one allocation of the device that the call names, and no bytes may
// overlap.
// Threads: thread-safe.
class TestDevices final : public DeviceMemory {
 public:
  // Those of a type; registers them in the first call.
  static TestDevices& Get(DLDeviceType type = kDLExtDev);

  absl::Status Copy(const To& to, const From& from) const override;
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(
      const DLDevice& device, size_t bytes) const override;
  absl::Status CheckLent(const DLDevice& device,
                         std::span<const std::byte> bytes) const override;

  DLDevice device(int number) const { return {type_, number}; }
  // New memory, destroyed with the last reference.
  std::shared_ptr<std::byte> NewMemory(int number, size_t bytes) const;
  // Memory of a device that is the file's, so that processes can share it.
  std::shared_ptr<std::byte> MapMemory(int number, int fd, size_t bytes) const;
  // The same bytes for the CPU.
  std::byte* Alias(const std::byte* address) const;

  int allocations() const { return allocations_.load(); }
  int copies() const { return copies_.load(); }
  // The `nth` copy from now fails, from 1; 0 for none.
  void FailCopy(int nth) { fails_at_.store(nth == 0 ? 0 : copies() + nth); }

 private:
  struct Memory {
    int device;
    size_t size;
    std::byte* alias;
  };

  explicit TestDevices(DLDeviceType type) : type_(type) {}
  // Null unless all of the bytes are in one allocation of the device.
  std::byte* Find(const DLDevice& device, const std::byte* address,
                  size_t bytes) const;
  void Free(const std::byte* address) const;

  const DLDeviceType type_;
  mutable ThreadMutex mutex_;
  mutable std::map<uintptr_t, Memory> memory_ ABSL_GUARDED_BY(mutex_);
  mutable std::atomic<int> allocations_ = 0;
  mutable std::atomic<int> copies_ = 0;
  std::atomic<int> fails_at_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_DEVICE_TESTING_H_
