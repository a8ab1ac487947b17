// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DeviceStore: an arena's blocks in memory of a CUDA device. DeviceSegment: one
// segment of it, in the owner or in another process. Internal to cuda_ipc.

#ifndef TENON_CUDA_IPC_INTERNAL_DEVICE_STORE_H_
#define TENON_CUDA_IPC_INTERNAL_DEVICE_STORE_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/internal/retired_allocations.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::cuda_ipc {

// Its destructor makes no driver call: RetiredAllocations does.
class DeviceSegment final : public StoredSegment {
 public:
  // Of the owner, mapped. `place` is of RetiredAllocations::Reserve().
  DeviceSegment(DeviceAllocation made,
                std::unique_ptr<RetiredAllocations::Place> place);
  // Of a received descriptor; Map() imports it.
  DeviceSegment(const DeviceContext& device, UniqueFd fd, size_t bytes,
                DeviceAccess access);
  ~DeviceSegment() override;

  int fd() const override;
  absl::Status Map() override;

 private:
  const DeviceContext& device_;
  UniqueFd fd_;  // Before Map().
  DeviceAccess access_ = DeviceAccess::kReadWrite;
  // Has the allocation once it is mapped.
  std::unique_ptr<RetiredAllocations::Place> place_;
};

class DeviceStore final : public BlockStore {
 public:
  // `granularity` is RoundUpToDevice(device, 1). `device` outlives the store.
  DeviceStore(const DeviceContext& device, size_t granularity,
              size_t largest_segment, bool zeroes_segments);

  // ArenaOptions::wipe is supported, `debug` is not: a block is poisoned where
  // it is released.
  absl::Status CheckOptions(const ArenaOptions& options) const override;
  absl::StatusOr<std::unique_ptr<StoredSegment>> Create(size_t bytes) override;
  absl::Status Wipe(std::byte* block, size_t bytes) override;

 private:
  const DeviceContext& device_;
  const bool zeroes_segments_;
};

// An arena in a DeviceStore, with `options` but for its strategy. Errors:
// RoundUpToDevice()'s and Arena::Create()'s.
absl::StatusOr<std::shared_ptr<Arena>> CreateDeviceArena(
    const DeviceContext& device, const ArenaOptions& options,
    size_t largest_segment);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_DEVICE_STORE_H_
