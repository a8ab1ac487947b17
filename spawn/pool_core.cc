// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool_core.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/argument.h"
#include "tenon/spawn/pool_options.h"
#include "tenon/spawn/pool_protocol.h"
#include "tenon/spawn/process.h"
#include "tenon/spawn/process_error.h"

namespace tenon::spawn {
namespace {

// For a worker to end by itself once it has been told to.
constexpr absl::Duration kEndPatience = absl::Seconds(10);
// Between two tries to start one where the system refuses.
constexpr absl::Duration kStartPause = absl::Milliseconds(100);
// So many deaths in a row before the first task are no accident.
constexpr int kMaxFailedStarts = 3;

// A copy that shares nothing. Each receiver is on its way to another thread,
// and the counts that copies share are kept by a library that ThreadSanitizer,
// as a rule, does not see into.
absl::Status Unshared(const absl::Status& status) {
  absl::Status copy(status.code(), status.message());
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    copy.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return copy;
}

absl::Status Raised(const Process& process, PoolAnswer& answer) {
  absl::Status status = Unshared(answer.status);
  SetProcessError(ProcessRaised{.index = process.index(),
                                .pid = process.pid(),
                                .status = answer.status,
                                .stack = std::move(answer.stack)},
                  status);
  return status;
}

}  // namespace

PoolCore::PoolCore(PoolOptions options)
    : options_(std::move(options)),
      max_workers_(static_cast<size_t>(options_.workers)),
      min_workers_(static_cast<size_t>(options_.min_workers)) {}

absl::StatusOr<std::unique_ptr<PoolCore>> PoolCore::Create(
    PoolOptions options) {
  TENON_RETURN_IF_ERROR(CheckAndFillIn(options));
  std::unique_ptr<PoolCore> core(new PoolCore(std::move(options)));
  core->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!core->wake_.valid()) return PosixError(errno, "eventfd", "pool");
  for (size_t i = 0; i < core->min_workers_; ++i) {
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker, core->StartWorker());
    if (worker->phase == Phase::kIdle) core->MakeIdle(*worker);
    core->workers_.push_back(std::move(worker));
  }
  // Signals are for the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    core->dispatcher_ = std::thread([core = core.get()] { core->Run(); });
  } catch (const std::system_error& e) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("pthread_create: pool: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  TENON_RETURN_IF_ERROR(status);
  return core;
}

PoolCore::~PoolCore() { Abort(); }

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

void PoolCore::Wake() {
  const uint64_t one = 1;
  RetryOnEintr([&] { return write(wake_.get(), &one, sizeof(one)); });
}

// ---- Tasks, with mutex_ held ----

void PoolCore::Fail(PoolTask task, const absl::Status& why,
                    Tellings& tellings) {
  for (auto& receiver : task.receivers) {
    tellings.emplace_back(std::move(receiver), Unshared(why));
  }
}

void PoolCore::FailPending(const absl::Status& why, Tellings& tellings) {
  for (PoolTask& task : pending_) Fail(std::move(task), why, tellings);
  pending_.clear();
}

void PoolCore::Break(const absl::Status& why, Tellings& tellings) {
  if (!closed_) closed_ = why;
  FailPending(why, tellings);
}

void PoolCore::Assign(Worker& worker, PoolTask task, Tellings& tellings) {
  PoolBatch batch = {.id = next_batch_++,
                     .function = std::move(task.function),
                     .calls = std::move(task.calls)};
  const absl::Status sent =
      SendBatch(worker.channel, batch, Deadline::Passed());
  worker.batch_id = batch.id;
  if (absl::IsUnavailable(sent)) {
    // It has died while idle, which is no fault of the task's.
    worker.phase = Phase::kEnding;
    worker.until = Deadline::After(kEndPatience);
    task.function = std::move(batch.function);
    task.calls = std::move(batch.calls);
    pending_.push_front(std::move(task));
    return;
  }
  if (!sent.ok()) {
    Fail(std::move(task), sent, tellings);
    MakeIdle(worker);
    return;
  }
  worker.phase = Phase::kBusy;
  worker.until = Deadline::Never();
  worker.task = std::move(task);
}

void PoolCore::AssignPending(Tellings& tellings) {
  while (!pending_.empty() && !idle_.empty()) {
    Worker& worker = *idle_.back();
    idle_.pop_back();
    PoolTask task = std::move(pending_.front());
    pending_.pop_front();
    Assign(worker, std::move(task), tellings);
  }
}

void PoolCore::Submit(PoolTask task) {
  Tellings tellings;
  bool wake = false;
  if (ForkCount() != fork_count_) {
    Fail(std::move(task),
         absl::FailedPreconditionError("this pool was inherited by fork()"),
         tellings);
  } else {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) {
      Fail(std::move(task), *closed_, tellings);
    } else {
      // The dispatcher must know of a deadline, and start what is missing.
      wake = !task.deadline.is_never() || idle_.empty();
      pending_.push_back(std::move(task));
      AssignPending(tellings);
      wake = wake || !pending_.empty();
    }
  }
  if (wake) Wake();
  Tell(std::move(tellings));
}

void PoolCore::ExpireDeadlines(Tellings& tellings) {
  for (size_t i = 0; i < pending_.size();) {
    if (!pending_[i].deadline.has_passed()) {
      ++i;
      continue;
    }
    Fail(std::move(pending_[i]),
         absl::DeadlineExceededError("the task's deadline passed before a "
                                     "worker was free"),
         tellings);
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
  }
  for (auto& worker : workers_) {
    if (worker->phase == Phase::kBusy && worker->task.deadline.has_passed()) {
      Fail(std::move(worker->task),
           absl::DeadlineExceededError(
               absl::StrCat("the task's deadline passed; ",
                            worker->process.Describe(), " was killed for it")),
           tellings);
      EndWorker(*worker);
    } else if (worker->until.has_passed()) {
      if (worker->phase == Phase::kEnding) {
        worker->process.Kill().IgnoreError();
        worker->until = Deadline::Never();
      } else if (worker->phase == Phase::kIdle) {
        worker->until = Deadline::Never();
        if (CountLive() > min_workers_) Close(*worker);
      }
    }
  }
}

// ---- Workers, with mutex_ held ----

void PoolCore::MakeIdle(Worker& worker) {
  worker.phase = Phase::kIdle;
  worker.until = Deadline::After(options_.idle_timeout);
  worker.task = {};
  idle_.push_back(&worker);
}

// Kills it.
void PoolCore::EndWorker(Worker& worker) {
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &worker), idle_.end());
  worker.phase = Phase::kEnding;
  worker.until = Deadline::Never();
  worker.process.Kill().IgnoreError();
}

// Lets it end by itself.
void PoolCore::Close(Worker& worker) {
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &worker), idle_.end());
  worker.phase = Phase::kEnding;
  worker.until = Deadline::After(kEndPatience);
  worker.has_channel = false;
  worker.channel.Release().Reset();
}

size_t PoolCore::CountLive() const {
  return static_cast<size_t>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const auto& worker) { return worker->phase != Phase::kEnding; }));
}

size_t PoolCore::CountWanted() const {
  if (ending_ || aborting_) return 0;
  if (closed_ && pending_.empty()) return 0;
  const size_t busy = static_cast<size_t>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const auto& worker) { return worker->phase == Phase::kBusy; }));
  return std::clamp(busy + pending_.size(), min_workers_, max_workers_);
}

bool PoolCore::IsDrained() const {
  return pending_.empty() &&
         std::none_of(workers_.begin(), workers_.end(), [](const auto& worker) {
           return worker->phase == Phase::kBusy;
         });
}

void PoolCore::OnAnswers(Worker& worker, PoolAnswers answers,
                         Tellings& tellings) {
  if (worker.phase == Phase::kEnding) return;  // Too late.
  const size_t wanted =
      worker.phase == Phase::kInitializing ? 1 : worker.task.receivers.size();
  if (worker.phase == Phase::kIdle || answers.id != worker.batch_id ||
      answers.answers.size() != wanted) {
    Fail(std::move(worker.task),
         absl::DataLossError(absl::StrCat(worker.process.Describe(),
                                          " answered what nobody had asked")),
         tellings);
    EndWorker(worker);
    return;
  }
  if (worker.phase == Phase::kInitializing) {
    const absl::Status& status = answers.answers[0].status;
    if (status.ok()) {
      failed_starts_ = 0;
      return MakeIdle(worker);
    }
    Break(absl::Status(status.code(), absl::StrCat("the pool's initializer: ",
                                                   status.message())),
          tellings);
    return Close(worker);
  }
  failed_starts_ = 0;
  for (size_t i = 0; i < wanted; ++i) {
    PoolAnswer& answer = answers.answers[i];
    if (answer.status.ok()) {
      tellings.emplace_back(std::move(worker.task.receivers[i]),
                            std::move(answer.value));
    } else {
      tellings.emplace_back(std::move(worker.task.receivers[i]),
                            Raised(worker.process, answer));
    }
  }
  worker.tasks_done += static_cast<int>(wanted);
  MakeIdle(worker);
  const bool worn = (options_.max_tasks_per_worker > 0 &&
                     worker.tasks_done >= options_.max_tasks_per_worker) ||
                    (options_.max_worker_rss_bytes > 0 &&
                     answers.rss_bytes > options_.max_worker_rss_bytes);
  if (worn) Close(worker);
}

void PoolCore::OnEnd(std::unique_ptr<Worker> worker, const absl::Status& how,
                     Tellings& tellings) {
  idle_.erase(std::remove(idle_.begin(), idle_.end(), worker.get()),
              idle_.end());
  const absl::Status why =
      how.ok() ? absl::AbortedError(absl::StrCat(worker->process.Describe(),
                                                 " ended by itself"))
               : how;
  Fail(std::move(worker->task), why, tellings);
  if (worker->phase == Phase::kInitializing &&
      ++failed_starts_ >= kMaxFailedStarts) {
    Break(why, tellings);
  }
  // One that dies before it has done anything may do so each time.
  if (worker->phase == Phase::kIdle && worker->tasks_done == 0) {
    start_again_at_ = Deadline::After(kStartPause);
  }
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

// All that a worker has sent. Nobody else receives from it.
void PoolCore::Receive(Worker& worker, Tellings& tellings) {
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

// False once there is nothing more to do.
bool PoolCore::RunOnce() {
  StartMissing();
  std::vector<pollfd> fds = {
      {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  Deadline deadline = Deadline::Never();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_ && workers_.empty()) return false;
    for (const auto& worker : workers_) {
      fds.push_back({.fd = worker->has_channel ? worker->channel.fd() : -1,
                     .events = POLLIN,
                     .revents = 0});
      fds.push_back(
          {.fd = worker->process.end_fd(), .events = POLLIN, .revents = 0});
    }
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
  for (size_t i = workers_.size(); i-- > 0;) {
    // By index from the end, as ended ones are taken out.
    Worker& worker = *workers_[i];
    const bool has_ended = fds[2 * i + 2].revents != 0;
    if (fds[2 * i + 1].revents != 0 || has_ended) Receive(worker, tellings);
    if (!has_ended) continue;
    const absl::Status how = worker.process.Join(Deadline::Passed());
    if (absl::IsDeadlineExceeded(how) && worker.process.IsAlive()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Worker> gone = std::move(workers_[i]);
    workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(i));
    OnEnd(std::move(gone), how, tellings);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ExpireDeadlines(tellings);
    if (aborting_) {
      FailPending(absl::CancelledError("the pool was aborted"), tellings);
      for (auto& worker : workers_) {
        Fail(std::move(worker->task),
             absl::CancelledError("the pool was aborted"), tellings);
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
  Tell(std::move(tellings));
  return true;
}

void PoolCore::Run() {
  while (RunOnce()) {
  }
}

// ---- The end ----

absl::Status PoolCore::Shutdown(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "a pool"));
  if (std::this_thread::get_id() == dispatcher_.get_id()) {
    return absl::FailedPreconditionError(
        "a callback cannot wait for the pool that calls it");
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!closed_) {
      closed_ = absl::FailedPreconditionError("the pool has been shut down");
    }
    Wake();
    const auto is_drained = [&] { return IsDrained(); };
    if (deadline.is_never()) {
      drained_.wait(lock, is_drained);
    } else if (!drained_.wait_for(lock,
                                  absl::ToChronoNanoseconds(std::min(
                                      deadline.Remaining(), absl::Hours(24))),
                                  is_drained)) {
      return absl::DeadlineExceededError(
          absl::StrCat("the pool has ", pending_.size(),
                       " tasks that wait, and others under way"));
    }
    ending_ = true;
  }
  Wake();
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (dispatcher_.joinable()) dispatcher_.join();
  return absl::OkStatus();
}

void PoolCore::Abort() {
  if (ForkCount() != fork_count_) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) closed_ = absl::CancelledError("the pool was aborted");
    aborting_ = true;
    ending_ = true;
  }
  Wake();
  if (std::this_thread::get_id() == dispatcher_.get_id()) return;
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (dispatcher_.joinable()) dispatcher_.join();
}

PoolCore::Counts PoolCore::CountAll() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {.workers = CountLive(),
          .idle = idle_.size(),
          .pending = pending_.size(),
          .started = started_};
}

std::vector<pid_t> PoolCore::WorkerPids() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<pid_t> pids;
  for (const auto& worker : workers_) {
    if (worker->phase != Phase::kEnding) pids.push_back(worker->process.pid());
  }
  return pids;
}

}  // namespace tenon::spawn
