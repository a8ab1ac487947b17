// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/device_store.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_copy.h"
#include "tenon/cuda_ipc/internal/quarantine.h"
#include "tenon/cuda_ipc/internal/trace_range.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon::cuda_ipc {
namespace {

// What kernels of CUDA expect of memory of the runtime.
constexpr size_t kBlockAlignment = 256;

std::byte* BytesAt(CUdeviceptr address) {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
}
CUdeviceptr AddressOf(const std::byte* bytes) {
  return reinterpret_cast<uintptr_t>(bytes);
}

}  // namespace

DeviceSegment::DeviceSegment(DeviceAllocation made,
                             std::unique_ptr<RetiredAllocations::Place> place)
    : StoredSegment(made.size(), BytesAt(made.address())),
      device_(made.device()),
      place_(std::move(place)) {
  place_->allocation = std::make_unique<DeviceAllocation>(std::move(made));
}

DeviceSegment::DeviceSegment(const DeviceContext& device, UniqueFd fd,
                             size_t bytes, DeviceAccess access)
    : StoredSegment(bytes),
      device_(device),
      fd_(std::move(fd)),
      access_(access) {}

DeviceSegment::~DeviceSegment() {
  if (fd_.valid()) CloseReceived(std::move(fd_));
  // In a forked child the allocation releases nothing of its parent's.
  if (place_ == nullptr || !device_.CheckProcess().ok()) return;
  RetiredAllocations::OfProcess().Add(std::move(place_));
}

int DeviceSegment::fd() const {
  return place_ == nullptr ? fd_.get() : place_->allocation->fd();
}

absl::Status DeviceSegment::Map() {
  if (place_ != nullptr) return absl::OkStatus();
  const TraceRange range("DeviceSegment::Map");
  // What was evicted or trimmed may be what the device is short of.
  RetiredAllocations::OfProcess().Release();
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<RetiredAllocations::Place> place,
                         RetiredAllocations::OfProcess().Reserve());
  TENON_ASSIGN_OR_RETURN(
      DeviceAllocation allocation,
      DeviceAllocation::Import(device_, std::move(fd_), size_bytes(), access_));
  set_data(BytesAt(allocation.address()));
  place->allocation = std::make_unique<DeviceAllocation>(std::move(allocation));
  place_ = std::move(place);
  return absl::OkStatus();
}

DeviceStore::DeviceStore(const DeviceContext& device, size_t granularity,
                         size_t largest_segment, bool zeroes_segments)
    : BlockStore({.kind = MemoryKindId::kCuda,
                  .identity = device.device().uuid,
                  .device = {.device_type = kDLCUDA,
                             .device_id = device.device().ordinal},
                  .strategy = SharingStrategy::kFileDescriptor,
                  .segment_unit = granularity,
                  .largest_segment = largest_segment,
                  .quarantine = kQuarantine,
                  .block_alignment = kBlockAlignment}),
      device_(device),
      zeroes_segments_(zeroes_segments) {}

absl::Status DeviceStore::CheckOptions(const ArenaOptions& options) const {
  ArenaOptions others = options;
  others.wipe = false;
  return BlockStore::CheckOptions(others);
}

absl::StatusOr<std::unique_ptr<StoredSegment>> DeviceStore::Create(
    size_t bytes) {
  // What was trimmed may be what the device is short of.
  RetiredAllocations::OfProcess().Release();
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<RetiredAllocations::Place> place,
                         RetiredAllocations::OfProcess().Reserve());
  TENON_ASSIGN_OR_RETURN(DeviceAllocation made,
                         DeviceAllocation::Create(device_, bytes));
  if (zeroes_segments_) {
    TENON_RETURN_IF_ERROR(FillDevice(device_, made.address(), 0, bytes));
  }
  return std::make_unique<DeviceSegment>(std::move(made), std::move(place));
}

absl::Status DeviceStore::Wipe(std::byte* block, size_t bytes) {
  return FillDevice(device_, AddressOf(block), 0, bytes);
}

absl::StatusOr<std::shared_ptr<Arena>> CreateDeviceArena(
    const DeviceContext& device, const ArenaOptions& options,
    size_t largest_segment) {
  TENON_ASSIGN_OR_RETURN(const size_t granularity, RoundUpToDevice(device, 1));
  return Arena::Create(
      options, std::make_unique<DeviceStore>(device, granularity,
                                             largest_segment, options.wipe));
}

}  // namespace tenon::cuda_ipc
