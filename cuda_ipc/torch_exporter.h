// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TorchExporter: a tensor in memory of cuMemAlloc becomes a CUDA tensor of a
// torch process, without a copy.
//
//   TENON_ASSIGN_OR_RETURN(auto exporter, TorchExporter::Create());
//   // Once the work that fills `tensor` has ended:
//   TENON_ASSIGN_OR_RETURN(const TorchTensor message, exporter->Export(tensor));
//   // Send the message. Now and then, drop tensors that torch has released:
//   TENON_RETURN_IF_ERROR(exporter->Reap().status());
//
// docs/cuda_ipc.md shows the receiver's side.
//
// Only memory of cuMemAlloc or cudaMalloc has the legacy handle that torch
// opens: tensors that another library lends by DLPack, and those received from
// such a process, torch's included. Memory of a DevicePool, so of To() and
// Clone(), has none.

#ifndef TENON_CUDA_IPC_TORCH_EXPORTER_H_
#define TENON_CUDA_IPC_TORCH_EXPORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/torch_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

class TorchCounterFile;

// What this process has sent to one torch process.
// Ownership: keeps each exported tensor until torch has released it, which
//   Reap() finds: no thread does. The destructor drops those that torch still
//   has, which CUDA does not allow: Close() before it. It removes the files of
//   counters.
// Order: by the host. The caller has synchronized the streams that write the
//   tensor before it sends the message, which has no event
//   (event_sync_required is false). torch synchronizes its current stream
//   before it releases a tensor; streams beside it are its user's.
// Threads: thread-safe. Tensors are dropped without a lock held.
// Processes: of the process that made it. In a forked child calls fail with
//   kFailedPrecondition, and the destructor leaves the files.
// Trust: the receiver can write the whole allocation, and release a tensor
//   early, also while it uses it. It can truncate the file of counters: then
//   Reap() fails, and the tensors stay.
// Death: torch that is killed releases nothing. With `receiver`, Reap() drops
//   all its tensors, from 100 ms after the first call that finds its end on:
//   its kernels may write until then. Without, they stay until Close(). If this
//   process ends first, CUDA does not document what torch's memory is; the names
//   of its files are reclaimed as those of segments.
// Failure: a failed call has no effect.
class TorchExporter {
 public:
  struct Options {
    // The torch process, if it is known.
    std::optional<PidFd> receiver;
  };

  // Makes a file of counters in /dev/shm, 80 KB. Errors: those of
  // Segment::CreateSharedWritable() with SharingStrategy::kFileSystem.
  static absl::StatusOr<std::unique_ptr<TorchExporter>> Create(Options options);
  static absl::StatusOr<std::unique_ptr<TorchExporter>> Create() {
    return Create(Options());
  }
  ~TorchExporter() = default;
  TorchExporter(const TorchExporter&) = delete;
  TorchExporter& operator=(const TorchExporter&) = delete;

  // A message for the torch process, which receives it once. It keeps nothing
  // alive, this object does. `storage_device` is an ordinal of this process; a
  // receiver that sees other devices finds its own by `device_uuid`. Makes
  // driver calls the first time for each storage. Each 10,000 messages a new
  // file, as in Create().
  // Errors: kInvalidArgument if the tensor is not on a CUDA device, is empty,
  // has a negative stride or a dtype with lanes, or its memory has no legacy
  // handle; kUnavailable if the receiver has ended; kFailedPrecondition after
  // Close(); Create()'s; those of CudaError.
  absl::StatusOr<TorchTensor> Export(const Tensor& tensor);

  // Drops the tensor of a message that was not sent, or whose receiver does not
  // take it: the message is refused from now on. Errors: kNotFound if it is not
  // of this object, or was released and reaped; pwrite()'s.
  absl::Status Cancel(const TorchTensor& message);

  // Drops tensors that torch has released, or all if the receiver has ended;
  // returns how many. One system call for each tensor. Does not block, but for
  // the destruction of tensors.
  // Errors: kDataLoss if a file was truncated, after all others were examined.
  absl::StatusOr<size_t> Reap();

  // Of exported tensors that Reap() has not dropped.
  size_t unreleased() const;

  // Waits until all tensors are released, and at the deadline drops the others:
  // a receiver that still uses one then accesses memory that may be free.
  // Export() fails from now on.
  // Errors: kDeadlineExceeded, saying how many tensors were not released.
  absl::Status Close(Deadline deadline);

 private:
  struct Sent {
    Tensor tensor;
    std::shared_ptr<TorchCounterFile> file;
    int64_t counter = 0;
  };

  TorchExporter(Options options, std::shared_ptr<TorchCounterFile> file)
      : options_(std::move(options)), file_(std::move(file)) {}

  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<int64_t> AddCounter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasReceiverEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AwaitReleases(Deadline deadline);

  const Options options_;
  const uint64_t fork_count_ = ForkCount();
  mutable ThreadMutex mutex_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  // When tensors of a receiver that has ended may be dropped.
  std::optional<Deadline> quarantine_ ABSL_GUARDED_BY(mutex_);
  // Of the next messages. Removed with the last message of it.
  std::shared_ptr<TorchCounterFile> file_ ABSL_GUARDED_BY(mutex_);
  std::vector<Sent> sent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_TORCH_EXPORTER_H_
