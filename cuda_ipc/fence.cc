// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fence.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/internal/event_pool.h"
#include "tenon/cuda_ipc/internal/poll_thread.h"
#include "tenon/cuda_ipc/internal/timeline.h"
#include "tenon/cuda_ipc/internal/trace_range.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon::cuda_ipc {
namespace {

constexpr char kRecord[] = "StreamTimeline::Record()";

constexpr absl::Duration kShortestNap = absl::Microseconds(20);
constexpr absl::Duration kLongestNap = absl::Milliseconds(1);

// For how long after its process has ended a device may still write a counter,
// and so make it smaller than a survivor has set it.
constexpr absl::Duration kLateWrites = absl::Seconds(1);

// Whether device or driver cannot use words, for an error of AddressOn().
bool MeansUnsupported(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status) ||
         absl::IsPermissionDenied(status) || absl::IsAlreadyExists(status) ||
         absl::IsInvalidArgument(status);
}

// While a stream awaits `value`: lets it run on if the recorder ends. True once
// the stream needs no help any more.
class Watch {
 public:
  Watch(TimelineRef at, uint64_t value) : at_(std::move(at)), value_(value) {}

  bool operator()() {
    Timeline& timeline = *at_.timeline;
    if (timeline.Of(value_) == Timeline::State::kReached) return true;
    if (!timeline.IsPoisoned() && !at_.page->RecorderHasEnded()) return false;
    // In this order: all late writes precede the last Poison().
    if (!until_.has_value()) until_ = Deadline::After(kLateWrites);
    const bool is_last = until_->has_passed();
    timeline.Poison();
    return is_last;
  }

 private:
  const TimelineRef at_;
  const uint64_t value_;
  std::optional<Deadline> until_;  // Once this process has seen the end.
};

}  // namespace

absl::string_view FenceBackendName(FenceBackend backend) {
  switch (backend) {
    case FenceBackend::kWords:
      return "words";
    case FenceBackend::kEvents:
      return "events";
    case FenceBackend::kHost:
      return "host";
  }
  return "unknown";
}

// ---- Fence ----

absl::StatusOr<Fence> Fence::FromParts(const Tensor& timeline, int64_t value) {
  if (value == 0) return Fence();
  TENON_ASSIGN_OR_RETURN(TimelineRef at,
                         TimelinePages::OfProcess().Find(timeline));
  const uint64_t published = at.timeline->Published();
  if (value < 0 || static_cast<uint64_t>(value) > published) {
    return absl::InvalidArgumentError(absl::StrCat("fence of value ", value,
                                                   " of a timeline that has "
                                                   "recorded 1 to ",
                                                   published));
  }
  return Fence(std::make_shared<const TimelineRef>(std::move(at)),
               static_cast<uint64_t>(value));
}

bool Fence::IsReached() const {
  return at_ == nullptr ||
         (at_->page->CheckProcess().ok() &&
          at_->timeline->Of(value_) == Timeline::State::kReached);
}

Tensor Fence::timeline() const { return at_ == nullptr ? Tensor() : at_->row; }

absl::Status Fence::Lost() const {
  return absl::DataLossError(absl::StrCat(
      "fence of value ", value_,
      ": the recording process has ended, or has abandoned the timeline, "
      "before its stream reached it; the contents of tensors that it guards "
      "are undefined"));
}

absl::Status Fence::CheckNow(bool asks_for_recorder) const {
  if (at_ == nullptr) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(at_->page->CheckProcess());
  Timeline::State state = at_->timeline->Of(value_);
  if (state == Timeline::State::kPending && asks_for_recorder &&
      at_->page->RecorderHasEnded()) {
    at_->timeline->Poison();
    state = at_->timeline->Of(value_);
  }
  switch (state) {
    case Timeline::State::kReached:
      return absl::OkStatus();
    case Timeline::State::kPoisoned:
      return Lost();
    case Timeline::State::kPending:
      break;
  }
  return absl::UnavailableError(absl::StrCat("fence of value ", value_,
                                             " is not reached yet; the stream "
                                             "has reached ",
                                             at_->timeline->Reached()));
}

absl::Status Fence::Check() const { return CheckNow(true); }

absl::Status Fence::Wait(Deadline deadline) const {
  absl::Status now = CheckNow(false);
  if (!absl::IsUnavailable(now)) return now;
  const TraceRange range("Fence::Wait");
  absl::Duration nap = kShortestNap;
  for (;; nap = std::min(2 * nap, kLongestNap)) {
    absl::Status status = CheckNow(nap == kLongestNap);
    if (!absl::IsUnavailable(status)) return status;
    if (deadline.has_passed()) {
      status = CheckNow(true);
      if (!absl::IsUnavailable(status)) return status;
      return absl::DeadlineExceededError(status.message());
    }
    absl::SleepFor(std::min(nap, deadline.Remaining()));
  }
}

absl::Status Fence::WaitOn(const DeviceContext& device, CUstream stream) const {
  absl::Status status = CheckNow(false);
  if (!absl::IsUnavailable(status)) return status;
  status = CheckNow(true);
  if (!absl::IsUnavailable(status)) return status;
  const absl::StatusOr<CUdeviceptr> word =
      at_->page->AddressOn(device, *at_->timeline);
  if (word.ok()) return EnqueueWait(device, stream, *word);
  return MeansUnsupported(word.status()) ? Wait(Deadline::Never())
                                         : word.status();
}

absl::Status Fence::EnqueueWait(const DeviceContext& device, CUstream stream,
                                CUdeviceptr word) const {
  // First the watch: from the call on, the stream may depend on it.
  TENON_RETURN_IF_ERROR(PollThread::OfProcess().Add(Watch(*at_, value_)));
  TENON_CRASH_POINT("fence.watched");
  absl::Status result = device.Run([&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(device.CheckNotCaptured(stream, "Fence::WaitOn()"));
    TENON_RETURN_IF_ERROR(device.Error(
        device.driver().cuStreamWaitValue32_v2(
            stream, word, static_cast<uint32_t>(value_), kCuStreamWaitValueGeq),
        "cuStreamWaitValue32"));
    return at_->page->NoteUse(device, stream);
  });
  TENON_CRASH_POINT("fence.awaited");
  return result;
}

absl::Status RetainUntil(const Fence& fence, const Tensor& tensor) {
  if (fence.IsReached() || tensor.storage() == nullptr) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(tensor.storage()->CheckUsable());
  return PollThread::OfProcess().Add([fence, storage = tensor.storage()] {
    return !absl::IsUnavailable(fence.Check());
  });
}

// ---- StreamTimeline ----

StreamTimeline::StreamTimeline(const DeviceContext& device, CUstream stream,
                               std::shared_ptr<const TimelineRef> at)
    : device_(device),
      stream_(stream),
      at_(std::move(at)),
      last_(at_->timeline->Published()) {}

StreamTimeline::~StreamTimeline() {
  if (at_->page->CheckProcess().ok()) TimelinePages::OfProcess().Return(*at_);
}

absl::StatusOr<std::unique_ptr<StreamTimeline>> StreamTimeline::Create(
    const DeviceContext& device, CUstream stream,
    const StreamTimelineOptions& options) {
  TENON_RETURN_IF_ERROR(device.CheckProcess());
  TENON_ASSIGN_OR_RETURN(TimelineRef at, TimelinePages::OfProcess().Take());
  std::unique_ptr<StreamTimeline> made(new StreamTimeline(
      device, stream, std::make_shared<const TimelineRef>(std::move(at))));
  TENON_RETURN_IF_ERROR(made->Start(options));
  return made;
}

absl::Status StreamTimeline::Start(const StreamTimelineOptions& options) {
  backend_ = options.backend.value_or(FenceBackend::kWords);
  if (backend_ == FenceBackend::kWords) {
    const absl::StatusOr<CUdeviceptr> word =
        at_->page->AddressOn(device_, *at_->timeline);
    if (word.ok()) {
      word_ = *word;
      return absl::OkStatus();
    }
    if (options.backend.has_value() || !MeansUnsupported(word.status())) {
      return word.status();
    }
    backend_ = FenceBackend::kEvents;
  }
  return absl::OkStatus();
}

absl::StatusOr<Fence> StreamTimeline::Record() {
  TENON_RETURN_IF_ERROR(at_->page->CheckProcess());
  if (backend_ == FenceBackend::kHost) {
    const TraceRange range("StreamTimeline::Record");
    const absl::Status waited = device_.Run([this]() -> absl::Status {
      TENON_RETURN_IF_ERROR(device_.CheckNotCaptured(stream_, kRecord));
      return device_.Error(device_.driver().cuStreamSynchronize(stream_),
                           "cuStreamSynchronize");
    });
    TENON_RETURN_IF_ERROR(waited);
    return Fence();
  }
  const ThreadLock lock(&mutex_);
  if (at_->timeline->IsPoisoned()) {
    return absl::FailedPreconditionError(
        "Record(): the timeline was abandoned; create another one");
  }
  TENON_RETURN_IF_ERROR(backend_ == FenceBackend::kWords ? WriteWord()
                                                         : RecordEvent());
  TENON_CRASH_POINT("fence.recorded");
  return Fence(at_, last_);
}

uint64_t StreamTimeline::PublishNext() {
  // Also after a failure: the stream may reach the value all the same.
  ++last_;
  // Before the stream can reach it (Timeline::Reached()).
  StdAtomics::Store(at_->timeline->published, last_, std::memory_order_release);
  TENON_CRASH_POINT("fence.published");
  return last_;
}

absl::Status StreamTimeline::WriteWord() {
  // The lock is the caller's.
  return device_.Run([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
    TENON_RETURN_IF_ERROR(device_.CheckNotCaptured(stream_, kRecord));
    return device_.Error(
        device_.driver().cuStreamWriteValue32_v2(
            stream_, word_, static_cast<uint32_t>(PublishNext()),
            kCuStreamWriteValueDefault),
        "cuStreamWriteValue32");
  });
}

absl::Status StreamTimeline::RecordEvent() {
  EventPool& events = EventPool::Of(device_);
  TENON_ASSIGN_OR_RETURN(const CUevent event, events.Record(stream_, kRecord));
  const uint64_t value = PublishNext();
  absl::Status added = PollThread::OfProcess().Add(
      [at = at_, events = &events, driver = &device_.driver(), event, value] {
        const CUresult result = driver->cuEventQuery(event);
        if (MayBePending(result)) return false;
        if (result == CUDA_SUCCESS) {
          at->timeline->RaiseTo(value);
        } else {
          at->timeline->Poison();  // The context has failed.
        }
        events->Return(event);
        return true;
      });
  if (!added.ok()) events.Return(event);
  return added;
}

absl::Status StreamTimeline::RecordUse(const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const Fence fence, Record());
  return RetainUntil(fence, tensor);
}

void StreamTimeline::Abandon() {
  if (at_->page->CheckProcess().ok()) at_->timeline->Poison();
}

}  // namespace tenon::cuda_ipc
