// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_pool.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/cuda_ipc/internal/device_store.h"
#include "tenon/cuda_ipc/internal/retired_allocations.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"

namespace tenon::cuda_ipc {
namespace {

constexpr absl::Duration kLongestNap = absl::Milliseconds(10);
constexpr size_t kMostNamed = 5;

std::string Quarantined(const ArenaUse& use) {
  if (use.blocks_quarantined == 0) return "";
  return absl::StrCat("; ", use.blocks_quarantined,
                      " blocks of processes that have ended are quarantined");
}

ArenaOptions OptionsOf(const DevicePoolOptions& options) {
  ArenaOptions arena;
  arena.name = options.name;
  arena.kind = options.read_only_for_receivers ? SegmentKind::kOwnerWritten
                                               : SegmentKind::kSharedWritable;
  arena.quota_bytes = options.quota_bytes;
  arena.quota_bytes_per_holder = options.quota_bytes_per_holder;
  arena.max_blocks = options.max_blocks;
  arena.segment_bytes = options.first_segment_bytes;
  arena.wipe = options.wipe;
  return arena;
}

}  // namespace

absl::StatusOr<std::shared_ptr<DevicePool>> DevicePool::Create(
    int ordinal, const DevicePoolOptions& options) {
  TENON_ASSIGN_OR_RETURN(DeviceContexts * devices, DeviceContexts::OfProcess());
  TENON_ASSIGN_OR_RETURN(const DeviceContext* device, devices->Get(ordinal));
  return Create(*device, options);
}

absl::StatusOr<std::shared_ptr<DevicePool>> DevicePool::Create(
    const std::array<uint8_t, 16>& uuid, const DevicePoolOptions& options) {
  TENON_ASSIGN_OR_RETURN(DeviceContexts * devices, DeviceContexts::OfProcess());
  TENON_ASSIGN_OR_RETURN(const DeviceContext* device, devices->Find(uuid));
  return Create(*device, options);
}

absl::StatusOr<std::shared_ptr<DevicePool>> DevicePool::Create(
    const DeviceContext& device, const DevicePoolOptions& options) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Arena> arena,
                         CreateDeviceArena(device, OptionsOf(options),
                                           options.largest_segment_bytes));
  return std::shared_ptr<DevicePool>(new DevicePool(device, std::move(arena)));
}

DevicePool::~DevicePool() = default;

std::shared_ptr<Arena> DevicePool::arena() const {
  const ThreadLock lock(&mutex_);
  return arena_;
}

absl::StatusOr<std::shared_ptr<Arena>> DevicePool::Open() const {
  std::shared_ptr<Arena> open = arena();
  if (open == nullptr) {
    return absl::FailedPreconditionError("the DevicePool is closed");
  }
  return open;
}

absl::StatusOr<Tensor> DevicePool::CreateTensor(DLDataType dtype,
                                                absl::Span<const int64_t> shape,
                                                Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Arena> open, Open());
  return tenon::CreateTensor(*open, dtype, shape, deadline);
}

absl::StatusOr<size_t> DevicePool::Trim() {
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Arena> open, Open());
  TENON_ASSIGN_OR_RETURN(const size_t bytes, open->Trim());
  RetiredAllocations::OfProcess().Release();
  return bytes;
}

absl::StatusOr<std::vector<HolderUse>> DevicePool::Holders() {
  const std::shared_ptr<Arena> open = arena();
  if (open == nullptr) return std::vector<HolderUse>();
  return open->Holders();
}

ArenaUse DevicePool::Use() const {
  const std::shared_ptr<Arena> open = arena();
  return open == nullptr ? ArenaUse() : open->Use();
}

absl::Status DevicePool::Close(Deadline deadline) {
  std::shared_ptr<Arena> closing;
  {
    const ThreadLock lock(&mutex_);
    closing.swap(arena_);
  }
  if (closing == nullptr) return absl::OkStatus();
  absl::Status result;
  for (absl::Duration nap = absl::Microseconds(100);;
       nap = std::min(2 * nap, kLongestNap)) {
    TENON_RETURN_IF_ERROR(closing->Trim().status());
    const ArenaUse use = closing->Use();
    if (use.segments == 0) break;
    if (deadline.has_passed()) {
      TENON_ASSIGN_OR_RETURN(const std::vector<HolderUse> holders,
                             closing->Holders());
      result = absl::DeadlineExceededError(absl::StrCat(
          "Close(): device pool '", closing->options().name,
          "' is closed, and ", SizeText(use.segment_bytes), " in ",
          use.segments,
          " segments stay until the last tensor is dropped; held by ",
          DescribeHolders(holders, kMostNamed), Quarantined(use)));
      break;
    }
    absl::SleepFor(std::min(nap, deadline.Remaining()));
  }
  closing.reset();
  RetiredAllocations::OfProcess().Release();
  return result;
}

}  // namespace tenon::cuda_ipc
