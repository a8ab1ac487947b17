// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/cuda_memory.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_copy.h"
#include "tenon/cuda_ipc/internal/device_store.h"
#include "tenon/cuda_ipc/internal/retired_allocations.h"
#include "tenon/cuda_ipc/internal/trace_range.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {
namespace {

// As DevicePoolOptions has them.
constexpr uint64_t kMostTensors = uint64_t{1} << 18;
constexpr size_t kFirstSegment = size_t{2} << 20;
constexpr size_t kLargestSegment = size_t{256} << 20;

CUdeviceptr AddressOf(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// With the context current.
absl::Status CheckOn(const DeviceContext& device, CUdeviceptr address) {
  int ordinal = -1;
  const CUresult result = device.driver().cuPointerGetAttribute(
      &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  if (result == CUDA_ERROR_INVALID_VALUE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address 0x", absl::Hex(address), " is not of the driver's memory"));
  }
  TENON_RETURN_IF_ERROR(device.Error(result, "cuPointerGetAttribute"));
  if (ordinal == device.device().ordinal) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("address 0x", absl::Hex(address), " is on cuda:", ordinal));
}

}  // namespace

absl::StatusOr<DeviceContexts*> CudaMemory::Devices() const {
  if (devices_ != nullptr) return devices_;
  return DeviceContexts::OfProcess();
}

absl::StatusOr<const DeviceContext*> CudaMemory::Of(
    const DLDevice& device) const {
  TENON_ASSIGN_OR_RETURN(DeviceContexts* const devices, Devices());
  return devices->Get(device.device_id);
}

absl::Status CudaMemory::Copy(const To& to, const From& from) const {
  const size_t bytes = from.bytes.size();
  if (to.bytes.size() != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("Copy(): ", to.bytes.size(), " bytes of ",
                     DeviceName(to.device), " for ", bytes, " bytes of ",
                     DeviceName(from.device), "; want the same size"));
  }
  const CUdeviceptr there = AddressOf(to.bytes.data());
  if (IsOnCpu(from.device)) {
    TENON_ASSIGN_OR_RETURN(const DeviceContext* const device, Of(to.device));
    return CopyToDevice(*device, there, from.bytes);
  }
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const device, Of(from.device));
  if (IsOnCpu(to.device)) {
    return CopyToHost(*device, to.bytes, AddressOf(from.bytes.data()));
  }
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const other, Of(to.device));
  return CopyBetweenDevices(*other, there, *device,
                            AddressOf(from.bytes.data()), bytes);
}

// The caller has checked that this process is not a forked child, where another
// thread of the parent may hold the lock.
absl::StatusOr<std::shared_ptr<Arena>> CudaMemory::ArenaOf(
    const DeviceContext& device) const {
  used_under_.store(ForkCount() + 1);
  const ThreadLock lock(&mutex_);
  std::shared_ptr<Arena>& arena = arenas_[device.device().ordinal];
  if (arena == nullptr) {
    ArenaOptions options;
    options.name = "tensors";
    options.kind = SegmentKind::kSharedWritable;
    options.max_blocks = kMostTensors;
    options.segment_bytes = kFirstSegment;
    TENON_ASSIGN_OR_RETURN(arena,
                           CreateDeviceArena(device, options, kLargestSegment));
  }
  return arena;
}

absl::StatusOr<std::shared_ptr<Storage>> CudaMemory::Allocate(
    const DLDevice& device, size_t bytes) const {
  if (bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no device has the ", SizeText(bytes), " of a tensor"));
  }
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const context, Of(device));
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Arena> arena, ArenaOf(*context));
  const auto create = [&] {
    return CreateTensor(*arena, kDtypeOf<uint8_t>,
                        {static_cast<int64_t>(bytes)}, Deadline::Passed());
  };
  absl::StatusOr<Tensor> made = create();
  if (absl::IsResourceExhausted(made.status())) {
    // Free memory for tensors of other sizes may suffice.
    TENON_RETURN_IF_ERROR(Trim().status());
    made = create();
  }
  if (!made.ok()) return std::move(made).status();
  return made->storage();
}

// Before the lock, which another thread of the parent may hold.
absl::Status CudaMemory::CheckUsable() const {
  const uint64_t used_under = used_under_.load();
  if (used_under == 0) return absl::OkStatus();
  return CheckNotForked(used_under - 1, "memory of tensors on CUDA devices");
}

absl::StatusOr<LegacyLoans*> CudaMemory::Loans() const {
  TENON_RETURN_IF_ERROR(CheckUsable());
  TENON_ASSIGN_OR_RETURN(DeviceContexts* const devices, Devices());
  used_under_.store(ForkCount() + 1);
  const ThreadLock lock(&mutex_);
  if (loans_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(loans_, LegacyLoans::Create(*devices));
  }
  return loans_.get();
}

absl::StatusOr<std::shared_ptr<Storage>> CudaMemory::Lend(
    const std::shared_ptr<Storage>& memory) const {
  const TraceRange range("Lend");
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const device,
                         Of(memory->device()));
  TENON_ASSIGN_OR_RETURN(LegacyLoans* const loans, Loans());
  return loans->Lend(*device, memory);
}

absl::StatusOr<std::shared_ptr<Storage>> CudaMemory::Borrow(
    std::shared_ptr<Storage> loan) const {
  const TraceRange range("Borrow");
  TENON_ASSIGN_OR_RETURN(LegacyLoans* const loans, Loans());
  return loans->Borrow(std::move(loan));
}

absl::StatusOr<size_t> CudaMemory::Trim() const {
  TENON_RETURN_IF_ERROR(CheckUsable());
  if (used_under_.load() == 0) return 0;
  LegacyLoans* loans = nullptr;
  {
    const ThreadLock lock(&mutex_);
    loans = loans_.get();
  }
  if (loans != nullptr) loans->Collect();
  size_t bytes = 0;
  const ThreadLock lock(&mutex_);
  for (const auto& [ordinal, arena] : arenas_) {
    if (arena == nullptr) continue;
    TENON_ASSIGN_OR_RETURN(const size_t returned, arena->Trim());
    bytes += returned;
  }
  RetiredAllocations::OfProcess().Release();
  return bytes;
}

absl::Status CudaMemory::CheckLent(const DLDevice& device,
                                   std::span<const std::byte> bytes) const {
  if (bytes.empty()) {
    return absl::InvalidArgumentError("CheckLent(): no bytes; want at least 1");
  }
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const context, Of(device));
  return context->Run([&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(CheckOn(*context, AddressOf(bytes.data())));
    return CheckOn(*context, AddressOf(&bytes.back()));
  });
}

}  // namespace tenon::cuda_ipc
