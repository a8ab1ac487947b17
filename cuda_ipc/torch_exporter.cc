// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/torch_exporter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/internal/legacy_loans.h"
#include "tenon/cuda_ipc/internal/quarantine.h"
#include "tenon/cuda_ipc/internal/torch_counter.h"
#include "tenon/cuda_ipc/internal/trace_range.h"
#include "tenon/cuda_ipc/legacy_memory.h"
#include "tenon/cuda_ipc/torch_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::cuda_ipc {
namespace {

constexpr char kWhat[] = "an exporter of tensors for torch";
constexpr char kNoHandle[] =
    "has no legacy handle, which torch opens; copy the tensor into memory of "
    "cuMemAlloc or cudaMalloc, and import that by DLPack";

absl::Status Unfit(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("TorchExporter::Export(): ", what, " ", why));
}

// What torch has no tensor for.
absl::Status CheckTensor(const Tensor& tensor) {
  if (tensor.device().device_type != kDLCUDA) {
    return Unfit(absl::StrCat("a tensor on ", DeviceName(tensor.device())),
                 "is not on a CUDA device");
  }
  const TensorSpec& spec = tensor.spec();
  if (spec.elements() == 0) {
    return Unfit("the tensor", "is empty: there is no memory to share");
  }
  if (spec.dtype().lanes != 1) {
    return Unfit("the dtype", absl::StrCat("has ", spec.dtype().lanes,
                                           " lanes; torch's have one"));
  }
  for (const int64_t stride : spec.strides()) {
    if (stride < 0) {
      return Unfit("a stride",
                   absl::StrCat("is ", stride, "; torch has none below 0"));
    }
  }
  if (tensor.storage()->lease() != nullptr) {
    return Unfit("memory of a DevicePool", kNoHandle);
  }
  return absl::OkStatus();
}

// Of memory of this process, or of the loan by which it was received.
absl::StatusOr<LegacyHandle> HandleOf(const std::shared_ptr<Storage>& storage) {
  TENON_ASSIGN_OR_RETURN(const DeviceMemory* const memory,
                         DeviceMemoryOf(storage->device()));
  const absl::StatusOr<std::shared_ptr<Storage>> loan = memory->Lend(storage);
  if (absl::IsInvalidArgument(loan.status())) {
    return Unfit("the memory",
                 absl::StrCat(kNoHandle, ": ", loan.status().message()));
  }
  TENON_RETURN_IF_ERROR(loan.status());
  return LegacyLoans::HandleIn(**loan);
}

TorchTensor MessageOf(const Tensor& tensor, const LegacyHandle& handle) {
  const TensorSpec& spec = tensor.spec();
  TorchTensor message;
  message.tensor_size.assign(spec.shape().begin(), spec.shape().end());
  message.tensor_stride.assign(spec.strides().begin(), spec.strides().end());
  message.tensor_offset =
      static_cast<int64_t>(spec.byte_offset()) / spec.element_bytes();
  message.dtype = spec.dtype();
  message.storage_device = tensor.device().device_id;
  message.storage_handle.assign(handle.allocation.reserved,
                                sizeof(handle.allocation.reserved));
  message.storage_size_bytes = static_cast<int64_t>(handle.bytes);
  message.storage_offset_bytes = static_cast<int64_t>(handle.offset);
  message.device_uuid = handle.device;
  return message;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchExporter>> TorchExporter::Create(
    Options options) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<TorchCounterFile> file,
                         TorchCounterFile::Create());
  return std::unique_ptr<TorchExporter>(
      new TorchExporter(std::move(options), std::move(file)));
}

absl::Status TorchExporter::CheckOpen() const {
  if (is_closed_) {
    return absl::FailedPreconditionError(
        "TorchExporter::Export(): the exporter is closed; create another one");
  }
  if (options_.receiver.has_value() && options_.receiver->HasEnded()) {
    return absl::UnavailableError(
        "TorchExporter::Export(): the receiver has ended; create an exporter "
        "for another one");
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TorchExporter::AddCounter() {
  if (file_->is_full()) {
    TENON_ASSIGN_OR_RETURN(file_, TorchCounterFile::Create());
  }
  return file_->Add();
}

absl::StatusOr<TorchTensor> TorchExporter::Export(const Tensor& tensor) {
  const TraceRange range("TorchExporter::Export");
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  TENON_RETURN_IF_ERROR(CheckTensor(tensor));
  {
    const ThreadLock lock(&mutex_);
    TENON_RETURN_IF_ERROR(CheckOpen());
  }
  TENON_ASSIGN_OR_RETURN(const LegacyHandle handle, HandleOf(tensor.storage()));
  TorchTensor message = MessageOf(tensor, handle);
  const ThreadLock lock(&mutex_);
  TENON_RETURN_IF_ERROR(CheckOpen());
  TENON_ASSIGN_OR_RETURN(message.ref_counter_offset, AddCounter());
  message.ref_counter_handle = file_->name();
  sent_.push_back(
      {.tensor = tensor, .file = file_, .counter = message.ref_counter_offset});
  return message;
}

absl::Status TorchExporter::Cancel(const TorchTensor& message) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  Sent cancelled;  // Destroyed after the lock.
  const ThreadLock lock(&mutex_);
  const auto found = std::ranges::find_if(sent_, [&](const Sent& sent) {
    return sent.counter == message.ref_counter_offset &&
           sent.file->name() == message.ref_counter_handle;
  });
  if (found == sent_.end()) {
    return absl::NotFoundError(absl::StrCat(
        "TorchExporter::Cancel(): counter ", message.ref_counter_offset, " of ",
        message.ref_counter_handle,
        " is of no message of this exporter that is not released"));
  }
  TENON_RETURN_IF_ERROR(found->file->Clear(found->counter));
  cancelled = std::move(*found);
  sent_.erase(found);
  return absl::OkStatus();
}

bool TorchExporter::HasReceiverEnded() {
  if (!options_.receiver.has_value() || !options_.receiver->HasEnded()) {
    return false;
  }
  if (!quarantine_.has_value()) quarantine_ = Deadline::After(kQuarantine);
  return quarantine_->has_passed();
}

absl::StatusOr<size_t> TorchExporter::Reap() {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  absl::Status failed;
  std::vector<Sent> released;  // Destroyed after the lock.
  {
    const ThreadLock lock(&mutex_);
    const bool is_all = HasReceiverEnded();
    const auto is_held = [&](const Sent& sent) {
      if (is_all) return false;
      const absl::StatusOr<bool> is_released =
          sent.file->IsReleased(sent.counter);
      failed.Update(is_released.status());
      return !is_released.value_or(false);
    };
    const auto first =
        std::stable_partition(sent_.begin(), sent_.end(), is_held);
    released.assign(std::move_iterator(first), std::move_iterator(sent_.end()));
    sent_.erase(first, sent_.end());
  }
  TENON_RETURN_IF_ERROR(failed);
  return released.size();
}

size_t TorchExporter::unreleased() const {
  if (fork_count_ != ForkCount()) return 0;
  const ThreadLock lock(&mutex_);
  return sent_.size();
}

absl::Status TorchExporter::AwaitReleases(Deadline deadline) {
  absl::Duration pause = absl::Microseconds(50);
  for (;;) {
    const absl::Status reaped = Reap().status();
    const size_t left = unreleased();
    if (left == 0) return absl::OkStatus();
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "TorchExporter::Close(): the receiver has not released ", left,
          " tensors in time; they are dropped",
          reaped.ok() ? "" : absl::StrCat(": ", reaped.message())));
    }
    absl::SleepFor(std::min(pause, deadline.Remaining()));
    pause = std::min(2 * pause, absl::Milliseconds(10));
  }
}

absl::Status TorchExporter::Close(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  {
    const ThreadLock lock(&mutex_);
    is_closed_ = true;
  }
  const absl::Status released = AwaitReleases(deadline);
  std::vector<Sent> left;  // Destroyed after the lock, as is the file.
  std::shared_ptr<TorchCounterFile> file;
  const ThreadLock lock(&mutex_);
  left.swap(sent_);
  file.swap(file_);
  return released;
}

}  // namespace tenon::cuda_ipc
