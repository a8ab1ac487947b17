// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The thread of a pool, which starts its workers and hears from them.

#include <poll.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/status_macros.h"
#include "tenon/spawn/pool_core.h"
#include "tenon/spawn/pool_protocol.h"
#include "tenon/spawn/process.h"

namespace tenon::spawn {
namespace {

// For a tracer (a debugger, a leak checker) to let go of a worker that has
// ended, before the others are looked at again.
constexpr absl::Duration kTracerPatience = absl::Milliseconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<PoolCore::Worker>> PoolCore::StartWorker() {
  TENON_ASSIGN_OR_RETURN(auto ends,
                         Channel::CreatePair({.allow_sockets = true}));
  options_.process.index = static_cast<int>(started_);
  uint64_t batch_id = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    options_.process.index = static_cast<int>(started_++);
    batch_id = next_batch_++;
  }
  const int fd = ends.second.fd();
  TENON_ASSIGN_OR_RETURN(Process process,
                         Process::StartShared(options_.process, {&fd, 1}));
  auto worker = std::unique_ptr<Worker>(
      new Worker{std::move(process), std::move(ends.first)});
  if (options_.initializer.function.empty()) return worker;
  PoolBatch batch = {
      .id = batch_id, .function = options_.initializer.function, .calls = {}};
  batch.calls.push_back(std::move(*options_.initializer.arguments));
  const absl::Status sent =
      SendBatch(worker->channel, batch, Deadline::Passed());
  options_.initializer.arguments = std::move(batch.calls[0]);
  TENON_RETURN_IF_ERROR(sent);
  worker->phase = Phase::kInitializing;
  worker->batch_id = batch.id;
  return worker;
}

Deadline PoolCore::NextDeadline() const {
  Deadline next = Deadline::Never();
  for (const PoolTask& task : pending_) next = Earlier(next, task.deadline);
  for (const auto& worker : workers_) {
    next = Earlier(next, worker->until);
    if (worker->phase == Phase::kBusy) {
      next = Earlier(next, worker->task.deadline);
    }
  }
  if (CountLive() < CountWanted()) next = Earlier(next, start_again_at_);
  return next;
}

// ---- The dispatcher ----

void PoolCore::Tell(Tellings tellings) {
  for (auto& [receiver, answer] : tellings) {
    receiver->Receive(std::move(answer));
  }
}

// What a worker has sent: the next message, which as a rule is the only one; or
// all, of one that has ended. Nobody else receives from it.
void PoolCore::Receive(Worker& worker, bool all, Tellings& tellings) {
  while (worker.has_channel) {
    absl::StatusOr<Message> message =
        worker.channel.Receive(Deadline::Passed());
    if (absl::IsDeadlineExceeded(message.status())) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (absl::IsUnavailable(message.status())) {
      worker.has_channel = false;  // Its end will be seen.
      return;
    }
    absl::StatusOr<PoolAnswers> answers =
        message.ok() ? ReadAnswers(*std::move(message)) : message.status();
    if (answers.ok()) {
      OnAnswers(worker, *std::move(answers), tellings);
    } else {
      Fail(std::move(worker.task), answers.status(), tellings);
      EndWorker(worker);
    }
    // What waits goes on before anybody is told of what is done.
    AssignPending(tellings);
    if (!all) return;
  }
}

void PoolCore::StartMissing() {
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (CountLive() >= CountWanted() || !start_again_at_.has_passed()) return;
    }
    absl::StatusOr<std::unique_ptr<Worker>> worker = StartWorker();
    Tellings tellings;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (worker.ok()) {
        workers_.push_back(*std::move(worker));
        if (workers_.back()->phase == Phase::kIdle) MakeIdle(*workers_.back());
        AssignPending(tellings);
      } else {
        start_again_at_ = Deadline::After(kStartPause);
        // Nobody is left who could do it.
        if (CountLive() == 0) FailPending(worker.status(), tellings);
      }
    }
    Tell(std::move(tellings));
  }
}

// The wake-up first, then two for each worker.
std::vector<pollfd> PoolCore::PollFds() const {
  std::vector<pollfd> fds = {
      {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& worker : workers_) {
    fds.push_back({.fd = worker->has_channel ? worker->channel.fd() : -1,
                   .events = POLLIN,
                   .revents = 0});
    fds.push_back(
        {.fd = worker->process.end_fd(), .events = POLLIN, .revents = 0});
  }
  return fds;
}

void PoolCore::HearWorkers(const std::vector<pollfd>& fds, Tellings& tellings) {
  // From the end, as those that have ended are taken out.
  for (size_t i = workers_.size(); i-- > 0;) {
    Worker& worker = *workers_[i];
    const bool has_ended = fds[2 * i + 2].revents != 0;
    if (fds[2 * i + 1].revents != 0 || has_ended) {
      Receive(worker, has_ended, tellings);
    }
    if (!has_ended) continue;
    const absl::Status how =
        worker.process.Join(Deadline::After(kTracerPatience));
    if (absl::IsDeadlineExceeded(how) && !worker.process.joined()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Worker> gone = std::move(workers_[i]);
    workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(i));
    OnEnd(std::move(gone), how, tellings);
  }
}

// What time and others' calls have made of it, with mutex_ held.
void PoolCore::Settle(Tellings& tellings) {
  ExpireDeadlines(tellings);
  if (aborting_) {
    const absl::Status aborted = absl::CancelledError("the pool was aborted");
    FailPending(aborted, tellings);
    for (auto& worker : workers_) {
      Fail(std::move(worker->task), aborted, tellings);
      EndWorker(*worker);
    }
  } else if (ending_) {
    for (auto& worker : workers_) {
      if (worker->phase != Phase::kEnding) Close(*worker);
    }
  }
  AssignPending(tellings);
  if (IsDrained()) drained_.notify_all();
}

// False once there is nothing more to do.
bool PoolCore::RunOnce() {
  StartMissing();
  std::vector<pollfd> fds;
  Deadline deadline = Deadline::Never();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_ && workers_.empty()) return false;
    fds = PollFds();
    deadline = NextDeadline();
  }
  if (!PollUntil(fds.data(), fds.size(), deadline).ok()) {
    // Out of memory, for a moment.
    PollUntil(nullptr, 0, Deadline::After(absl::Milliseconds(10)))
        .status()
        .IgnoreError();
    return true;
  }
  uint64_t ignored = 0;
  if (fds[0].revents != 0) {
    RetryOnEintr([&] { return read(wake_.get(), &ignored, sizeof(ignored)); });
  }
  Tellings tellings;
  HearWorkers(fds, tellings);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Settle(tellings);
  }
  Tell(std::move(tellings));
  return true;
}

void PoolCore::Run() {
  while (RunOnce()) {
  }
}

}  // namespace tenon::spawn
