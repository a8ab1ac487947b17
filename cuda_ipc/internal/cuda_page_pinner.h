// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CudaPagePinner: pins segments of arenas of the CPU by registering them with
// the CUDA driver. Internal to //cuda_ipc:pinned_memory, which registers it.

#ifndef TENON_CUDA_IPC_INTERNAL_CUDA_PAGE_PINNER_H_
#define TENON_CUDA_IPC_INTERNAL_CUDA_PAGE_PINNER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/arena/mapped_pages.h"
#include "tenon/shm/arena/page_pinner.h"

namespace tenon::cuda_ipc {

// A registration is of the device whose context is current in the calling
// thread, else of device 0; it is valid in the contexts of all devices. A
// segment that is mapped read-only here is registered as read-only for devices.
// RetiredAllocations unregisters and unmaps.
// Errors: also kUnimplemented if the device cannot register memory, or none
//   that is mapped read-only.
class CudaPagePinner final : public PagePinner {
 public:
  // Those of DeviceContexts::OfProcess(), which the first call loads.
  constexpr CudaPagePinner() = default;
  // For tests. Not owned.
  explicit constexpr CudaPagePinner(DeviceContexts* devices)
      : devices_(devices) {}

  absl::Status Check() const override;
  std::unique_ptr<MappedPages::Pin> Make(
      const MappedPages& pages) const override;

 private:
  absl::StatusOr<const DeviceContext*> Device() const;

  DeviceContexts* const devices_ = nullptr;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_CUDA_PAGE_PINNER_H_
