// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_dispatcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/thread_unlock.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/internal/pool_starter.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/internal/pool_workers.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/process/process.h"

namespace tenon::spawn {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

Deadline DeadlineAt(SteadyTime when) {
  if (when == SteadyTime::max()) return Deadline::Never();
  return Deadline::After(
      absl::FromChrono(when - std::chrono::steady_clock::now()));
}

// The pools whose receivers this thread is calling; several if callbacks wait
// themselves.
struct CompletingPool {
  const PoolDispatcher* pool;
  const CompletingPool* outer;
};
constinit thread_local const CompletingPool* completing_pool = nullptr;

// Waits until `channel` is readable, or the process of `end` has ended. True in
// the first case.
bool AwaitAnswer(int channel, int end, SteadyTime until) {
  // A blocking read of the empty channel waits for it, for the price of one
  // cheap call. The pool's thread makes it return if `end` comes first.
  if (until == SteadyTime::max() &&
      RetryOnEintr([&] { return recv(channel, nullptr, 0, MSG_PEEK); }) >= 0) {
    return true;
  }
  pollfd fds[] = {{.fd = channel, .events = POLLIN, .revents = 0},
                  {.fd = end, .events = POLLIN, .revents = 0}};
  PollUntil(fds, DeadlineAt(until)).status().IgnoreError();
  return fds[0].revents != 0;
}

}  // namespace

PoolDispatcher::PoolDispatcher(PoolOptions options, PoolPoller poller)
    : max_workers_(static_cast<size_t>(options.workers)),
      poller_(std::move(poller)),
      workers_(options, poller_),
      starter_(std::move(options), poller_) {}

absl::StatusOr<std::unique_ptr<PoolDispatcher>> PoolDispatcher::Create(
    PoolOptions options) {
  TENON_RETURN_IF_ERROR(CheckAndFillIn(options));
  TENON_ASSIGN_OR_RETURN(PoolPoller poller, PoolPoller::Create());
  std::unique_ptr<PoolDispatcher> pool(
      new PoolDispatcher(std::move(options), std::move(poller)));
  TENON_RETURN_IF_ERROR(pool->StartLeast());
  TENON_RETURN_IF_ERROR(pool->StartThread());
  return pool;
}

PoolDispatcher::~PoolDispatcher() { Abort(); }

// ---- Tasks ----

// Calls that need another message become a task behind it.
void PoolDispatcher::Enqueue(PoolTask task) {
  if (task.calls.size() == 1) {
    return queue_.PushBack(std::make_shared<PoolTask>(std::move(task)));
  }
  std::shared_ptr<PoolTask> part;
  MessageRoom room;
  for (size_t i = 0; i < task.calls.size(); ++i) {
    if (part == nullptr || !room.Take(task.calls[i])) {
      if (part != nullptr) queue_.PushBack(std::move(part));
      part = std::make_shared<PoolTask>(
          PoolTask{.function = task.function,
                   .calls = {},
                   .receivers = {},
                   .deadline = task.deadline,
                   .id = task.id,
                   .kill_on_cancel = task.kill_on_cancel});
      room = MessageRoom();
      room.Take(task.calls[i]);
    }
    part->calls.push_back(std::move(task.calls[i]));
    part->receivers.push_back(std::move(task.receivers[i]));
  }
  if (part != nullptr) queue_.PushBack(std::move(part));
}

void PoolDispatcher::SendPending(PoolCompletions& done) {
  while (!queue_.empty() && workers_.has_idle()) {
    std::shared_ptr<PoolTask> task = queue_.PopFront();
    if (task->deadline.has_passed()) {
      done.Fail(std::move(task), TaskExpiredError());
      continue;
    }
    PoolWorkers::Assignment assignment = workers_.Reserve(std::move(task));
    if (MustWakeThread()) {
      // The deadline may pass before the task is packed.
      sleeps_until_ = NextDeadline();
      poller_.Wake();
    }
    const ThreadUnlock unlocked(&mutex_);
    SendOne(std::move(assignment), done);
  }
  if (closed_ && IsDrained()) drained_.NotifyAll();
}

void PoolDispatcher::SendOne(PoolWorkers::Assignment assignment,
                             PoolCompletions& done) {
  const absl::StatusOr<PackedBatch> batch = PackedBatch::Of(
      assignment.batch_id, assignment.task->function, assignment.task->calls);
  // Released before the sent arguments are freed.
  const ThreadLock lock(&mutex_);
  std::shared_ptr<PoolTask> unsent = workers_.Send(assignment, batch, done);
  if (unsent != nullptr) queue_.PushFront(std::move(unsent));
}

void PoolDispatcher::Submit(PoolTask task) {
  PoolCompletions done;
  if (ForkCount() != fork_count_) {
    done.Fail(
        std::make_shared<PoolTask>(std::move(task)),
        absl::FailedPreconditionError("the pool was inherited by fork()"));
    return std::move(done).Run();
  }
  bool wake = false;
  {
    const ThreadLock lock(&mutex_);
    if (closed_) {
      done.Fail(std::make_shared<PoolTask>(std::move(task)), *closed_);
    } else {
      Enqueue(std::move(task));
      SendPending(done);
    }
    StartCompleting(done);
    wake = MustWakeThread();
  }
  if (wake) poller_.Wake();
  Complete(std::move(done));
}

void PoolDispatcher::Cancel(uint64_t task_id) {
  if (ForkCount() != fork_count_) return;
  PoolCompletions done;
  bool wake = false;
  {
    const ThreadLock lock(&mutex_);
    for (auto& task : queue_.TakeById(task_id)) {
      done.Fail(std::move(task), TaskCancelledError());
    }
    workers_.Cancel(task_id, done);
    StartCompleting(done);
    wake = MustWakeThread();
  }
  if (wake) poller_.Wake();
  Complete(std::move(done));
}

void PoolDispatcher::FailPending(const absl::Status& why,
                                 PoolCompletions& done) {
  for (auto& task : queue_.TakeAll()) done.Fail(std::move(task), why);
}

void PoolDispatcher::Break(const absl::Status& why, PoolCompletions& done) {
  if (!closed_) closed_ = why;
  FailPending(why, done);
}

// ---- Answers ----

absl::StatusOr<PoolAnswers> PoolDispatcher::Receive(Worker& worker) {
  TENON_ASSIGN_OR_RETURN(Message message,
                         worker.channel.Receive(Deadline::Passed()));
  return ReadAnswers(std::move(message), claimer_);
}

bool PoolDispatcher::HandleAnswers(Worker& worker,
                                   absl::StatusOr<PoolAnswers> answers,
                                   PoolCompletions& done) {
  if (absl::IsDeadlineExceeded(answers.status())) return false;
  if (absl::IsUnavailable(answers.status())) {
    workers_.StopListening(worker);  // Its end will be noticed.
    return false;
  }
  if (answers.ok()) {
    const absl::Status accepted =
        workers_.Accept(worker, *std::move(answers), done);
    if (!accepted.ok()) Break(accepted, done);
  } else {
    workers_.Kill(worker, answers.status(), done);
  }
  return worker.has_channel;
}

void PoolDispatcher::Complete(PoolCompletions done) {
  if (done.empty()) return;
  const CompletingPool here = {.pool = this, .outer = completing_pool};
  completing_pool = &here;
  std::move(done).Run();
  completing_pool = here.outer;
  const ThreadLock lock(&mutex_);
  --completing_;
  if (IsDrained()) drained_.NotifyAll();
}

void PoolDispatcher::StartCompleting(const PoolCompletions& done) {
  if (!done.empty()) ++completing_;
}

bool PoolDispatcher::IsToldByThisThread() const {
  const CompletingPool* completing = completing_pool;
  while (completing != nullptr && completing->pool != this) {
    completing = completing->outer;
  }
  return completing != nullptr;
}

void PoolDispatcher::Lead(uint64_t task_id, SteadyTime until) {
  if (ForkCount() != fork_count_) return;
  Worker* worker = nullptr;
  int channel = -1;
  int end = -1;
  {
    const ThreadLock lock(&mutex_);
    worker = workers_.Lead(task_id);
    if (worker == nullptr) return;
    channel = worker->channel.fd();
    end = worker->process.end_fd();
  }
  absl::StatusOr<PoolAnswers> answers =
      absl::DeadlineExceededError("no answer yet");
  // A thread that ends a running task ends its worker too, so this wakes in any
  // case. A worker is not removed while a waiter leads it.
  if (AwaitAnswer(channel, end, until)) answers = Receive(*worker);
  PoolCompletions done;
  PoolCompletions of_others;
  bool wake = false;
  {
    const ThreadLock lock(&mutex_);
    HandleAnswers(*worker, std::move(answers), done);
    workers_.StopLeading(*worker);
    StartCompleting(done);
    SendPending(of_others);
    wake = !of_others.empty() || MustWakeThread();
    // This thread does not run callbacks of other tasks.
    deferred_.Append(std::move(of_others));
  }
  if (wake) poller_.Wake();
  Complete(std::move(done));
}

// ---- The pool's thread ----

absl::Status PoolDispatcher::StartLeast() {
  for (;;) {
    size_t missing = 0;
    {
      const ThreadLock lock(&mutex_);
      const size_t live = workers_.CountLive();
      if (live >= workers_.least()) return absl::OkStatus();
      missing = workers_.least() - live;
    }
    auto started = starter_.Start(missing);
    const ThreadLock lock(&mutex_);
    TENON_RETURN_IF_ERROR(workers_.Add(std::move(started)));
  }
}

absl::Status PoolDispatcher::StartThread() {
  // Signals are left to the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    const ThreadLock lock(&join_mutex_);
    thread_ = std::thread([this] { Run(); });
    thread_id_ = thread_.get_id();
  } catch (const std::system_error& e) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("pthread_create: pool: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

void PoolDispatcher::StartMissing() {
  for (;;) {
    size_t missing = 0;
    {
      const ThreadLock lock(&mutex_);
      const size_t live = workers_.CountLive();
      if (live >= CountWanted() || !workers_.start_again_at().has_passed()) {
        return;
      }
      missing = CountWanted() - live;
    }
    auto started = starter_.Start(missing);
    PoolCompletions done;
    {
      const ThreadLock lock(&mutex_);
      const absl::Status added = workers_.Add(std::move(started));
      // No worker is left to run them.
      if (!added.ok() && workers_.CountLive() == 0) FailPending(added, done);
      SendPending(done);
    }
    std::move(done).Run();
  }
}

// False if a waiter leads, which then receives the messages.
bool PoolDispatcher::StartLeading(Worker& worker) {
  const ThreadLock lock(&mutex_);
  if (worker.leader == Leader::kWaiter) {
    if (worker.has_ended) {
      worker.end_is_paused = true;
      poller_.Pause(worker.process.end_fd());
      // A descendant of the worker may hold its channel open: the waiter must
      // still see the end, behind the messages sent before.
      shutdown(worker.channel.fd(), SHUT_RD);
    }
    return false;
  }
  worker.leader = Leader::kDispatcher;
  return true;
}

// Receives a worker's next message, which is usually the only one; or all, if
// it has ended. False if a waiter leads.
bool PoolDispatcher::ReceiveAll(Worker& worker, PoolCompletions& done) {
  if (!StartLeading(worker)) return false;
  bool more = worker.has_channel;
  while (more) {
    absl::StatusOr<PoolAnswers> answers = Receive(worker);
    const ThreadLock lock(&mutex_);
    more = HandleAnswers(worker, std::move(answers), done) && worker.has_ended;
    // Waiting tasks are sent before any receiver is called.
    SendPending(done);
  }
  if (worker.has_ended) return true;
  const ThreadLock lock(&mutex_);
  worker.leader = Leader::kNone;
  return true;
}

// False if it has ended and could not be removed.
bool PoolDispatcher::ServeWorker(Worker& worker, PoolCompletions& done) {
  worker.is_readable = false;
  const bool leads = ReceiveAll(worker, done);
  return !worker.has_ended || (leads && RemoveWorker(worker, done));
}

// False if its process cannot be joined yet.
bool PoolDispatcher::RemoveWorker(Worker& worker, PoolCompletions& done) {
  const absl::Status how =
      worker.process.Join(Deadline::After(Process::kEndPatience));
  if (absl::IsDeadlineExceeded(how) && !worker.process.joined()) return false;
  const ThreadLock lock(&mutex_);
  auto unsent = workers_.Remove(worker, how, done);
  if (!unsent.ok()) {
    Break(unsent.status(), done);
  } else if (*unsent != nullptr && !(*unsent)->has_failed()) {
    queue_.PushFront(*std::move(unsent));
    SendPending(done);
  }
  return true;
}

void PoolDispatcher::EndWorkers(PoolCompletions& done) {
  const absl::Status aborted = absl::CancelledError("the pool was aborted");
  if (aborting_) FailPending(aborted, done);
  for (auto& worker : workers_.all()) {
    if (aborting_) {
      workers_.Kill(*worker, aborted, done);
    } else if (worker->phase != PoolWorkers::Phase::kEnding) {
      workers_.Close(*worker);
    }
  }
}

bool PoolDispatcher::RunOnce(std::vector<Worker*>& reported) {
  StartMissing();
  Deadline deadline = Deadline::Never();
  {
    const ThreadLock lock(&mutex_);
    if (ending_ && workers_.empty() && deferred_.empty()) return false;
    deadline = NextDeadline();
    sleeps_until_ = deadline;
  }
  for (const uint64_t key : poller_.Wait(deadline)) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as channel_key() has made it.
    auto* worker = reinterpret_cast<Worker*>(key & ~uint64_t{1});
    if (!worker->is_readable && !worker->has_ended) reported.push_back(worker);
    (key == worker->end_key() ? worker->has_ended : worker->is_readable) = true;
  }
  PoolCompletions done;
  std::erase_if(reported,
                [&](Worker* worker) { return ServeWorker(*worker, done); });
  {
    const ThreadLock lock(&mutex_);
    done.Append(std::exchange(deferred_, {}));
    for (auto& task : queue_.TakeExpired()) {
      done.Fail(std::move(task), TaskExpiredError());
    }
    workers_.RunTimers(done);
    if (ending_) EndWorkers(done);
    SendPending(done);
    if (IsDrained()) drained_.NotifyAll();
  }
  std::move(done).Run();
  return true;
}

void PoolDispatcher::Run() {
  std::vector<Worker*> reported;
  while (RunOnce(reported)) {
  }
}

// ---- Timers ----

Deadline PoolDispatcher::NextDeadline() const {
  const Deadline next =
      Earlier(queue_.next_deadline(), workers_.next_deadline());
  if (workers_.CountLive() >= CountWanted()) return next;
  return Earlier(next, workers_.start_again_at());
}

bool PoolDispatcher::MustWakeThread() const {
  return NextDeadline().Remaining() < sleeps_until_.Remaining();
}

size_t PoolDispatcher::CountWanted() const {
  if (ending_ || (closed_ && queue_.empty())) return 0;
  return std::clamp(workers_.CountBusy() + queue_.size(), workers_.least(),
                    workers_.most());
}

bool PoolDispatcher::IsDrained() const {
  return queue_.empty() && completing_ == 0 && workers_.CountBusy() == 0;
}

// ---- The end ----

absl::Status PoolDispatcher::Shutdown(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "a pool"));
  if (std::this_thread::get_id() == thread_id_ || IsToldByThisThread()) {
    return absl::FailedPreconditionError(
        "a callback cannot wait for the pool that calls it");
  }
  {
    const ThreadLock lock(&mutex_);
    if (!closed_) {
      closed_ = absl::FailedPreconditionError("the pool has been shut down");
    }
    poller_.Wake();
    while (!IsDrained()) {
      if (deadline.has_passed()) {
        return absl::DeadlineExceededError(
            absl::StrCat("Shutdown(): ", queue_.size(), " tasks wait, ",
                         workers_.CountBusy(), " workers are busy"));
      }
      drained_.WaitFor(&mutex_, deadline.Remaining());
    }
    ending_ = true;
  }
  poller_.Wake();
  const ThreadLock lock(&join_mutex_);
  if (thread_.joinable()) thread_.join();
  return absl::OkStatus();
}

void PoolDispatcher::Abort() {
  if (ForkCount() != fork_count_) return;
  {
    const ThreadLock lock(&mutex_);
    if (!closed_) closed_ = absl::CancelledError("the pool was aborted");
    aborting_ = true;
    ending_ = true;
  }
  poller_.Wake();
  if (std::this_thread::get_id() == thread_id_) return;
  const ThreadLock lock(&join_mutex_);
  if (thread_.joinable()) thread_.join();
}

PoolCounts PoolDispatcher::counts() const {
  if (ForkCount() != fork_count_) return {};
  const ThreadLock lock(&mutex_);
  return {.workers = workers_.CountLive(),
          .idle = workers_.CountIdle(),
          .pending = queue_.size(),
          .started = starter_.started()};
}

std::vector<pid_t> PoolDispatcher::WorkerPids() const {
  if (ForkCount() != fork_count_) return {};
  const ThreadLock lock(&mutex_);
  return workers_.Pids();
}

}  // namespace tenon::spawn
