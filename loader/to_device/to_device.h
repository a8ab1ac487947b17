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
// A batch is one block in the memory of a worker, and one copy. The segment of
// the block is pinned by its first batch (pinned_memory.h), so that the device
// copies while the CPU does other work, without a thread and without a copy by
// the CPU. Copies are enqueued to a stream of ToDevice: behind the work that
// the user's stream had, and before the work that it gets after Next(). The
// block returns to the worker when the device has copied it.
//
// Where the driver refuses to pin the memory of workers, a thread copies each
// batch to a buffer of this process first, of at most `prefetch` + 2 buffers,
// and the device copies from there. stats() tells which way batches took.

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
  // This process's ordinal of the stream's device.
  int device = 0;
  // Batches whose copies are enqueued before Next() returns them, as far as
  // workers have made them. With 1 a copy runs beside the use of the batch
  // before it.
  int prefetch = 2;
  // The memory on the device: of `prefetch` + 2 batches, and of those that the
  // user keeps.
  cuda_ipc::DevicePoolOptions pool = {.name = "batches"};
};

struct ToDeviceStats {
  int64_t batches = 0;      // Copied.
  int64_t staged = 0;       // Of them, by way of the thread.
  int64_t waits = 0;        // Of Next(), for the device or for the thread.
  absl::Status not_pinned;  // Why a batch was staged: the first reason.
};

// Ownership: owns the loader, its thread and its memory. Batches keep their
//   memory, and may outlive it. Destroying it waits for no device: copies that
//   are enqueued keep what they read and write. The thread ends before the
//   workers do.
// Threads: thread-compatible, but Loader::Cancel() and Drain() may be called at
//   any time. The user's stream is used in Next() alone.
// Processes: as the loader and the device: not in a forked child.
// Order: a batch that is dropped is used for another one behind the work that
//   the user's stream has by then. Work on other streams must have ended, or
//   the user's stream must wait for it, before the batch is dropped.
// Failure: errors of a batch are returned in its place; other errors of the
//   loader, of the driver and of the thread are final, but for those after
//   which Next() may be tried again.
class ToDevice {
 public:
  // `loader` and `stream` are not null; `stream` outlives this.
  // Errors: kInvalidArgument for null arguments and options out of range; those
  // of DeviceContexts, DevicePool::Create() and CudaError.
  static absl::StatusOr<std::unique_ptr<ToDevice>> Create(
      std::unique_ptr<Loader> loader, cuda_ipc::CUstream stream,
      const ToDeviceOptions& options = {});

  ~ToDevice();
  ToDevice(const ToDevice&) = delete;
  ToDevice& operator=(const ToDevice&) = delete;

  // Begins an epoch; one that has not been finished is abandoned, and copies of
  // it that are enqueued are executed. Errors: that which has ended this.
  absl::Status StartEpoch(int64_t epoch);

  // The next batch, on the device, or nothing at the end of the epoch: tensors
  // of it have device_data(), and ToCpu() copies one back. Its data are there
  // for work that is enqueued to the user's stream from now on. Blocks until a
  // worker has made it, and until fewer than `prefetch` + 2 copies are in
  // flight; never for a copy where the device keeps pace.
  // Errors: EpochRange::Next()'s; kFailedPrecondition before StartEpoch(), and
  // for good if the user's stream is under capture by a CUDA graph;
  // kDeadlineExceeded also if the device or the thread does not keep pace, or
  // if the pool has no memory by then, naming its holders, and
  // kResourceExhausted of the driver: try again; the driver's, also while the
  // call waits, if the context is lost; kAborted if the thread has no memory to
  // copy a batch; kInternal naming how the thread has ended.
  absl::StatusOr<std::optional<Batch>> Next(
      Deadline deadline = Deadline::Never());

  // Where to resume: behind the batch that Next() has returned last. Those that
  // were copied ahead are not received yet.
  // Errors: Loader::State()'s.
  absl::StatusOr<LoaderState> State();

  // Whether the device has executed all copies that were enqueued. Does not
  // block.
  bool IsIdle() const;

  // For reports, Cancel(), Drain() and Load(). Its Epoch() would take batches
  // from this.
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
