// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/timeline.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/devices.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/internal/retired_allocations.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/ledger/inbox_owner.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"

namespace tenon::cuda_ipc {
namespace {

constexpr int64_t kRowBytes = sizeof(Timeline);

// Whether `word`, which counts modulo 2^32, is before `value`.
bool IsBefore(uint32_t word, uint64_t value) {
  return static_cast<int32_t>(static_cast<uint32_t>(value) - word) > 0;
}

// The process that records the values of a received row.
absl::StatusOr<std::optional<absl::StatusOr<PidFd>>> RecorderOf(
    const Tensor& row) {
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, Offer(row));
  absl::StatusOr<PidFd> owner =
      OwnerOfInbox(offer.fds[ArenaOfferFacts::kInbox]);
  // Without it a stream could wait for a process that has ended.
  if (!owner.ok() && !absl::IsNotFound(owner.status())) return owner.status();
  return std::optional<absl::StatusOr<PidFd>>(std::move(owner));
}

}  // namespace

uint64_t Timeline::Reached() const {
  // In this order: a value is published before a stream can reach it.
  const uint32_t reached = StdAtomics::Load(word, std::memory_order_acquire);
  const uint64_t last = Published();
  return last - (static_cast<uint32_t>(last) - reached);
}

uint64_t Timeline::Published() const {
  return StdAtomics::Load(published, std::memory_order_acquire);
}

bool Timeline::IsPoisoned() const {
  return StdAtomics::Load(poison, std::memory_order_acquire) != 0;
}

Timeline::State Timeline::Of(uint64_t value) const {
  // In this order: `word` is raised by a CPU only once `poison` is set.
  uint64_t reached = Reached();
  const uint64_t set = StdAtomics::Load(poison, std::memory_order_acquire);
  if (set != 0) reached = set & ~kPoisoned;
  if (reached >= value) return State::kReached;
  return set != 0 ? State::kPoisoned : State::kPending;
}

void Timeline::Poison() {
  uint64_t none = 0;
  StdAtomics::CompareExchange(poison, none, kPoisoned | Reached(),
                              std::memory_order_seq_cst);
  TENON_CRASH_POINT("fence.poisoned");
  RaiseTo(Published());
}

void Timeline::RaiseTo(uint64_t value) {
  uint32_t seen = StdAtomics::Load(word, std::memory_order_acquire);
  while (IsBefore(seen, value) &&
         !StdAtomics::CompareExchange(word, seen, static_cast<uint32_t>(value),
                                      std::memory_order_acq_rel)) {
  }
}

absl::StatusOr<std::shared_ptr<TimelinePage>> TimelinePage::Of(
    const Tensor& tensor, std::optional<absl::StatusOr<PidFd>> recorder) {
  TENON_ASSIGN_OR_RETURN(std::byte* const base, tensor.storage()->Write());
  return std::shared_ptr<TimelinePage>(new TimelinePage(
      tensor, base, tensor.storage()->size_bytes(), std::move(recorder)));
}

TimelinePage::TimelinePage(Tensor memory, std::byte* base, size_t bytes,
                           std::optional<absl::StatusOr<PidFd>> recorder)
    : memory_(std::move(memory)),
      base_(base),
      bytes_(bytes),
      recorder_(std::move(recorder)),
      fork_count_(ForkCount()) {}

absl::Status TimelinePage::CheckProcess() const {
  return CheckNotForked(fork_count_, "a fence");
}

absl::StatusOr<CUdeviceptr> TimelinePage::AddressOn(const DeviceContext& device,
                                                    const Timeline& timeline) {
  const size_t offset = reinterpret_cast<const std::byte*>(&timeline) - base_;
  const ThreadLock lock(&mutex_);
  const auto found = addresses_.find(&device);
  if (found != addresses_.end()) return found->second + offset;
  const DriverTable& driver = device.driver();
  const int ordinal = device.device().ordinal;
  TENON_RETURN_IF_ERROR(
      CheckFeature(driver, ordinal, DriverFeature::kStreamMemoryOps));
  TENON_RETURN_IF_ERROR(
      CheckFeature(driver, ordinal, DriverFeature::kHostRegister));
  if (registered_ == nullptr) {
    TENON_RETURN_IF_ERROR(device.Run([&] {
      return device.Error(
          driver.cuMemHostRegister_v2(
              base_, bytes_,
              kCuMemHostRegisterPortable | kCuMemHostRegisterDeviceMap),
          "cuMemHostRegister");
    }));
    registered_ = &device;
  }
  CUdeviceptr address = 0;
  TENON_RETURN_IF_ERROR(device.Run([&] {
    return device.Error(driver.cuMemHostGetDevicePointer_v2(&address, base_, 0),
                        "cuMemHostGetDevicePointer");
  }));
  addresses_.emplace(&device, address);
  return address + offset;
}

absl::Status TimelinePage::NoteUse(const DeviceContext& device,
                                   CUstream stream) {
  const DriverTable& driver = device.driver();
  const ThreadLock lock(&mutex_);
  const auto note = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
    CUevent& event = uses_[{&device, stream}];
    if (event == nullptr) {
      TENON_RETURN_IF_ERROR(
          device.Error(driver.cuEventCreate(&event, kCuEventDisableTiming),
                       "cuEventCreate"));
    }
    return device.Error(driver.cuEventRecord(event, stream), "cuEventRecord");
  };
  absl::Status noted = note();
  if (!noted.ok()) has_unknown_use_ = true;
  return noted;
}

bool TimelinePage::IsUnused() {
  const ThreadLock lock(&mutex_);
  if (has_unknown_use_) return false;
  while (!uses_.empty()) {
    const CUevent event = uses_.begin()->second;
    const DeviceContext* const device = uses_.begin()->first.first;
    const DriverTable& driver = device->driver();
    bool is_used = false;
    // An error other than CUDA_ERROR_NOT_READY ends all work of the context.
    device
        ->Run([&] {
          is_used = MayBePending(driver.cuEventQuery(event));
          return is_used ? absl::OkStatus()
                         : device->Error(driver.cuEventDestroy_v2(event),
                                         "cuEventDestroy");
        })
        .IgnoreError();
    if (is_used) return false;
    uses_.erase(uses_.begin());
  }
  return true;
}

TimelinePage::~TimelinePage() {
  const ThreadLock lock(&mutex_);
  const DeviceContext* const device = registered_;
  if (device == nullptr || !CheckProcess().ok()) return;
  device
      ->Run([&] {
        return device->Error(device->driver().cuMemHostUnregister(base_),
                             "cuMemHostUnregister");
      })
      .IgnoreError();
}

TimelinePages& TimelinePages::OfProcess() {
  static constinit PerProcess<TimelinePages> of_process;
  return of_process.Get();
}

absl::Status TimelinePages::AddOwnPage() {
  if (arena_ == nullptr) {
    ArenaOptions options;
    options.name = "timelines";
    options.kind = SegmentKind::kSharedWritable;
    options.segment.strategy = SharingStrategy::kFileDescriptor;
    options.max_blocks = 8192;
    options.segment_bytes = TimelinePage::kTimelines * kRowBytes;
    options.wipe = true;
    TENON_ASSIGN_OR_RETURN(arena_, Arena::Create(options));
  }
  TENON_ASSIGN_OR_RETURN(
      const Tensor tensor,
      CreateTensor(*arena_, kDtypeOf<uint8_t>,
                   {TimelinePage::kTimelines, kRowBytes}, Deadline::Passed()));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<TimelinePage> page,
                         TimelinePage::Of(tensor, std::nullopt));
  auto* const first = reinterpret_cast<Timeline*>(page->base_);
  for (int64_t i = TimelinePage::kTimelines; i-- > 0;) {
    TENON_ASSIGN_OR_RETURN(Tensor row, tensor.Select(0, i));
    returned_.push_back(
        {.row = std::move(row), .page = page, .timeline = first + i});
  }
  pages_.emplace(page->base_, std::move(page));
  return absl::OkStatus();
}

absl::StatusOr<TimelineRef> TimelinePages::Take() {
  const ThreadLock lock(&mutex_);
  for (int pass = 0; pass < 2; ++pass) {
    // The last one is mostly free: those that are not stay in front.
    for (size_t i = returned_.size(); i-- > 0;) {
      const Timeline& timeline = *returned_[i].timeline;
      if (timeline.Reached() != timeline.Published()) continue;
      std::swap(returned_[i], returned_.back());
      TimelineRef taken = std::move(returned_.back());
      returned_.pop_back();
      return taken;
    }
    if (pass == 0) TENON_RETURN_IF_ERROR(AddOwnPage());
  }
  return absl::InternalError("a new page has no timeline");
}

void TimelinePages::Return(TimelineRef timeline) {
  if (timeline.timeline->IsPoisoned()) return;
  const ThreadLock lock(&mutex_);
  returned_.push_back(std::move(timeline));
}

absl::StatusOr<TimelineRef> TimelinePages::Find(const Tensor& row) {
  const Storage* const storage = row.storage().get();
  if (storage == nullptr || storage->lease() == nullptr ||
      !storage->is_on_cpu() || !storage->writable() ||
      row.spec().bytes() != kRowBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", row.spec().ToString(), " is not a timeline: want a row of ",
        kRowBytes,
        " bytes in a writable arena of the CPU, as Fence::timeline()"));
  }
  TENON_ASSIGN_OR_RETURN(std::byte* const base, storage->Write());
  TENON_ASSIGN_OR_RETURN(const absl::Span<std::byte> bytes,
                         row.data<std::byte>());
  if ((bytes.data() - base) % kRowBytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a timeline at offset ", bytes.data() - base,
                     " of its memory; want a multiple of ", kRowBytes));
  }
  const ThreadLock lock(&mutex_);
  auto found = pages_.find(base);
  if (found == pages_.end()) {
    DropEnded();
    TENON_ASSIGN_OR_RETURN(auto recorder, RecorderOf(row));
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<TimelinePage> page,
                           TimelinePage::Of(row, std::move(recorder)));
    found = pages_.emplace(base, std::move(page)).first;
  }
  return TimelineRef{.row = row,
                     .page = found->second,
                     .timeline = reinterpret_cast<Timeline*>(bytes.data())};
}

void TimelinePages::DropEnded() {
  for (auto at = pages_.begin(); at != pages_.end();) {
    const std::shared_ptr<TimelinePage>& page = at->second;
    // Under the lock no other reference is made.
    if (page.use_count() > 1 || !page->RecorderHasEnded() ||
        !page->IsUnused()) {
      ++at;
      continue;
    }
    auto place = RetiredAllocations::OfProcess().Reserve();
    if (!place.ok()) return;  // Later.
    (*place)->registered = page;
    at = pages_.erase(at);
    RetiredAllocations::OfProcess().Add(*std::move(place));
  }
}

size_t TimelinePages::CountPages() {
  const ThreadLock lock(&mutex_);
  DropEnded();
  return pages_.size();
}

}  // namespace tenon::cuda_ipc
