// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StagingThread: copies blocks that cannot be pinned to pinned buffers, and has
// the device copy from there. Internal to ToDevice.

#ifndef TENON_LOADER_TO_DEVICE_STAGING_THREAD_H_
#define TENON_LOADER_TO_DEVICE_STAGING_THREAD_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/loader/to_device/copies_in_flight.h"
#include "tenon/loader/to_device/device_copier.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::loader {

struct StagingJob;

// Ownership: owns its thread, which ends with it, and its buffers, which copies
//   in flight keep.
// Threads: thread-safe.
// Failure: an error of one job is that job's. If the thread ends by itself, by
//   an exception or pthread_exit(), all jobs fail with kInternal and the reason.
class StagingThread {
 public:
  // At most `buffers` at a time. Not owned: `copier` outlives it.
  // Errors: those of Arena::Create(); kResourceExhausted if the thread cannot
  // be started.
  static absl::StatusOr<std::unique_ptr<StagingThread>> Start(
      DeviceCopier& copier, size_t buffers);
  // Drops jobs that have not been begun.
  ~StagingThread();
  StagingThread(const StagingThread&) = delete;
  StagingThread& operator=(const StagingThread&) = delete;

  // Does not block.
  std::shared_ptr<StagingJob> Add(CopiesInFlight::Copy copy);
  bool IsDone(const StagingJob& job);
  // Waits until the copy of the job is enqueued; its event, for one use.
  // Errors: kDeadlineExceeded; the final ones of the job, which are kAborted
  // for a lack of memory, those of DeviceCopier::Copy(), and kInternal.
  absl::StatusOr<cuda_ipc::CUevent> WaitFor(StagingJob& job, Deadline deadline);
  // Instead of WaitFor(): gives the event back once there is one.
  void Abandon(StagingJob& job);

 private:
  class Ended;

  StagingThread(DeviceCopier& copier, size_t buffers,
                std::shared_ptr<Arena> arena);
  void Run();
  void RunJobs();
  std::shared_ptr<StagingJob> NextJob();
  // Waits until fewer than buffers_ copies are in flight. Errors: kCancelled if
  // the thread shall end; those of DeviceCopier::CheckContext().
  absl::Status WaitForBuffer();
  absl::StatusOr<cuda_ipc::CUevent> Stage(CopiesInFlight::Copy copy);
  void Finish(StagingJob& job, absl::StatusOr<cuda_ipc::CUevent> copied);

  DeviceCopier& copier_;
  const size_t buffers_;
  const std::shared_ptr<Arena> arena_;
  ThreadMutex mutex_;
  ThreadCondition changed_;
  std::deque<std::shared_ptr<StagingJob>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool should_end_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_TO_DEVICE_STAGING_THREAD_H_
