// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/legacy_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/devices.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

std::string BytesOf(const LegacyHandle& handle) {
  return std::string(handle.allocation.reserved,
                     sizeof(handle.allocation.reserved));
}

absl::Status CheckRange(const LegacyHandle& handle, size_t allocation) {
  if (handle.offset <= allocation &&
      handle.bytes <= allocation - handle.offset) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a legacy handle of ", SizeText(handle.bytes), " at offset ",
      handle.offset, " exceeds its allocation of ", SizeText(allocation)));
}

absl::Status CheckLegacyIpc(const DeviceContext& device) {
  return CheckFeature(device.driver(), device.device().ordinal,
                      DriverFeature::kLegacyIpc);
}

struct Allocation {
  CUdeviceptr base = 0;
  size_t bytes = 0;
};

// With the context current.
absl::StatusOr<Allocation> AllocationAt(const DeviceContext& device,
                                        CUdeviceptr address) {
  Allocation found;
  TENON_RETURN_IF_ERROR(device.Error(device.driver().cuMemGetAddressRange_v2(
                                         &found.base, &found.bytes, address),
                                     "cuMemGetAddressRange"));
  return found;
}

// Sets `base` to 0 once it is closed, which it may be also after an error.
absl::Status Close(const DeviceContext& device, CUdeviceptr& base) {
  return device.Run([&] {
    const CUresult result = device.driver().cuIpcCloseMemHandle(base);
    if (result == CUDA_SUCCESS) base = 0;
    return device.Error(result, "cuIpcCloseMemHandle");
  });
}

}  // namespace

struct LegacyExport::Entry {
  CUdeviceptr base;
  size_t bytes;
};

struct LegacyImports::Import {
  Key key;
  const DeviceContext* device;
  CUdeviceptr base;
  size_t bytes;
};

LegacyImports::LegacyImports(DeviceContexts& devices)
    : LegacyImports(devices, Options()) {}

LegacyImports::LegacyImports(DeviceContexts& devices, const Options& options)
    : devices_(devices), options_(options) {}

LegacyImports::~LegacyImports() { static_cast<void>(Sweep()); }

absl::StatusOr<LegacyExport> LegacyImports::Export(const DeviceContext& device,
                                                   CUdeviceptr address,
                                                   size_t bytes) {
  TENON_RETURN_IF_ERROR(CheckLegacyIpc(device));
  LegacyHandle handle = {.allocation = {},
                         .offset = 0,
                         .bytes = bytes,
                         .device = device.device().uuid};
  Allocation allocation;
  const auto get = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(allocation, AllocationAt(device, address));
    const CUresult result =
        device.driver().cuIpcGetMemHandle(&handle.allocation, allocation.base);
    if (result != CUDA_ERROR_INVALID_VALUE) {
      return device.Error(result, "cuIpcGetMemHandle");
    }
    return absl::InvalidArgumentError(absl::StrCat(
        device.Error(result, "cuIpcGetMemHandle").message(),
        ": only memory of cuMemAlloc or cudaMalloc has a legacy handle; "
        "allocate from a DevicePool"));
  };
  TENON_RETURN_IF_ERROR(device.Run(get));
  handle.offset = address - allocation.base;
  TENON_RETURN_IF_ERROR(CheckRange(handle, allocation.bytes));
  auto entry = std::make_shared<const LegacyExport::Entry>(
      LegacyExport::Entry{allocation.base, allocation.bytes});
  const ThreadLock lock(&mutex_);
  std::erase_if(exports_,
                [](const auto& known) { return known.second.expired(); });
  auto& known = exports_[{device.device().ordinal, BytesOf(handle)}];
  const std::shared_ptr<const LegacyExport::Entry> earlier = known.lock();
  // Memory that was freed, and allocated again, may have the same handle.
  if (earlier != nullptr && earlier->base == entry->base &&
      earlier->bytes == entry->bytes) {
    return LegacyExport(handle, earlier);
  }
  known = entry;
  return LegacyExport(handle, std::move(entry));
}

absl::StatusOr<LegacyMemory> LegacyImports::Open(const LegacyHandle& handle) {
  TENON_ASSIGN_OR_RETURN(const DeviceContext* device,
                         devices_.Find(handle.device));
  const Key key = {device->device().ordinal, BytesOf(handle)};
  const ThreadLock lock(&mutex_);
  if (const auto found = exports_.find(key); found != exports_.end()) {
    if (const auto own = found->second.lock(); own != nullptr) {
      TENON_RETURN_IF_ERROR(CheckRange(handle, own->bytes));
      return LegacyMemory(own, own->base + handle.offset, handle.bytes);
    }
  }
  auto open =
      std::find_if(imports_.begin(), imports_.end(),
                   [&](const auto& import) { return import->key == key; });
  std::shared_ptr<const Import> import;
  if (open != imports_.end()) {
    import = *open;
    TENON_RETURN_IF_ERROR(CheckRange(handle, import->bytes));
  } else {
    TENON_RETURN_IF_ERROR(CloseIdle(options_.max_idle).status());
    TENON_ASSIGN_OR_RETURN(import, OpenImport(*device, handle));
    imports_.push_back(import);
  }
  return LegacyMemory(import, import->base + handle.offset, handle.bytes);
}

absl::StatusOr<std::shared_ptr<const LegacyImports::Import>>
LegacyImports::OpenImport(const DeviceContext& device,
                          const LegacyHandle& handle) {
  TENON_RETURN_IF_ERROR(CheckLegacyIpc(device));
  Allocation opened;
  const absl::Status result = device.Run([&]() -> absl::Status {
    CUdeviceptr base = 0;
    const CUresult open = device.driver().cuIpcOpenMemHandle_v2(
        &base, handle.allocation, kCuIpcMemLazyEnablePeerAccess);
    if (open == CUDA_ERROR_INVALID_CONTEXT) {
      return absl::FailedPreconditionError(absl::StrCat(
          device.Error(open, "cuIpcOpenMemHandle").message(),
          ": the memory is of this process, or of one with the same number in "
          "another container"));
    }
    TENON_RETURN_IF_ERROR(device.Error(open, "cuIpcOpenMemHandle"));
    opened.base = base;
    TENON_ASSIGN_OR_RETURN(opened, AllocationAt(device, base));
    return CheckRange(handle, opened.bytes);
  });
  if (!result.ok()) {
    if (opened.base != 0) static_cast<void>(Close(device, opened.base));
    return result;
  }
  return std::make_shared<const Import>(
      Import{.key = {device.device().ordinal, BytesOf(handle)},
             .device = &device,
             .base = opened.base,
             .bytes = opened.bytes});
}

absl::StatusOr<size_t> LegacyImports::Sweep() {
  const ThreadLock lock(&mutex_);
  return CloseIdle(0);
}

absl::StatusOr<size_t> LegacyImports::CloseIdle(size_t keep) {
  // Only Open() copies the pointer of an idle one, under the lock.
  const auto is_idle = [](const auto& import) {
    return import.use_count() == 1;
  };
  size_t idle = std::count_if(imports_.begin(), imports_.end(), is_idle);
  size_t closed = 0;
  for (auto import = imports_.begin();
       idle > keep && import != imports_.end();) {
    if (!is_idle(*import)) {
      ++import;
      continue;
    }
    CUdeviceptr base = (*import)->base;
    const absl::Status result = Close(*(*import)->device, base);
    if (base == 0) import = imports_.erase(import);
    TENON_RETURN_IF_ERROR(result);
    ++closed;
    --idle;
  }
  return closed;
}

}  // namespace tenon::cuda_ipc
