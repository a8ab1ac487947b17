// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/to_device/to_device.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader_state.h"
#include "tenon/loader/to_device/copies_in_flight.h"
#include "tenon/loader/to_device/device_copier.h"
#include "tenon/loader/to_device/staging_thread.h"
#include "tenon/shm/arena/page_pinner.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {
namespace {

constexpr int kMostPrefetch = 64;

absl::Status CheckOptions(const Loader* loader, cuda_ipc::CUstream stream,
                          const ToDeviceOptions& options) {
  if (loader == nullptr) {
    return absl::InvalidArgumentError(
        "ToDevice::Create(): the loader is null; want the result of "
        "Loader::Create()");
  }
  if (stream == nullptr) {
    return absl::InvalidArgumentError(
        "ToDevice::Create(): the stream is null; want a stream of the device, "
        "made by cuStreamCreate()");
  }
  if (options.prefetch < 1 || options.prefetch > kMostPrefetch) {
    return absl::InvalidArgumentError(
        absl::StrCat("ToDevice::Create(): prefetch is ", options.prefetch,
                     "; want 1 to ", kMostPrefetch));
  }
  return absl::OkStatus();
}

// Whether the same call may succeed later, and nothing is lost.
bool IsShortage(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

}  // namespace

ToDevice::ToDevice(std::unique_ptr<Loader> loader,
                   const ToDeviceOptions& options)
    : options_(options), loader_(std::move(loader)) {}

absl::StatusOr<std::unique_ptr<ToDevice>> ToDevice::Create(
    std::unique_ptr<Loader> loader, cuda_ipc::CUstream stream,
    const ToDeviceOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(loader.get(), stream, options));
  auto made = absl::WrapUnique(new ToDevice(std::move(loader), options));
  TENON_RETURN_IF_ERROR(made->Start(stream));
  return made;
}

absl::Status ToDevice::Start(cuda_ipc::CUstream stream) {
  TENON_ASSIGN_OR_RETURN(cuda_ipc::DeviceContexts* const devices,
                         cuda_ipc::DeviceContexts::OfProcess());
  TENON_ASSIGN_OR_RETURN(const cuda_ipc::DeviceContext* const device,
                         devices->Get(options_.device));
  TENON_ASSIGN_OR_RETURN(pool_,
                         cuda_ipc::DevicePool::Create(*device, options_.pool));
  TENON_ASSIGN_OR_RETURN(copier_, DeviceCopier::Create(*device, stream));
  return absl::OkStatus();
}

ToDevice::~ToDevice() {
  if (copier_ != nullptr && !copier_->device().CheckProcess().ok()) {
    // The thread is the parent's, and may have held its lock at the fork.
    static_cast<void>(staging_.release());
    return;
  }
  Abandon();
  staging_.reset();
}

absl::Status ToDevice::StartEpoch(int64_t epoch) {
  TENON_RETURN_IF_ERROR(failure_);
  Abandon();
  epoch_.reset(new EpochRange(loader_->Epoch(epoch)));
  state_ = loader_->State();
  is_at_end_ = false;
  return absl::OkStatus();
}

// Drops what was taken ahead.
void ToDevice::Abandon() {
  for (Ahead& ahead : ahead_) {
    if (ahead.staged != nullptr) staging_->Abandon(*ahead.staged);
    if (ahead.copied != nullptr) copier_->GiveBack(ahead.copied);
  }
  ahead_.clear();
  pending_.reset();
}

absl::Status ToDevice::Fail(const absl::Status& status) {
  if (!IsShortage(status)) failure_ = status;
  return status;
}

absl::StatusOr<std::optional<Batch>> ToDevice::Next(Deadline deadline) {
  TENON_RETURN_IF_ERROR(failure_);
  if (epoch_ == nullptr) {
    return absl::FailedPreconditionError(
        "ToDevice::Next(): no epoch has begun; call StartEpoch()");
  }
  while (ahead_.empty() && !is_at_end_) {
    const absl::Status taken = TakeOne(deadline);
    if (!taken.ok()) return Fail(taken);
  }
  if (ahead_.empty()) {
    state_ = loader_->State();
    return std::nullopt;
  }
  const absl::Status made = MakeFirstReady(deadline);
  if (!made.ok()) return Fail(made);
  Ahead first = std::move(ahead_.front());
  ahead_.pop_front();
  state_ = std::move(first.state);
  const absl::Status prefetched = Prefetch();
  if (!prefetched.ok() && !IsShortage(prefetched)) failure_ = prefetched;
  if (!first.batch.ok()) return first.batch.status();
  return *std::move(first.batch);
}

// The data of the first batch are there for work that the user's stream gets.
absl::Status ToDevice::MakeFirstReady(Deadline deadline) {
  Ahead& first = ahead_.front();
  if (first.staged != nullptr) {
    if (!staging_->IsDone(*first.staged)) ++stats_.waits;
    TENON_ASSIGN_OR_RETURN(first.copied,
                           staging_->WaitFor(*first.staged, deadline));
    first.staged.reset();
  }
  if (first.copied == nullptr) return absl::OkStatus();  // An error.
  TENON_RETURN_IF_ERROR(copier_->MakeUserWait(first.copied));
  first.copied = nullptr;
  return absl::OkStatus();
}

// As far as that takes no wait. A failure is the next call's.
absl::Status ToDevice::Prefetch() {
  while (static_cast<int>(ahead_.size()) < options_.prefetch && !is_at_end_) {
    TENON_RETURN_IF_ERROR(TakeOne(Deadline::Passed()));
  }
  return absl::OkStatus();
}

absl::Status ToDevice::TakeOne(Deadline deadline) {
  if (pending_ == nullptr) {
    absl::StatusOr<std::optional<Batch>> batch = epoch_->Next(deadline);
    if (absl::IsDeadlineExceeded(batch.status())) return batch.status();
    if (batch.ok() && !batch->has_value()) {
      is_at_end_ = true;
      return absl::OkStatus();
    }
    Ahead received = {.state = loader_->State()};
    if (!batch.ok()) {
      received.batch = batch.status();
      ahead_.push_back(std::move(received));
      return absl::OkStatus();
    }
    received.batch = **std::move(batch);
    pending_ = std::make_unique<Ahead>(std::move(received));
  }
  return CopyPending(deadline);
}

absl::Status ToDevice::CopyPending(Deadline deadline) {
  TENON_RETURN_IF_ERROR(WaitForCopies(deadline));
  const Batch& batch = *pending_->batch;
  TENON_ASSIGN_OR_RETURN(const Tensor there,
                         NewBlock(batch.storage()->size_bytes(), deadline));
  TENON_RETURN_IF_ERROR(copier_->OrderBehindUser());
  TENON_RETURN_IF_ERROR(Copy(batch.storage(), there.storage(), *pending_));
  TENON_ASSIGN_OR_RETURN(pending_->batch, batch.Over(there.storage()));
  ahead_.push_back(std::move(*pending_));
  pending_.reset();
  ++stats_.batches;
  return absl::OkStatus();
}

absl::Status ToDevice::Copy(const std::shared_ptr<Storage>& from,
                            const std::shared_ptr<Storage>& to, Ahead& ahead) {
  TENON_ASSIGN_OR_RETURN(const std::byte* const block, from->Read());
  const absl::Status pinned =
      copier_->device().Run([&] { return PinPagesOf(block); });
  if (pinned.ok()) {
    TENON_ASSIGN_OR_RETURN(ahead.copied,
                           copier_->Copy({.from = from, .to = to}));
    return absl::OkStatus();
  }
  if (staging_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(staging_,
                           StagingThread::Start(*copier_, MostInFlight()));
  }
  ahead.staged = staging_->Add({.from = from, .to = to});
  if (stats_.staged++ == 0) stats_.not_pinned = pinned;
  return absl::OkStatus();
}

// Bounds the memory that copies hold if the device falls behind.
absl::Status ToDevice::WaitForCopies(Deadline deadline) {
  CopiesInFlight& in_flight = copier_->in_flight();
  if (in_flight.WaitForFewerThan(MostInFlight(), Deadline::Passed())) {
    return absl::OkStatus();
  }
  if (!deadline.has_passed()) ++stats_.waits;
  while (!in_flight.WaitForFewerThan(
      MostInFlight(),
      Earlier(deadline, Deadline::After(DeviceCopier::kCheckPeriod)))) {
    TENON_RETURN_IF_ERROR(copier_->CheckContext());
    if (deadline.has_passed()) return FallsBehind();
  }
  return absl::OkStatus();
}

// Copies in flight may have the pool's memory.
absl::StatusOr<Tensor> ToDevice::NewBlock(size_t bytes, Deadline deadline) {
  for (;;) {
    absl::StatusOr<Tensor> block = pool_->CreateTensor(
        kDtypeOf<uint8_t>, {static_cast<int64_t>(bytes)},
        Earlier(deadline, Deadline::After(DeviceCopier::kCheckPeriod)));
    if (!absl::IsDeadlineExceeded(block.status()) || deadline.has_passed()) {
      return block;
    }
    TENON_RETURN_IF_ERROR(copier_->CheckContext());
  }
}

absl::Status ToDevice::FallsBehind() const {
  return absl::DeadlineExceededError(absl::StrCat(
      "ToDevice::Next(): ", MostInFlight(),
      " copies wait for the device, prefetch and 2 more; the work of the "
      "user's stream before them has not ended"));
}

bool ToDevice::IsIdle() const {
  return copier_->in_flight().WaitForFewerThan(1, Deadline::Passed());
}

absl::StatusOr<LoaderState> ToDevice::State() {
  return state_ ? *state_ : loader_->State();
}

}  // namespace tenon::loader
