// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ToDevice: the batches of a loader in the memory of a GPU, copied ahead of
// their use.
//
//   absl::Status TrainOnGpu(std::unique_ptr<Loader> loader, CUstream stream) {
//     TENON_ASSIGN_OR_RETURN(auto batches,
//                            ToDevice::Create(std::move(loader), stream));
//     TENON_RETURN_IF_ERROR(batches->StartEpoch(0));
//     while (true) {
//       TENON_ASSIGN_OR_RETURN(std::optional<Batch> batch, batches->Next());
//       if (!batch) return absl::OkStatus();
//       TENON_ASSIGN_OR_RETURN(Tensor images, batch->tensor("image"));
//       TENON_ASSIGN_OR_RETURN(float* pixels, images.device_data<float>());
//       LaunchKernels(pixels, stream);
//     }
//   }
//
// A batch is one block in the memory of a worker, so it takes one copy. The
// first batch of a segment pins the segment (pinned_memory.h), so the device
// copies while the CPU does other work, without a thread and without a copy by
// the CPU. Copies are enqueued to a stream of ToDevice: behind the work that
// the user's stream had, and before the work that is enqueued to it after
// Next(). The block returns to its worker when the device has copied it.
//
// If the driver refuses to pin the memory of workers, a thread first copies
// each batch to one of at most `prefetch` + 2 buffers of this process, and the
// device copies from there. stats() counts these batches.

#ifndef TENON_LOADER_TO_DEVICE_TO_DEVICE_H_
#define TENON_LOADER_TO_DEVICE_TO_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_state.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

class DeviceCopier;
class StagingThread;
struct StagingJob;

struct ToDeviceOptions {
  // The ordinal of the stream's device in this process.
  int device = 0;
  // How many batches are copied before Next() returns them, as far as workers
  // have made them; 1 to 64. With 1 a batch is copied while the one before it
  // is used.
  int prefetch = 2;
  // The memory on the device, for `prefetch` + 2 batches and those that the
  // user keeps.
  cuda_ipc::DevicePoolOptions pool = {.name = "batches"};
};

struct ToDeviceStats {
  int64_t batches = 0;  // Copies that were enqueued, or given to the thread.
  int64_t staged = 0;   // Those of the thread.
  int64_t waits = 0;    // Of Next(), for the device or for the thread.
  absl::Status not_pinned;  // Why the first batch of the thread was not pinned.
};

// Ownership: owns the loader, its thread and its memory. Batches hold their
//   memory, and may outlive it. The destructor waits for no device: copies that
//   are enqueued hold the memory that they read and write. It waits for the
//   copy by the CPU that the thread is making, then ends the workers.
// Threads: thread-compatible, but Loader::Cancel() and Drain() may be called at
//   any time. The user's stream is used in Next() only.
// Processes: belongs to the process that made it. In a forked child no function
//   may be called, and the destructor frees none of the parent's memory.
// Order: the memory of a dropped batch is reused behind the work that the
//   user's stream has by then. Work on other streams must have ended, or the
//   user's stream must wait for it, before the batch is dropped.
// Failure: errors of a batch are returned in its place. Other errors of the
//   loader, of the driver and of the thread are final, except those after which
//   Next() may be tried again.
class ToDevice {
 public:
  // `stream` is not owned, and must outlive this.
  // Errors: kInvalidArgument for null arguments and options out of range; those
  // of DeviceContexts, DevicePool::Create() and CudaError.
  static absl::StatusOr<std::unique_ptr<ToDevice>> Create(
      std::unique_ptr<Loader> loader, cuda_ipc::CUstream stream,
      const ToDeviceOptions& options = {});

  ~ToDevice();
  ToDevice(const ToDevice&) = delete;
  ToDevice& operator=(const ToDevice&) = delete;

  // Begins an epoch. An unfinished one is abandoned, except for its copies that
  // are enqueued. Errors: the final one, after it.
  absl::Status StartEpoch(int64_t epoch);

  // The next batch, on the device, or nothing at the end of the epoch. Its
  // tensors have device_data(); ToCpu() copies one back. Its data are visible
  // to work that is enqueued to the user's stream from now on. Blocks until a
  // worker has made the batch, and until fewer than `prefetch` + 2 copies are
  // in flight; so it waits for no copy if the device keeps pace.
  // Errors:
  //   EpochRange::Next()'s
  //   kDeadlineExceeded    also if the device or the thread does not keep pace,
  //                        or if the pool has no memory by then, naming its
  //                        holders; try again
  //   kResourceExhausted   the driver has no memory; try again
  //   kFailedPrecondition  StartEpoch() has not been called; or, final, the
  //                        user's stream is under capture by a CUDA graph
  //   kAborted             the thread has no memory to copy a batch
  //   kInternal            the thread has ended, with the reason
  //   CudaError's, also during a wait, if the context is lost
  absl::StatusOr<std::optional<Batch>> Next(
      Deadline deadline = Deadline::Never());

  // The position after the batch that Next() has returned last, for Load().
  // Batches that are copied ahead do not count as received.
  // Errors: Loader::State()'s.
  absl::StatusOr<LoaderState> State();

  // Whether the device has executed all enqueued copies. Does not block.
  bool IsIdle() const;

  // For reports, Cancel(), Drain() and Load(). Epoch() must not be called: it
  // would abandon this epoch.
  Loader& loader() { return *loader_; }
  ToDeviceStats stats() const { return stats_; }

 private:
  // A batch that was taken ahead, or its error.
  struct Ahead {
    absl::StatusOr<Batch> batch = absl::CancelledError();
    absl::StatusOr<LoaderState> state;  // Behind it.
    cuda_ipc::CUevent copied = nullptr;
    std::shared_ptr<StagingJob> staged = nullptr;
  };

  ToDevice(std::unique_ptr<Loader> loader, const ToDeviceOptions& options);
  absl::Status Start(cuda_ipc::CUstream stream);
  size_t MostInFlight() const {
    return static_cast<size_t>(options_.prefetch) + 2;
  }

  // Each may be called again after kDeadlineExceeded or kResourceExhausted.
  absl::Status TakeOne(Deadline deadline);
  absl::Status CopyPending(Deadline deadline);
  absl::Status WaitForCopies(Deadline deadline);
  absl::StatusOr<Tensor> NewBlock(size_t bytes, Deadline deadline);
  absl::Status FallsBehind() const;
  absl::Status MakeFirstReady(Deadline deadline);
  absl::Status Copy(const std::shared_ptr<Storage>& from,
                    const std::shared_ptr<Storage>& to, Ahead& ahead);
  absl::Status Prefetch();
  absl::Status Fail(const absl::Status& status);
  void Abandon();

  const ToDeviceOptions options_;
  std::unique_ptr<Loader> loader_;
  std::shared_ptr<cuda_ipc::DevicePool> pool_;
  std::unique_ptr<DeviceCopier> copier_;
  std::unique_ptr<StagingThread> staging_;  // Ends before the others.
  std::unique_ptr<EpochRange> epoch_;
  std::unique_ptr<Ahead> pending_;  // Received, and not copied yet.
  std::deque<Ahead> ahead_;
  bool is_at_end_ = false;                            // Of the loader's epoch.
  std::optional<absl::StatusOr<LoaderState>> state_;  // None: the loader's.
  absl::Status failure_;
  ToDeviceStats stats_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_TO_DEVICE_TO_DEVICE_H_
