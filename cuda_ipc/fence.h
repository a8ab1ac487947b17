// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fence: a point in the work of a stream, for streams and CPUs of any process.
// StreamTimeline: what records fences of one stream.
//
//   // The sender: kernels on `stream` fill `tensor`; then, without waiting,
//   TENON_ASSIGN_OR_RETURN(auto fences, StreamTimeline::Create(*gpu, stream));
//   TENON_ASSIGN_OR_RETURN(Fence filled, fences->Record());
//   // The fence goes along with the tensor: fenced_tensor.h.
//
//   // The receiver: work on its stream `theirs` sees the contents from here on.
//   TENON_RETURN_IF_ERROR(filled.WaitOn(*gpu, theirs));
//   // Kernels on `theirs` read `tensor`; then, before it drops the tensor,
//   TENON_RETURN_IF_ERROR(timeline->RecordUse(tensor));
//
// A fence is a value of a counter in memory that all processes map. If the
// recording process dies before its stream has reached the value, no stream
// waits for ever: each process that awaits it raises the counter and fails that
// value, and the values after it, with kDataLoss. Values that were reached stay
// good.
//
// A stream under capture by a CUDA graph is refused: each launch of the graph
// would write or await the same value again. Call between launches.

#ifndef TENON_CUDA_IPC_FENCE_H_
#define TENON_CUDA_IPC_FENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

struct TimelineRef;

// How a counter advances.
enum class FenceBackend {
  kWords,   // The stream writes the value. The default where it can.
  kEvents,  // The stream records an event, and a thread of the recording
            // process stores the value once the event has fired.
  kHost,    // Record() waits for the stream.
};
absl::string_view FenceBackendName(FenceBackend backend);

// A value: copies are the same point.
//
// Ownership: keeps the memory of the counter, not the stream.
// Threads: thread-compatible; const calls may run concurrently.
// Processes: in a forked child calls fail with kFailedPrecondition, and
//   IsReached() is false.
// Trust: for groups that trust each other: a process that has a fence can write
//   its counter, so that streams wait too short, or until it ends.
// Failure: a failed call has no effect, with one exception: after an error of
//   the driver in WaitOn() the stream may wait all the same.
// Memory order: after WaitOn(), work of that stream, and after IsReached() or
//   Wait() this thread, sees all that the recording stream wrote before.
class Fence {
 public:
  // Reached.
  Fence() = default;

  // Never blocks, and makes neither a driver call nor a system call.
  bool IsReached() const;

  // OK if it is reached. Does not block. Errors: kUnavailable if it is not
  // reached yet; kDataLoss if it never will be: the recording process has
  // ended, or its StreamTimeline was abandoned. The contents of a tensor that
  // it guards are undefined then, also in work of streams that have waited.
  absl::Status Check() const;

  // Blocks until it is reached or never will be. Errors: kDeadlineExceeded;
  // Check()'s kDataLoss.
  absl::Status Wait(Deadline deadline) const;

  // Work that is enqueued to `stream` from now on begins once the fence is
  // reached, or never will be: call Check() once that work has ended. `stream`
  // is of the primary context of `device`. A fence that is reached costs no
  // driver call. Blocks, as Wait(), only if the device cannot wait for memory
  // of the CPU.
  // Errors: Check()'s kDataLoss, if it is known already; kFailedPrecondition if
  // the stream is under capture by a graph; those of CudaError.
  absl::Status WaitOn(const DeviceContext& device, CUstream stream) const;

  // To send: a tensor of the CPU, and a number. Empty and 0 if the fence needs
  // no counter.
  Tensor timeline() const;
  int64_t value() const { return static_cast<int64_t>(value_); }
  // Of what was received; a value of 0 is reached.
  // Errors: kInvalidArgument if it is no timeline, or a value that was never
  // recorded; kUnimplemented or kResourceExhausted if the recording process
  // cannot be watched.
  static absl::StatusOr<Fence> FromParts(const Tensor& timeline, int64_t value);

 private:
  friend class StreamTimeline;
  Fence(std::shared_ptr<const TimelineRef> at, uint64_t value)
      : at_(std::move(at)), value_(value) {}

  absl::Status CheckNow(bool asks_for_recorder) const;
  absl::Status Lost() const;
  absl::Status EnqueueWait(const DeviceContext& device, CUstream stream,
                           CUdeviceptr word) const;

  std::shared_ptr<const TimelineRef> at_;
  uint64_t value_ = 0;
};

// Keeps the memory of `tensor` from being reused until `fence` is reached,
// though all tensors are dropped meanwhile. A tensor of a pool is released by a
// thread of its own then; dropping it makes no driver call. Never blocks.
// Errors: kFailedPrecondition in a forked child; kResourceExhausted.
absl::Status RetainUntil(const Fence& fence, const Tensor& tensor);

struct StreamTimelineOptions {
  // Unset: the first of kWords, kEvents that device and driver can do.
  std::optional<FenceBackend> backend;
};

// Ownership: of the stream's owner; it refers to the stream, and does not own
//   it. Destroy it before the stream; fences stay valid.
// Threads: thread-safe.
// Processes: of the process that created it. In a forked child calls fail with
//   kFailedPrecondition.
// Death: see above.
// Failure: a failed Record() has recorded nothing.
class StreamTimeline {
 public:
  // `stream` is of the primary context of `device`, as those of cudart and of
  // PyTorch. Registers 64 KiB of memory with the driver, once in a process.
  // Errors: kUnimplemented or kFailedPrecondition if `options.backend` is set
  // and not supported; those of CudaError; kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<StreamTimeline>> Create(
      const DeviceContext& device, CUstream stream,
      const StreamTimelineOptions& options = {});
  ~StreamTimeline();
  StreamTimeline(const StreamTimeline&) = delete;
  StreamTimeline& operator=(const StreamTimeline&) = delete;

  FenceBackend backend() const { return backend_; }

  // The work that has been enqueued to the stream until now. Two driver calls,
  // one of which asks whether the stream is captured, between those that make
  // the context current; one fence serves any number of tensors. Blocks only
  // with kHost. Errors: those of CudaError; kFailedPrecondition if the stream
  // is under capture by a graph, or the timeline was abandoned.
  absl::StatusOr<Fence> Record();

  // Record() and RetainUntil(): call it after the last work that uses a tensor
  // has been enqueued, on each stream that uses it, and then drop the tensor.
  absl::Status RecordUse(const Tensor& tensor);

  // Fails all fences that are not reached: for a stream whose context has
  // failed, or that is destroyed with work that will not end. Permanent.
  void Abandon();

 private:
  StreamTimeline(const DeviceContext& device, CUstream stream,
                 std::shared_ptr<const TimelineRef> at);
  absl::Status Start(const StreamTimelineOptions& options);
  uint64_t PublishNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteWord() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RecordEvent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DeviceContext& device_;
  const CUstream stream_;
  const std::shared_ptr<const TimelineRef> at_;
  FenceBackend backend_ = FenceBackend::kHost;
  CUdeviceptr word_ = 0;  // With kWords.
  // Values are recorded in the order of the stream's work.
  ThreadMutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_FENCE_H_
