// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/retired_allocations.h"

#include <signal.h>

#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {

RetiredAllocations& RetiredAllocations::OfProcess() {
  static constinit PerProcess<RetiredAllocations> of_process;
  return of_process.Get();
}

absl::StatusOr<std::unique_ptr<RetiredAllocations::Place>>
RetiredAllocations::Reserve() {
  const ThreadLock lock(&mutex_);
  if (!has_thread_) TENON_RETURN_IF_ERROR(StartThread());
  has_thread_ = true;
  return std::make_unique<Place>();
}

absl::Status RetiredAllocations::StartThread() {
  // Signals are for threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status started;
  try {
    std::thread([this] { Run(); }).detach();
  } catch (const std::system_error& e) {
    started = absl::ResourceExhaustedError(absl::StrCat(
        "pthread_create: the thread that unmaps device memory: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void RetiredAllocations::Add(std::unique_ptr<Place> place) {
  TENON_CRASH_POINT("device_memory.retired");
  const ThreadLock lock(&mutex_);
  place->next = std::move(first_);
  first_ = std::move(place);
  changed_.NotifyAll();
}

std::unique_ptr<RetiredAllocations::Place> RetiredAllocations::TakeAll() {
  if (first_ != nullptr) ++freeing_;
  return std::move(first_);
}

void RetiredAllocations::Release() {
  std::unique_ptr<Place> first;
  {
    const ThreadLock lock(&mutex_);
    first = TakeAll();
  }
  const bool is_ours = first != nullptr;
  Free(std::move(first));
  const ThreadLock lock(&mutex_);
  if (is_ours) --freeing_;
  changed_.NotifyAll();
  while (freeing_ > 0) changed_.Wait(&mutex_);
}

void RetiredAllocations::Run() {
  for (;;) {
    std::unique_ptr<Place> first;
    {
      const ThreadLock lock(&mutex_);
      while (first_ == nullptr) changed_.Wait(&mutex_);
      first = TakeAll();
    }
    Free(std::move(first));
    const ThreadLock lock(&mutex_);
    --freeing_;
    changed_.NotifyAll();
  }
}

// One after the other: a long list must not end by recursion.
void RetiredAllocations::Free(std::unique_ptr<Place> first) {
  while (first != nullptr) first = std::move(first->next);
}

}  // namespace tenon::cuda_ipc
