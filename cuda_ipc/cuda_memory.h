// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CudaMemory: how tensors copy, make and borrow memory of CUDA devices.
// Internal to //cuda_ipc:device_tensor, which registers it.

#ifndef TENON_CUDA_IPC_CUDA_MEMORY_H_
#define TENON_CUDA_IPC_CUDA_MEMORY_H_

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
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/internal/legacy_loans.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon::cuda_ipc {

// A device's number is this process's ordinal.
// Ownership, threads, processes, order: as DeviceMemory.
// Errors: also those of DeviceContexts, such as kNotFound if there is no driver
//   or no such device, kFailedPrecondition in a forked child; of CudaError.
class CudaMemory final : public DeviceMemory {
 public:
  // Those of DeviceContexts::OfProcess(), which the first call loads.
  CudaMemory() = default;
  // For tests. Not owned.
  explicit CudaMemory(DeviceContexts* devices) : devices_(devices) {}

  absl::Status Copy(const To& to, const From& from) const override;
  // In an arena of this process, one for each device, so that the memory can be
  // sent, and its release makes no driver call.
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(
      const DLDevice& device, size_t bytes) const override;
  // Whether the first and the last byte are on the device. What is between them
  // may be of several mappings, as PyTorch's expandable segments are.
  absl::Status CheckLent(const DLDevice& device,
                         std::span<const std::byte> bytes) const override;

  // Memory of cuMemAlloc, by a legacy handle (internal/legacy_loans.h).
  absl::StatusOr<std::shared_ptr<Storage>> Lend(
      const std::shared_ptr<Storage>& memory) const override;
  absl::StatusOr<std::shared_ptr<Storage>> Borrow(
      std::shared_ptr<Storage> loan) const override;

  // Ends loans that are not in use any more. Returns memory of Allocate() that
  // is not in use to the devices; the bytes. Waits for the driver. Errors:
  // kFailedPrecondition in a forked child.
  absl::StatusOr<size_t> Trim() const;

 private:
  absl::Status CheckUsable() const;
  absl::StatusOr<DeviceContexts*> Devices() const;
  absl::StatusOr<const DeviceContext*> Of(const DLDevice& device) const;
  absl::StatusOr<LegacyLoans*> Loans() const;
  absl::StatusOr<std::shared_ptr<Arena>> ArenaOf(
      const DeviceContext& device) const;

  DeviceContexts* const devices_ = nullptr;
  // ForkCount() plus 1, once there may be an arena or loans; 0 before.
  mutable std::atomic<uint64_t> used_under_ = 0;
  mutable ThreadMutex mutex_;
  mutable std::map<int, std::shared_ptr<Arena>> arenas_
      ABSL_GUARDED_BY(mutex_);  // By ordinal.
  mutable std::unique_ptr<LegacyLoans> loans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_CUDA_MEMORY_H_
