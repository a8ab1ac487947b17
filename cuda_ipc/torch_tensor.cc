// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/torch_tensor.h"

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
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/internal/legacy_loans.h"
#include "tenon/cuda_ipc/internal/torch_counter.h"
#include "tenon/cuda_ipc/internal/trace_range.h"
#include "tenon/cuda_ipc/legacy_memory.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::cuda_ipc {
namespace {

// torch's prefix of a handle: its version and its kind. Version 3 has changed
// other kinds than 'c'.
constexpr size_t kPrefixBytes = 2;
constexpr uint8_t kNewestVersion = 3;
constexpr char kMallocKind = 'c';
constexpr char kExpandableKind = 'e';

absl::Status Malformed(absl::string_view field, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("FromTorch(): ", field, " ", why));
}

absl::Status CheckPrefix(absl::string_view handle) {
  const auto version = static_cast<uint8_t>(handle[0]);
  if (handle[1] == kExpandableKind) {
    return absl::UnimplementedError(
        "FromTorch(): storage_handle is of an expandable segment, which has no "
        "legacy handle; run torch without expandable_segments in "
        "PYTORCH_CUDA_ALLOC_CONF");
  }
  if (version > kNewestVersion) {
    return absl::UnimplementedError(
        absl::StrCat("FromTorch(): storage_handle has version ", version,
                     "; versions up to ", kNewestVersion, " are known"));
  }
  if (handle[1] == kMallocKind) return absl::OkStatus();
  return Malformed("storage_handle", absl::StrCat("has kind ", int{handle[1]},
                                                  "; want 99 ('c')"));
}

// The driver's handle in torch's.
absl::StatusOr<CUipcMemHandle> MemHandleOf(const TorchTensor& message) {
  absl::string_view handle = message.storage_handle;
  CUipcMemHandle allocation;
  if (handle.size() != sizeof(allocation)) {
    if (handle.size() < kPrefixBytes) {
      return Malformed("storage_handle", "is empty: the tensor has no memory");
    }
    TENON_RETURN_IF_ERROR(CheckPrefix(handle));
    handle.remove_prefix(kPrefixBytes);
  }
  if (handle.size() != sizeof(allocation)) {
    return Malformed("storage_handle",
                     absl::StrCat("has ", message.storage_handle.size(),
                                  " bytes; want ", sizeof(allocation), " or ",
                                  kPrefixBytes + sizeof(allocation)));
  }
  std::memcpy(&allocation, handle.data(), sizeof(allocation));
  return allocation;
}

absl::StatusOr<TensorSpec> SpecOf(const TorchTensor& message) {
  if (message.storage_size_bytes <= 0 || message.storage_offset_bytes < 0) {
    return Malformed("storage_size_bytes",
                     absl::StrCat("is ", message.storage_size_bytes, " at ",
                                  message.storage_offset_bytes,
                                  "; want a storage with bytes"));
  }
  int64_t byte_offset = 0;
  if (message.tensor_offset < 0 ||
      __builtin_mul_overflow(message.tensor_offset,
                             int64_t{message.dtype.bits} / 8, &byte_offset)) {
    return Malformed("tensor_offset",
                     absl::StrCat("is ", message.tensor_offset, " elements"));
  }
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec spec,
      TensorSpec::Strided(message.dtype, message.tensor_size,
                          message.tensor_stride,
                          static_cast<uint64_t>(byte_offset)));
  TENON_RETURN_IF_ERROR(
      spec.CheckFits(static_cast<uint64_t>(message.storage_size_bytes)));
  return spec;
}

absl::StatusOr<const DeviceContext*> DeviceOf(const TorchTensor& message) {
  TENON_ASSIGN_OR_RETURN(DeviceContexts* const devices,
                         DeviceContexts::OfProcess());
  return message.device_uuid.has_value() ? devices->Find(*message.device_uuid)
                                         : devices->Get(message.storage_device);
}

// ---- The event ----

// With the context current.
absl::Status WaitUntilFired(const DeviceContext& device, CUevent event,
                            Deadline deadline) {
  absl::Duration pause = absl::Microseconds(20);
  for (;;) {
    const CUresult result = device.driver().cuEventQuery(event);
    if (!MayBePending(result)) {
      return device.Error(result, "cuEventQuery");
    }
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          "FromTorch(): the event of the sender has not fired in time; if its "
          "process has ended, it never does");
    }
    absl::SleepFor(std::min(pause, deadline.Remaining()));
    pause = std::min(2 * pause, absl::Milliseconds(1));
  }
}

absl::Status AwaitEvent(const DeviceContext& device, const TorchTensor& message,
                        Deadline deadline) {
  CUipcEventHandle handle;
  if (message.event_handle.size() != sizeof(handle)) {
    return Malformed("event_handle",
                     absl::StrCat("has ", message.event_handle.size(),
                                  " bytes; want ", sizeof(handle)));
  }
  std::memcpy(&handle, message.event_handle.data(), sizeof(handle));
  TENON_RETURN_IF_ERROR(
      CheckFeature(device.driver(), DriverFeature::kIpcEvents));
  return device.Run([&]() -> absl::Status {
    CUevent event = nullptr;
    TENON_RETURN_IF_ERROR(
        device.Error(device.driver().cuIpcOpenEventHandle(&event, handle),
                     "cuIpcOpenEventHandle"));
    const absl::Status fired = WaitUntilFired(device, event, deadline);
    const absl::Status destroyed = device.Error(
        device.driver().cuEventDestroy_v2(event), "cuEventDestroy");
    return fired.ok() ? destroyed : fired;
  });
}

// ---- The memory ----

// Lowers the counter of a message that was received, as its last owner drops
// it: after the allocation has been closed.
class Receipt {
 public:
  explicit Receipt(const TorchTensor& message)
      : file_(message.ref_counter_handle),
        counter_(message.ref_counter_offset) {}
  ~Receipt() {
    if (!is_received_ || fork_count_ != ForkCount()) return;
    // An error means that there is no sender to tell.
    static_cast<void>(ReleaseTorchCounter(file_, counter_));
  }
  Receipt(const Receipt&) = delete;
  Receipt& operator=(const Receipt&) = delete;

  void SetReceived() { is_received_ = true; }

 private:
  const std::string file_;
  const int64_t counter_;
  const uint64_t fork_count_ = ForkCount();
  bool is_received_ = false;
};

// Another device opens the memory too, if it can access it.
absl::Status CheckDevice(const DeviceMemory& memory, const Storage& opened) {
  TENON_ASSIGN_OR_RETURN(const std::byte* const address, opened.Address());
  const absl::Status lent =
      memory.CheckLent(opened.device(), {address, opened.size_bytes()});
  if (!absl::IsInvalidArgument(lent)) return lent;
  return Malformed("device_uuid or storage_device",
                   absl::StrCat("names cuda:", opened.device().device_id,
                                ", but ", lent.message()));
}

absl::StatusOr<Tensor> Receive(const LegacyHandle& handle,
                               const DeviceContext& device,
                               const TensorSpec& spec,
                               const TorchTensor& message) {
  const auto receipt = std::make_shared<Receipt>(message);
  TENON_ASSIGN_OR_RETURN(
      const DeviceMemory* const memory,
      DeviceMemoryOf(
          {.device_type = kDLCUDA, .device_id = device.device().ordinal}));
  TENON_ASSIGN_OR_RETURN(
      std::shared_ptr<Storage> opened,
      memory->Borrow(LegacyLoans::LoanOfForeign(handle, receipt)));
  TENON_RETURN_IF_ERROR(CheckDevice(*memory, *opened));
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         Tensor::FromSpec(spec, std::move(opened)));
  receipt->SetReceived();
  return tensor;
}

}  // namespace

absl::StatusOr<Tensor> FromTorch(const TorchTensor& message,
                                 Deadline deadline) {
  const TraceRange range("FromTorch");
  TENON_ASSIGN_OR_RETURN(const TensorSpec spec, SpecOf(message));
  TENON_ASSIGN_OR_RETURN(const CUipcMemHandle allocation, MemHandleOf(message));
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const device, DeviceOf(message));
  TENON_RETURN_IF_ERROR(CheckTorchCounter(message.ref_counter_handle,
                                          message.ref_counter_offset));
  if (message.event_sync_required) {
    TENON_RETURN_IF_ERROR(AwaitEvent(*device, message, deadline));
  }
  return Receive({.allocation = allocation,
                  .offset = static_cast<uint64_t>(message.storage_offset_bytes),
                  .bytes = static_cast<uint64_t>(message.storage_size_bytes),
                  .device = device->device().uuid},
                 *device, spec, message);
}

absl::Status ReleaseTorch(const TorchTensor& message) {
  return ReleaseTorchCounter(message.ref_counter_handle,
                             message.ref_counter_offset);
}

}  // namespace tenon::cuda_ipc
