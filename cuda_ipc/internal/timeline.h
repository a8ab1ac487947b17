// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Timeline: a counter of one stream, in memory that processes share.
// TimelinePage: memory with timelines, as one process maps it. Internal to
// fences (fence.h), which docs/cuda_ipc.md explains.
//
// A timeline is a row of a tensor in an arena of the process that records, so
// every carrier of tensors carries it: the descriptor once, then a reference.

#ifndef TENON_CUDA_IPC_INTERNAL_TIMELINE_H_
#define TENON_CUDA_IPC_INTERNAL_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

// A row of the tensor; zeros are a timeline that was never used. `word` is the
// last value that the stream has reached, modulo 2^32, since a device writes
// and awaits 32 bits. `published` is at least every value that was recorded.
// `poison` is 0, or kPoisoned and the last value that was reached.
//
// Writers: the recording process and its streams; after its end every process
// that awaits a value, which only raises `word` and sets `poison` once.
struct Timeline {
  static constexpr uint64_t kPoisoned = uint64_t{1} << 63;

  alignas(64) SharedWord<uint32_t> word;
  alignas(64) SharedWord<uint64_t> published;
  SharedWord<uint64_t> poison;

  enum class State { kPending, kReached, kPoisoned };
  State Of(uint64_t value) const;
  // The last value that was reached: `word` with its upper half.
  uint64_t Reached() const;
  uint64_t Published() const;
  bool IsPoisoned() const;
  // Fails all values that are not reached, and lets the streams that await them
  // run on. Once; after that it only does the latter. Wait-free but for races
  // with other calls.
  void Poison();
  // The CPU's way to reach a value.
  void RaiseTo(uint64_t value);
};
static_assert(sizeof(Timeline) == 128);

// Ownership: held by shared_ptr; keeps the memory mapped, and registered with
//   the driver once a stream needs it.
// Threads: thread-safe.
// Processes: in a forked child it must not be used (CheckProcess()).
class TimelinePage {
 public:
  static constexpr int64_t kTimelines = 512;

  // All timelines in the storage of `tensor`. `recorder` is kNotFound if the
  // recording process has ended, and null if it is this one.
  static absl::StatusOr<std::shared_ptr<TimelinePage>> Of(
      const Tensor& tensor, std::optional<absl::StatusOr<PidFd>> recorder);
  // Unregisters the memory: may wait for the driver.
  ~TimelinePage();
  TimelinePage(const TimelinePage&) = delete;
  TimelinePage& operator=(const TimelinePage&) = delete;

  absl::Status CheckProcess() const;

  // Whether the recording process has ended. A system call.
  bool RecorderHasEnded() const {
    return recorder_.has_value() &&
           (!recorder_->ok() || (*recorder_)->HasEnded());
  }

  // Where streams of `device` write and await the timeline's word. Registers
  // the memory, once. Errors: CheckFeature()'s, for kStreamMemoryOps and
  // kHostRegister; those of CudaError.
  absl::StatusOr<CUdeviceptr> AddressOn(const DeviceContext& device,
                                        const Timeline& timeline);

  // With the context current. The memory stays registered until `stream` has
  // reached this place of its work, and after an error for good. Errors: those
  // of CudaError.
  absl::Status NoteUse(const DeviceContext& device, CUstream stream);

  // Whether no stream uses the memory any more. Does not block in the driver.
  bool IsUnused();

 private:
  friend class TimelinePages;
  TimelinePage(Tensor memory, std::byte* base, size_t bytes,
               std::optional<absl::StatusOr<PidFd>> recorder);

  // The default stream of each device has the same handle.
  using Stream = std::pair<const DeviceContext*, CUstream>;

  const Tensor memory_;
  std::byte* const base_;
  const size_t bytes_;
  const std::optional<absl::StatusOr<PidFd>> recorder_;
  const uint64_t fork_count_;
  ThreadMutex mutex_;
  // The one that registered the memory.
  const DeviceContext* registered_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::map<const DeviceContext*, CUdeviceptr> addresses_
      ABSL_GUARDED_BY(mutex_);
  std::map<Stream, CUevent> uses_ ABSL_GUARDED_BY(mutex_);  // The last of each.
  bool has_unknown_use_ ABSL_GUARDED_BY(mutex_) = false;
};

// A timeline and what keeps it.
struct TimelineRef {
  Tensor row;
  std::shared_ptr<TimelinePage> page;
  Timeline* timeline = nullptr;
};

// The pages of this process: its own, and those that it has received from
// processes that live or whose values streams may still await.
class TimelinePages {
 public:
  static TimelinePages& OfProcess();

  // A timeline of this process that no stream uses, with all values reached.
  // Errors: those of Arena::Create() and CreateTensor().
  absl::StatusOr<TimelineRef> Take();
  // Of Take(). It is used again once all of its values are reached, and never
  // if it is poisoned.
  void Return(TimelineRef timeline);

  // Of a row that was received. Errors: kInvalidArgument if it is none.
  absl::StatusOr<TimelineRef> Find(const Tensor& row);

  // For tests: the pages, after those that are no longer needed were dropped.
  size_t CountPages();

 private:
  absl::Status AddOwnPage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // RetiredAllocations' thread unregisters the pages.
  void DropEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ThreadMutex mutex_;
  std::shared_ptr<Arena> arena_ ABSL_GUARDED_BY(mutex_);
  std::vector<TimelineRef> returned_ ABSL_GUARDED_BY(mutex_);
  // By the address of their first byte.
  std::map<const std::byte*, std::shared_ptr<TimelinePage>> pages_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_TIMELINE_H_
