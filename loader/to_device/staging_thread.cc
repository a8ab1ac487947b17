// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/to_device/staging_thread.h"

#include <cxxabi.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/page_pinner.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

struct StagingJob {
  CopiesInFlight::Copy copy;
  // Both with the thread's lock.
  std::optional<absl::StatusOr<cuda_ipc::CUevent>> copied;
  bool is_abandoned = false;
};

// Notes that the thread has ended, however it does.
class StagingThread::Ended {
 public:
  explicit Ended(StagingThread* thread) : thread_(*thread) {}
  ~Ended() {
    const ThreadLock lock(&thread_.mutex_);
    thread_.has_ended_ = true;
    thread_.changed_.NotifyAll();
  }
  Ended(const Ended&) = delete;
  Ended& operator=(const Ended&) = delete;

 private:
  StagingThread& thread_;
};

StagingThread::StagingThread(DeviceCopier& copier, size_t buffers,
                             std::shared_ptr<Arena> arena)
    : copier_(copier), buffers_(buffers), arena_(std::move(arena)) {}

absl::StatusOr<std::unique_ptr<StagingThread>> StagingThread::Start(
    DeviceCopier& copier, size_t buffers) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Arena> arena,
                         Arena::Create({.name = "staging"}));
  auto staging =
      absl::WrapUnique(new StagingThread(copier, buffers, std::move(arena)));
  // Signals are for threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status started;
  try {
    staging->thread_ = std::thread([&thread = *staging] { thread.Run(); });
  } catch (const std::system_error& e) {
    started = absl::ResourceExhaustedError(absl::StrCat(
        "pthread_create: the thread that stages batches: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  TENON_RETURN_IF_ERROR(started);
  return staging;
}

StagingThread::~StagingThread() {
  if (!thread_.joinable()) return;  // It could not be started.
  {
    const ThreadLock lock(&mutex_);
    should_end_ = true;
    changed_.NotifyAll();
  }
  copier_.in_flight().EndWaits();
  thread_.join();
}

std::shared_ptr<StagingJob> StagingThread::Add(CopiesInFlight::Copy copy) {
  auto job = std::make_shared<StagingJob>();
  job->copy = std::move(copy);
  const ThreadLock lock(&mutex_);
  jobs_.push_back(job);
  changed_.NotifyAll();
  return job;
}

bool StagingThread::IsDone(const StagingJob& job) {
  const ThreadLock lock(&mutex_);
  return job.copied.has_value();
}

absl::StatusOr<cuda_ipc::CUevent> StagingThread::WaitFor(StagingJob& job,
                                                         Deadline deadline) {
  const ThreadLock lock(&mutex_);
  while (!job.copied && !has_ended_) {
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          "ToDevice::Next(): the thread that stages batches has not copied the "
          "batch yet");
    }
    changed_.WaitFor(&mutex_, deadline.Remaining());
  }
  if (job.copied) return *job.copied;
  return absl::InternalError(
      absl::StrCat("ToDevice::Next(): the thread that stages batches has ended",
                   reason_.empty() ? "" : ": ", reason_));
}

void StagingThread::Abandon(StagingJob& job) {
  const ThreadLock lock(&mutex_);
  job.is_abandoned = true;
  if (job.copied && job.copied->ok()) copier_.GiveBack(**job.copied);
}

void StagingThread::Run() {
  const Ended ended(this);
  std::string reason;
  try {
    RunJobs();
    return;
  } catch (const abi::__forced_unwind&) {
    throw;  // pthread_exit()
  } catch (const std::exception& e) {
    reason = e.what();
  } catch (...) {
    reason = "an exception of an unknown type";
  }
  const ThreadLock lock(&mutex_);
  reason_ = std::move(reason);
}

void StagingThread::RunJobs() {
  while (const std::shared_ptr<StagingJob> job = NextJob()) {
    TENON_CRASH_POINT("to_device.staging");
    Finish(*job, Stage(std::exchange(job->copy, {})));
  }
}

// Null if the thread shall end.
std::shared_ptr<StagingJob> StagingThread::NextJob() {
  const ThreadLock lock(&mutex_);
  while (jobs_.empty() && !should_end_) changed_.Wait(&mutex_);
  if (should_end_) return nullptr;
  std::shared_ptr<StagingJob> job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

absl::Status StagingThread::WaitForBuffer() {
  while (!copier_.in_flight().WaitForFewerThan(
      buffers_, Deadline::After(DeviceCopier::kCheckPeriod))) {
    TENON_RETURN_IF_ERROR(copier_.CheckContext());
    const ThreadLock lock(&mutex_);
    if (should_end_) {
      return absl::CancelledError("the thread that stages batches shall end");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<cuda_ipc::CUevent> StagingThread::Stage(
    CopiesInFlight::Copy copy) {
  TENON_RETURN_IF_ERROR(WaitForBuffer());
  const size_t bytes = copy.from->size_bytes();
  TENON_ASSIGN_OR_RETURN(
      const Tensor buffer,
      CreateTensor(*arena_, kDtypeOf<uint8_t>, {static_cast<int64_t>(bytes)},
                   Deadline::Passed()));
  TENON_ASSIGN_OR_RETURN(std::byte* const to, buffer.storage()->Write());
  TENON_ASSIGN_OR_RETURN(const std::byte* const from, copy.from->Read());
  std::memcpy(to, from, bytes);
  // Where no memory can be pinned the driver makes one more copy.
  copier_.device().Run([&] { return PinPagesOf(to); }).IgnoreError();
  copy.from = buffer.storage();  // The block returns to its worker.
  return copier_.Copy(copy);
}

void StagingThread::Finish(StagingJob& job,
                           absl::StatusOr<cuda_ipc::CUevent> copied) {
  const ThreadLock lock(&mutex_);
  if (job.is_abandoned && copied.ok()) copier_.GiveBack(*copied);
  // Another try could not succeed: the block is back with its worker.
  if (absl::IsDeadlineExceeded(copied.status()) ||
      absl::IsResourceExhausted(copied.status())) {
    copied = absl::AbortedError(
        absl::StrCat("ToDevice::Next(): the thread that stages batches could "
                     "not copy one: ",
                     copied.status().ToString()));
  }
  job.copied = std::move(copied);
  changed_.NotifyAll();
}

}  // namespace tenon::loader
