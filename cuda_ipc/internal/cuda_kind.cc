// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The importer's side of device pools (memory_kind.h). To link it is to
// register it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/internal/device_store.h"
#include "tenon/shm/arena/memory_kind.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

absl::StatusOr<const DeviceContext*> ContextOf(const DeviceIdentity& identity) {
  absl::StatusOr<DeviceContexts*> devices = DeviceContexts::OfProcess();
  absl::Status error = devices.status();
  if (devices.ok()) {
    absl::StatusOr<const DeviceContext*> device = (*devices)->Find(identity);
    if (device.ok()) return device;
    error = device.status();
  }
  // Memory that is short now may suffice for another try.
  const absl::StatusCode code = absl::IsResourceExhausted(error)
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::StatusCode::kFailedPrecondition;
  return absl::Status(
      code,
      absl::StrCat("a tensor of a CUDA device was received, which this process "
                   "cannot use: ",
                   error.message()));
}

// The same memory of a device as in the owner, by descriptor.
class CudaKind final : public MemoryKind {
 public:
  constexpr CudaKind() : MemoryKind(MemoryKindId::kCuda) {}

  absl::StatusOr<DLDevice> DeviceOf(
      const DeviceIdentity& identity) const override {
    TENON_ASSIGN_OR_RETURN(const DeviceContext* device, ContextOf(identity));
    return DLDevice{.device_type = kDLCUDA,
                    .device_id = device->device().ordinal};
  }

  absl::StatusOr<std::unique_ptr<StoredSegment>> Open(
      OfferedSegment offered) const override {
    if (!offered.fd.valid()) {
      return absl::InvalidArgumentError(
          "a segment of device memory was offered by a name; want a "
          "descriptor");
    }
    const DeviceAccess access =
        offered.writable ? DeviceAccess::kReadWrite : DeviceAccess::kReadOnly;
    auto memory = OpenAs(offered, access);
    // It may be any file.
    if (!memory.ok()) CloseReceived(std::move(offered.fd));
    return memory;
  }

 private:
  // Takes the descriptor unless it fails.
  static absl::StatusOr<std::unique_ptr<StoredSegment>> OpenAs(
      OfferedSegment& offered, DeviceAccess access) {
    TENON_ASSIGN_OR_RETURN(const DeviceContext* device,
                           ContextOf(offered.identity));
    // A descriptor does not tell the size; to map it checks this one.
    TENON_ASSIGN_OR_RETURN(const size_t bytes,
                           RoundUpToDevice(*device, offered.bytes));
    if (bytes == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a segment of ", offered.bytes,
                       " bytes of device memory is offered"));
    }
    return std::make_unique<DeviceSegment>(*device, std::move(offered.fd),
                                           bytes, access);
  }
};

constinit const CudaKind kind;

// Before main(), in each program with this file.
[[maybe_unused]] const bool registered = RegisterMemoryKind(kind).ok();

}  // namespace

}  // namespace tenon::cuda_ipc
