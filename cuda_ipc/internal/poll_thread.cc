// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/poll_thread.h"

#include <signal.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

constexpr absl::Duration kShortestNap = absl::Microseconds(50);
constexpr absl::Duration kLongestNap = absl::Milliseconds(2);

}  // namespace

PollThread& PollThread::OfProcess() {
  static constinit PerProcess<PollThread> of_process;
  return of_process.Get();
}

absl::Status PollThread::Add(std::function<bool()> is_done) {
  const ThreadLock lock(&mutex_);
  if (!has_thread_) TENON_RETURN_IF_ERROR(StartThread());
  has_thread_ = true;
  added_.push_back(std::move(is_done));
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status PollThread::StartThread() {
  // Signals are for threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status started;
  try {
    std::thread([this] { Run(); }).detach();
  } catch (const std::system_error& e) {
    started = absl::ResourceExhaustedError(absl::StrCat(
        "pthread_create: the thread that looks at fences: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void PollThread::Run() {
  std::vector<std::function<bool()>> tasks;
  for (absl::Duration nap = kShortestNap;;
       nap = std::min(2 * nap, kLongestNap)) {
    {
      const ThreadLock lock(&mutex_);
      if (added_.empty() && !tasks.empty()) changed_.WaitFor(&mutex_, nap);
      while (added_.empty() && tasks.empty()) changed_.Wait(&mutex_);
      if (!added_.empty()) nap = kShortestNap;
      std::move(added_.begin(), added_.end(), std::back_inserter(tasks));
      added_.clear();
    }
    std::erase_if(tasks, [](const auto& is_done) { return is_done(); });
  }
}

}  // namespace tenon::cuda_ipc
