// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The thread of a pool, which starts its workers and hears from them.

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/status_macros.h"
#include "tenon/spawn/pool_core.h"
#include "tenon/spawn/pool_protocol.h"
#include "tenon/spawn/process.h"

namespace tenon::spawn {

absl::StatusOr<std::unique_ptr<PoolCore::Worker>> PoolCore::StartWorker() {
  TENON_ASSIGN_OR_RETURN(auto ends,
                         Channel::CreatePair({.allow_sockets = true}));
  uint64_t batch_id = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    options_.process.index = static_cast<int>(started_++);
    batch_id = next_batch_++;
  }
  templates_.FillIn(options_.process);
  const int fd = ends.second.fd();
  TENON_ASSIGN_OR_RETURN(Process process,
                         Process::StartShared(options_.process, {&fd, 1}));
  auto worker = std::unique_ptr<Worker>(
      new Worker{std::move(process), std::move(ends.first)});
  if (!options_.initializer.function.empty()) {
    TENON_RETURN_IF_ERROR(Initialize(*worker, batch_id));
  }
  TENON_RETURN_IF_ERROR(Watch(*worker));
  return worker;
}

absl::Status PoolCore::Initialize(Worker& worker, uint64_t batch_id) {
  PoolBatch batch = {
      .id = batch_id, .function = options_.initializer.function, .calls = {}};
  batch.calls.push_back(std::move(*options_.initializer.arguments));
  const absl::Status sent =
      SendBatch(worker.channel, batch, Deadline::Passed());
  options_.initializer.arguments = std::move(batch.calls[0]);
  TENON_RETURN_IF_ERROR(sent);
  worker.phase = Phase::kInitializing;
  worker.batch_id = batch.id;
  return absl::OkStatus();
}

absl::Status PoolCore::Watch(const Worker& worker) {
  TENON_RETURN_IF_ERROR(poller_.Add(worker.channel.fd(), worker.channel_key()));
  const absl::Status added =
      poller_.Add(worker.process.end_fd(), worker.end_key());
  if (!added.ok()) poller_.Remove(worker.channel.fd());
  return added;
}

Deadline PoolCore::NextDeadline() const {
  Deadline next = pending_deadline_;
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

// What there is now. Errors: those of Channel::Receive(); kDataLoss.
absl::StatusOr<PoolAnswers> PoolCore::ReceiveAnswers(Worker& worker) {
  TENON_ASSIGN_OR_RETURN(Message message,
                         worker.channel.Receive(Deadline::Passed()));
  return ReadAnswers(std::move(message), claimer_);
}

// What ReceiveAnswers() has given, with mutex_ held. False if that was nothing.
bool PoolCore::Digest(Worker& worker, absl::StatusOr<PoolAnswers> answers,
                      Tellings& tellings) {
  if (absl::IsDeadlineExceeded(answers.status())) return false;
  if (absl::IsUnavailable(answers.status())) {
    StopListening(worker);  // Its end will be seen.
    return false;
  }
  if (answers.ok()) {
    OnAnswers(worker, *std::move(answers), tellings);
  } else {
    Fail(std::move(worker.task), answers.status(), tellings);
    EndWorker(worker);
  }
  return worker.has_channel;
}

// False if somebody else has it, who then receives what there is.
bool PoolCore::StartReceiving(Worker& worker) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (worker.receiver == Receiver::kHelper) {
    if (worker.has_ended) {
      worker.end_is_paused = true;
      poller_.Pause(worker.process.end_fd());
      // What the worker has left behind may have its channel: the helper is to
      // see the end all the same, behind what was sent before.
      shutdown(worker.channel.fd(), SHUT_RD);
    }
    return false;
  }
  worker.receiver = Receiver::kDispatcher;
  return true;
}

// What a worker has sent: the next message, which as a rule is the only one; or
// all, of one that has ended. False if a helper does it.
bool PoolCore::Receive(Worker& worker, Tellings& tellings) {
  if (!StartReceiving(worker)) return false;
  bool more = worker.has_channel;
  while (more) {
    absl::StatusOr<PoolAnswers> answers = ReceiveAnswers(worker);
    const std::lock_guard<std::mutex> lock(mutex_);
    more = Digest(worker, std::move(answers), tellings) && worker.has_ended;
    // What waits goes on before anybody is told of what is done.
    AssignPending(tellings);
  }
  if (worker.has_ended) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  worker.receiver = Receiver::kNobody;
  return true;
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

void PoolCore::HearWorkers(Tellings& tellings) {
  // From the end, as those that have ended are taken out.
  for (size_t i = workers_.size(); i-- > 0;) {
    Worker& worker = *workers_[i];
    if (!worker.is_readable && !worker.has_ended) continue;
    worker.is_readable = false;
    if (!Receive(worker, tellings) || !worker.has_ended) continue;
    const absl::Status how =
        worker.process.Join(Deadline::After(Process::kEndPatience));
    if (absl::IsDeadlineExceeded(how) && !worker.process.joined()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    StopListening(worker);
    poller_.Remove(worker.process.end_fd());
    std::unique_ptr<Worker> gone = std::move(workers_[i]);
    workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(i));
    OnEnd(std::move(gone), how, tellings);
  }
}

// What time and others' calls have made of it, with mutex_ held.
void PoolCore::Settle(Tellings& tellings) {
  std::move(owed_.begin(), owed_.end(), std::back_inserter(tellings));
  owed_.clear();
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
  Deadline deadline = Deadline::Never();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_ && workers_.empty() && owed_.empty()) return false;
    deadline = NextDeadline();
    sleeps_until_ = deadline;
  }
  for (const uint64_t key : poller_.Wait(deadline)) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as channel_key() has made it.
    auto* worker = reinterpret_cast<Worker*>(key & ~uint64_t{1});
    (key == worker->end_key() ? worker->has_ended : worker->is_readable) = true;
  }
  Tellings tellings;
  HearWorkers(tellings);
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
