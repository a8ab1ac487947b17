// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/stream_future.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/internal/stream_event.h"

namespace tenon::cuda_ipc::internal_stream_future {
namespace {

constexpr absl::Duration kShortestNap = absl::Microseconds(20);
constexpr absl::Duration kLongestNap = absl::Milliseconds(1);

absl::StatusOr<const DeviceContext*> ContextOf(int ordinal) {
  TENON_ASSIGN_OR_RETURN(DeviceContexts * devices, DeviceContexts::OfProcess());
  return devices->Get(ordinal);
}

std::string NamesOf(const Devices& devices) {
  return absl::StrCat("cuda:", absl::StrJoin(devices, ", cuda:"));
}

absl::Status WaitForEvent(const StreamEvent& event, Deadline deadline) {
  for (absl::Duration nap = kShortestNap;;
       nap = std::min(2 * nap, kLongestNap)) {
    const absl::Status status = event.Check();
    if (!absl::IsUnavailable(status)) return status;
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "WaitOnHost(): a stream of device ", event.device().device().ordinal,
          " has not come to the end of the value's work"));
    }
    absl::SleepFor(std::min(nap, deadline.Remaining()));
  }
}

}  // namespace

absl::StatusOr<Devices> DevicesOf(const std::vector<DLDevice>& devices) {
  Devices ordinals;
  for (const DLDevice& device : devices) {
    if (device.device_type != kDLCUDA) {
      return absl::InvalidArgumentError(absl::StrCat(
          "StreamFutureOptions::devices has a device of type ",
          static_cast<int>(device.device_type),
          "; want devices of CUDA (kDLCUDA): tensors of others need no "
          "stream"));
    }
    TENON_RETURN_IF_ERROR(ContextOf(device.device_id).status());
    ordinals.insert(device.device_id);
  }
  return ordinals;
}

std::vector<std::shared_ptr<const Storage>> DeviceStoragesOf(
    const std::vector<Tensor>& tensors) {
  std::vector<std::shared_ptr<const Storage>> storages;
  for (const Tensor& tensor : tensors) {
    if (tensor.device().device_type == kDLCUDA) {
      storages.push_back(tensor.storage());
    }
  }
  return storages;
}

absl::StatusOr<ValueOrder> ValueOrder::Record(
    const std::vector<Tensor>& tensors, const Devices& allowed,
    const std::vector<Fence>& fences) {
  ValueOrder order;
  Devices devices;
  for (const Tensor& tensor : tensors) {
    if (tensor.device().device_type != kDLCUDA) continue;
    devices.insert(tensor.device().device_id);
  }
  order.storages_ = DeviceStoragesOf(tensors);
  for (const Fence& fence : fences) {
    if (!fence.IsReached()) order.fences_.push_back(fence);
  }
  for (const int ordinal : devices) {
    if (!allowed.empty() && !allowed.contains(ordinal)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a tensor of the value is on cuda:", ordinal, "; the future is of ",
          NamesOf(allowed),
          ": add the device to StreamFutureOptions::devices, or leave them "
          "empty"));
    }
    TENON_ASSIGN_OR_RETURN(const DeviceContext* device, ContextOf(ordinal));
    TENON_ASSIGN_OR_RETURN(const CUstream stream, CurrentStream(*device));
    for (const Fence& fence : order.fences_) {
      TENON_RETURN_IF_ERROR(fence.WaitOn(*device, stream));
    }
    TENON_ASSIGN_OR_RETURN(
        auto event,
        StreamEvent::Record(*device, stream, "StreamPromise::SetValue()"));
    order.events_.push_back(std::move(event));
  }
  return order;
}

absl::Status ValueOrder::WaitOnCurrent() const {
  for (const Fence& fence : fences_) {
    const absl::Status status = fence.Check();
    if (!absl::IsUnavailable(status)) TENON_RETURN_IF_ERROR(status);
  }
  // First all streams, so that none waits if another one is missing.
  std::vector<CUstream> streams;
  for (const auto& event : events_) {
    TENON_ASSIGN_OR_RETURN(streams.emplace_back(),
                           CurrentStream(event->device()));
  }
  for (size_t i = 0; i < events_.size(); ++i) {
    TENON_RETURN_IF_ERROR(events_[i]->WaitOn(events_[i]->device(), streams[i]));
  }
  return absl::OkStatus();
}

absl::Status ValueOrder::WaitOnHost(Deadline deadline) const {
  for (const auto& event : events_) {
    TENON_RETURN_IF_ERROR(WaitForEvent(*event, deadline));
  }
  for (const Fence& fence : fences_) {
    TENON_RETURN_IF_ERROR(fence.Wait(deadline));
  }
  return absl::OkStatus();
}

Devices ValueOrder::devices() const {
  Devices devices;
  for (const auto& event : events_) {
    devices.insert(event->device().device().ordinal);
  }
  return devices;
}

CallbackStreams::CallbackStreams() : uses_(std::make_unique<StreamUses>()) {}

CallbackStreams::~CallbackStreams() {
  Retain().IgnoreError();
  while (!scopes_.empty()) scopes_.pop_back();
}

absl::Status CallbackStreams::Enter(const Devices& devices) {
  for (const int ordinal : devices) {
    TENON_ASSIGN_OR_RETURN(const DeviceContext* device, ContextOf(ordinal));
    TENON_ASSIGN_OR_RETURN(const CUstream stream, NextPoolStream(*device));
    scopes_.push_back(std::make_unique<StreamScope>(*device, stream));
  }
  return absl::OkStatus();
}

void CallbackStreams::Keep(
    std::vector<std::shared_ptr<const Storage>> storages) {
  storages_.insert(storages_.end(), std::make_move_iterator(storages.begin()),
                   std::make_move_iterator(storages.end()));
}

absl::Status CallbackStreams::Retain() {
  return uses_->Retain(std::exchange(storages_, {}));
}

}  // namespace tenon::cuda_ipc::internal_stream_future
