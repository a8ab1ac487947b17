// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StagingThread: copies blocks that cannot be pinned to pinned buffers, and
// enqueues the copies from there to the device. Internal to ToDevice.

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

// Ownership: owns its thread and its buffers; copies in flight hold theirs. The
//   destructor waits for the job that the thread is doing.
// Threads: thread-safe.
// Processes: must not be destroyed in a forked child, which has no such thread.
// Failure: an error of one job is that job's. If the thread ends by itself,
//   by an exception or pthread_exit(), all jobs fail with kInternal and the
//   reason.
class StagingThread {
 public:
  // At most `buffers` buffers are in use at a time. `copier` is not owned, and
  // must outlive this.
  // Errors: those of Arena::Create(); kResourceExhausted if the thread cannot
  // be started.
  static absl::StatusOr<std::unique_ptr<StagingThread>> Start(
      DeviceCopier& copier, size_t buffers);
  // Drops the jobs that have not been begun.
  ~StagingThread();
  StagingThread(const StagingThread&) = delete;
  StagingThread& operator=(const StagingThread&) = delete;

  // Does not block.
  std::shared_ptr<StagingJob> Add(CopiesInFlight::Copy copy);
  bool IsDone(const StagingJob& job);
  // Blocks until the copy of the job is enqueued; returns its event, for one
  // use. Errors: kDeadlineExceeded, after which it may be called again;
  // kAborted if there is no memory for the job; those of DeviceCopier::Copy();
  // kInternal if the thread has ended.
  absl::StatusOr<cuda_ipc::CUevent> WaitFor(StagingJob& job, Deadline deadline);
  // In place of WaitFor(): returns the event to the copier once there is one.
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
