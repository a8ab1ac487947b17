// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_set.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/doorbell/spin_budget.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/on_worker_death.h"
#include "tenon/loader/data/worker_kind.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_board.h"
#include "tenon/loader/stats/stats_memory.h"
#include "tenon/loader/worker/loading.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_host.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/loader/worker/worker_run.h"
#include "tenon/loader/worker/worker_waiter.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon::loader {
namespace {

// How long a worker may take from its start to main().
constexpr absl::Duration kStartPatience = absl::Seconds(60);
// How long a call stays with the handshake of a process that it has started,
// before it goes on with other workers.
constexpr absl::Duration kJoinPatience = absl::Seconds(1);
// How often a worker is looked at in LoaderOptions::sample_timeout.
constexpr int kLooksPerTimeout = 4;
constexpr size_t kMaxIncidents = 64;

void RemoveNames(absl::string_view prefix) {
  const auto names = ListShmNames(prefix);
  if (!names.ok()) return;
  for (const std::string& name : *names) RemoveShmName(name).IgnoreError();
}

// What a worker does in a stage, for the error of a deadline.
absl::string_view Doing(Stage stage) {
  switch (stage) {
    case Stage::kStart:
      return "it has been making its dataset";
    case Stage::kWait:
      return "it has been waiting for a task";
    case Stage::kLoad:
      return "it has been loading samples";
    case Stage::kCollate:
      return "it has been collating them";
    default:
      return "it has been allocating memory, or handing over a batch,";
  }
}

// The same, and since when.
std::string DoingNow(const StatsView& stats) {
  const absl::Duration time =
      absl::Nanoseconds(MonotonicNs() - stats.since_ns());
  return absl::StrCat(
      Doing(stats.stage()), " for ",
      absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSet>> WorkerSet::Create(
    const Options& options, WorkerSetup setup, const DatasetRecipe& recipe,
    std::shared_ptr<const BatchLayout> layout,
    const Cancellation* cancellation) {
  TENON_ASSIGN_OR_RETURN(setup.name_prefix,
                         MakeShmName(absl::StrCat("tenon-loader-", getpid())));
  setup.dataset = recipe.name();
  setup.arguments = recipe.bytes();
  // Whatever the strategy of the data: workers get the descriptor at the start.
  TENON_ASSIGN_OR_RETURN(Segment::OwnerWritten control,
                         Segment::CreateOwnerWritten(
                             sizeof(WorkerControl),
                             {.strategy = SharingStrategy::kFileDescriptor}));
  auto workers = absl::WrapUnique(
      new WorkerSet(std::move(setup), options, recipe, std::move(layout),
                    std::move(control), cancellation));
  TENON_RETURN_IF_ERROR(workers->Start());
  return workers;
}

WorkerSet::WorkerSet(WorkerSetup setup, const Options& options,
                     const DatasetRecipe& recipe,
                     std::shared_ptr<const BatchLayout> layout,
                     Segment::OwnerWritten control,
                     const Cancellation* cancellation)
    : setup_(std::move(setup)),
      options_(options),
      recipe_(recipe),
      layout_(std::move(layout)),
      control_(std::move(control)),
      cancellation_(cancellation),
      spin_(SpinBudget::ForThisProcess(setup_.workers * setup_.threads)) {}

absl::Status WorkerSet::Start() {
  std::vector<WorkerRun> runs;
  const absl::Status started = StartRuns(0, setup_.workers, runs);
  // After an error, too: the destructor ends them.
  for (WorkerRun& run : runs) {
    workers_.push_back(
        {.index = static_cast<int>(workers_.size()), .run = std::move(run)});
  }
  TENON_RETURN_IF_ERROR(started);
  // Now: no worker that is forked inherits it.
  TENON_ASSIGN_OR_RETURN(waiter_, WorkerWaiter::Create(*cancellation_));
  for (Worker& worker : workers_) TENON_RETURN_IF_ERROR(BeginJoin(worker));
  for (Worker& worker : workers_) {
    TENON_RETURN_IF_ERROR(Join(worker, worker.joins_by).status);
  }
  return absl::OkStatus();
}

absl::Status WorkerSet::StartRuns(int first, int count,
                                  std::vector<WorkerRun>& runs) {
  std::vector<WorkerEnd> ends;
  std::vector<WorkerNote*> notes;
  std::vector<WorkerRun> made;
  for (int i = first; i < first + count; ++i) {
    TENON_ASSIGN_OR_RETURN(WorkerLink link,
                           WorkerLink::Create(i, setup_.prefetch, layout_));
    TENON_ASSIGN_OR_RETURN(Segment note,
                           Segment::CreateSharedWritable(
                               sizeof(WorkerNote),
                               {.strategy = SharingStrategy::kFileDescriptor}));
    TENON_ASSIGN_OR_RETURN(WritableMapping mapped, note.MapWritable());
    notes.push_back(reinterpret_cast<WorkerNote*>(mapped.data()));
    ends.push_back({link.TakeWorkerEnd(), std::move(note)});
    made.push_back(
        {.note = std::move(mapped), .host = nullptr, .link = std::move(link)});
  }
  // A hung or crashed worker is to leave its stack.
  const bool crash_stack = options_.on_death != OnWorkerDeath::kFail ||
                           options_.sample_timeout != absl::InfiniteDuration();
  std::vector<std::unique_ptr<WorkerHost>> hosts;
  const absl::Status started =
      options_.kind == WorkerKind::kThread
          ? StartWorkerThreads(std::move(ends), setup_, recipe_, control(),
                               notes, hosts)
          : StartWorkerProcesses(std::move(ends), setup_, recipe_,
                                 {.program = options_.program,
                                  .method = options_.start_method,
                                  .crash_stack = crash_stack,
                                  .first = first},
                                 control_.segment, hosts);
  for (size_t i = 0; i < hosts.size(); ++i) {
    made[i].host = std::move(hosts[i]);
    runs.push_back(std::move(made[i]));
  }
  return started;
}

WorkerSet::~WorkerSet() {
  if (fork_count_ != ForkCount()) {
    // The workers are the parent's, and of its threads this process has none.
    for (Worker& worker : workers_) {
      static_cast<void>(worker.run.host.release());
    }
    for (auto& host : retired_) static_cast<void>(host.release());
    return;
  }
  StdAtomics::Store(control().stop, 1, std::memory_order_release);
  for (Worker& worker : workers_) worker.run.link.HangUp();
  // While the workers exit.
  for (Worker& worker : workers_) worker.run.link.Release();
  for (Worker& worker : workers_) {
    retired_.push_back(std::move(worker.run.host));
  }
  JoinAll(Deadline::After(absl::Seconds(1)));
  for (const auto& host : retired_) host->Signal(SIGTERM);
  JoinAll(Deadline::After(absl::Milliseconds(500)));
  for (const auto& host : retired_) host->Signal(SIGKILL);
  JoinAll(Deadline::Never());
  retired_.clear();  // Threads, before their notes.
  // A worker that was killed could not remove its names.
  if (setup_.strategy == SharingStrategy::kFileDescriptor) return;
  RemoveNames(setup_.name_prefix);
}

void WorkerSet::JoinAll(Deadline deadline) {
  for (const auto& host : retired_) host->Join(deadline).IgnoreError();
}

WorkerControl& WorkerSet::control() {
  return *reinterpret_cast<WorkerControl*>(control_.mapping.data());
}

void WorkerSet::Await(uint64_t first_ticket, uint64_t end_ticket) {
  first_ticket_ = first_ticket;
  end_ticket_ = end_ticket;
  StdAtomics::Store(control().first_ticket, first_ticket,
                    std::memory_order_release);
  for (Worker& worker : workers_) worker.run.link.AbandonBefore(first_ticket);
}

size_t WorkerSet::LoadOf(size_t worker) const {
  const WorkerRun& run = workers_[worker].run;
  return run.retires || !run.link.has_joined()
             ? std::numeric_limits<size_t>::max()
             : run.link.outstanding();
}

absl::Status WorkerSet::Assign(size_t index, WorkerLink::Task& task) {
  Worker& worker = workers_[index];
  const absl::Status assigned = worker.run.link.Assign(task);
  if (assigned.ok()) return assigned;
  TENON_RETURN_IF_ERROR(OnError(worker, assigned));
  if (!worker.run.link.has_joined()) {
    worker.waiting.push_back(std::move(task));
    return absl::OkStatus();
  }
  const absl::Status again = worker.run.link.Assign(task);
  return again.ok() ? again : worker.run.EndOf(again).status;
}

absl::Span<WorkerSet::Worker> WorkerSet::Awaited(std::optional<size_t> only) {
  return only ? absl::MakeSpan(&workers_[*only], 1) : absl::MakeSpan(workers_);
}

absl::StatusOr<std::optional<WorkerLink::Finished>> WorkerSet::Take(
    std::optional<size_t> only) {
  const absl::Span<Worker> awaited = Awaited(only);
  for (size_t i = 0; i < awaited.size(); ++i) {
    Worker& worker = awaited[(next_polled_ + i) % awaited.size()];
    absl::StatusOr<std::optional<WorkerLink::Finished>> finished =
        TakeOf(worker);
    if (finished.ok() && !finished->has_value()) continue;
    next_polled_ = static_cast<size_t>(worker.index) + 1;
    return finished;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<WorkerLink::Finished>> WorkerSet::TakeOf(
    Worker& worker) {
  TENON_RETURN_IF_ERROR(DropAbandonedOf(worker));
  if (!IsAwaited(worker)) return std::nullopt;
  const WorkerLink::Job* job = worker.current();
  if (job != nullptr && job->ticket < first_ticket_) return std::nullopt;
  // Without a task, too: a worker that has ended, or reports a task that it was
  // not given, would else be ready for ever.
  absl::StatusOr<std::optional<WorkerLink::Finished>> finished =
      TakeAny(worker);
  if (!finished.ok()) {
    TENON_RETURN_IF_ERROR(OnError(worker, finished.status()));
    return std::nullopt;
  }
  if (!finished->has_value()) return std::nullopt;
  absl::StatusOr<Batch>& batch = (*finished)->batch;
  if (!batch.ok()) {
    batch = absl::Status(batch.status().code(),
                         absl::StrCat(worker.run.host->Describe(), ": ",
                                      batch.status().message()));
  }
  return finished;
}

absl::Status WorkerSet::DropAbandonedOf(Worker& worker) {
  for (;;) {
    const WorkerLink::Job* job = worker.current();
    if (job == nullptr || job->ticket >= first_ticket_) return absl::OkStatus();
    const auto finished = TakeAny(worker);
    if (!finished.ok()) return OnError(worker, finished.status());
    if (!finished->has_value()) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(Recycle(static_cast<size_t>(worker.index)));
  }
}

absl::StatusOr<std::optional<WorkerLink::Finished>> WorkerSet::TakeAny(
    Worker& worker) {
  if (!worker.finished.empty()) {
    const absl::Cleanup pop = [&] { worker.finished.pop_front(); };
    return std::move(worker.finished.front());
  }
  auto finished = worker.run.link.Take();
  if (!finished.ok() || !finished->has_value()) return finished;
  options_.stats->meter().SetTaken(worker.index, worker.run.link.claimed());
  worker.deaths = 0;
  const absl::StatusOr<Batch>& batch = (*finished)->batch;
  if (batch.ok()) worker.run.samples += batch->size();
  return finished;
}

uint64_t WorkerSet::Ready(std::optional<size_t> only) {
  const absl::Span<Worker> awaited = Awaited(only);
  uint64_t ready = 0;
  for (const Worker& worker : awaited) {
    const StatsView* const stats = options_.stats->worker(worker.index);
    if (stats == nullptr || !worker.run.link.has_joined()) continue;
    const uint64_t made = stats->batches();
    const uint64_t claimed = worker.run.link.claimed();
    if (made > claimed) ready += made - claimed;
  }
  return ready / awaited.size();
}

bool WorkerSet::Spin(std::optional<size_t> only) {
  const absl::Span<Worker> awaited = Awaited(only);
  // Where it does not spin: no bell rings for what a former process has left.
  if (std::any_of(awaited.begin(), awaited.end(), [this](Worker& worker) {
        return IsAwaited(worker) && !worker.finished.empty();
      })) {
    return true;
  }
  // A turn of the budget is the check of one ring.
  for (uint64_t turn = 0; turn < spin_.turns(); turn += awaited.size()) {
    if (cancellation_->is_cancelled() ||
        std::any_of(awaited.begin(), awaited.end(), [this](Worker& worker) {
          return IsAwaited(worker) && worker.HasFinished();
        })) {
      spin_.Succeeded();
      return true;
    }
    StdAtomics::Pause();
  }
  spin_.Failed();
  return false;
}

absl::Status WorkerSet::Sleep(std::optional<size_t> only) {
  TENON_RETURN_IF_ERROR(EndHung());
  awaited_.clear();
  for (Worker& worker : Awaited(only)) {
    // Results that are not awaited may have rung the bell already. A handshake
    // ends the sleep without it.
    if (!IsAwaited(worker) || !worker.run.link.has_joined()) continue;
    awaited_.push_back({static_cast<size_t>(worker.index), &worker.run.link});
  }
  const auto failed = waiter_.Sleep(awaited_, LatestWakeUp());
  if (absl::IsDeadlineExceeded(failed.status())) {
    return deadline_.has_passed() ? absl::DeadlineExceededError(Describe())
                                  : absl::OkStatus();
  }
  TENON_RETURN_IF_ERROR(failed.status());
  if (!failed->has_value()) return absl::OkStatus();
  return OnError(workers_[(*failed)->worker], (*failed)->why);
}

Deadline WorkerSet::LatestWakeUp() const {
  Deadline latest = deadline_;
  if (options_.sample_timeout != absl::InfiniteDuration()) {
    // To look for samples that take too long.
    latest = Earlier(
        latest, Deadline::After(options_.sample_timeout / kLooksPerTimeout));
  }
  if (joining_ == 0) return latest;
  for (const Worker& worker : workers_) {
    latest = Earlier(latest, worker.joins_by);
  }
  return latest;
}

absl::Status WorkerSet::Replace(Worker& worker, absl::Status end) {
  if (options_.on_death == OnWorkerDeath::kFail) return end;
  TENON_RETURN_IF_ERROR(KeepFinished(worker));
  TENON_CRASH_POINT("loader_replace.kept");
  TakeBack(worker);
  if (options_.on_death == OnWorkerDeath::kSkipSample &&
      !worker.waiting.empty() &&
      worker.run.loading().LeaveOutOf(worker.waiting.front(), end,
                                      setup_.on_error, options_.dataset_size)) {
    worker.deaths = 0;
  }
  if (setup_.strategy != SharingStrategy::kFileDescriptor) {
    RemoveNames(absl::StrCat(NamePrefixOf(setup_, worker.index), "-"));
  }
  for (;;) {
    incidents_.push_back(end);
    if (incidents_.size() > kMaxIncidents) incidents_.pop_front();
    if (++worker.deaths > options_.max_restarts) {
      return absl::AbortedError(absl::StrCat(
          end.message(), "\nIt was the death number ", worker.deaths,
          " in a row of worker ", worker.index,
          " without a batch between; max_restarts is ", options_.max_restarts));
    }
    WorkerRun::End again = StartAgain(worker);
    if (again.status.ok() || !again.is_death) return again.status;
    TakeBack(worker);
    end = std::move(again.status);
  }
}

absl::Status WorkerSet::KeepFinished(Worker& worker) {
  for (;;) {
    auto left = worker.run.link.Take();
    // The worker may have died before the loader has its arena: then its batch
    // is made again.
    if (absl::IsUnavailable(left.status())) return absl::OkStatus();
    if (!left.ok()) return worker.run.EndOf(left.status()).status;
    if (!left->has_value()) return absl::OkStatus();
    worker.deaths = 0;
    worker.finished.push_back(**std::move(left));
  }
}

void WorkerSet::TakeBack(Worker& worker) {
  std::deque<WorkerLink::Task> tasks = worker.run.link.TakeTasks();
  // Of a process that had not joined, or was being assigned them.
  std::move(worker.waiting.begin(), worker.waiting.end(),
            std::back_inserter(tasks));
  while (!tasks.empty() && tasks.front().job.ticket < first_ticket_) {
    tasks.pop_front();
  }
  worker.waiting = std::move(tasks);
}

WorkerRun::End WorkerSet::StartAgain(Worker& worker) {
  ++replaced_;
  waiter_.Remove(worker.run.host->end_fd());
  waiter_.Remove(worker.run.link.handshake_fd());
  std::vector<WorkerRun> runs;
  absl::Status started = StartRuns(worker.index, 1, runs);
  if (started.ok()) {
    retired_.push_back(std::move(worker.run.host));
    // Most have ended.
    std::erase_if(retired_, [](const std::unique_ptr<WorkerHost>& former) {
      return !absl::IsDeadlineExceeded(former->Join(Deadline::Passed()));
    });
    worker.run = std::move(runs[0]);
    worker.run.link.AbandonBefore(first_ticket_);
    TENON_CRASH_POINT("loader_replace.forked");
    started = BeginJoin(worker);
  }
  if (!started.ok()) {
    // Its supervisor, or it, may have been killed before it ran.
    return {FinalError(absl::StrCat("worker ", worker.index,
                                    " cannot be started again: "),
                       started),
            absl::IsUnavailable(started) || absl::IsAborted(started)};
  }
  TENON_CRASH_POINT("loader_replace.started");
  WorkerRun::End end =
      Join(worker, Earlier(deadline_, Deadline::After(kJoinPatience)));
  TENON_CRASH_POINT("loader_replace.assigned");
  return end;
}

absl::Status WorkerSet::BeginJoin(Worker& worker) {
  worker.joins_by = Deadline::After(kStartPatience);
  CountJoining();
  TENON_RETURN_IF_ERROR(waiter_.AddEnd(static_cast<size_t>(worker.index),
                                       worker.run.host->end_fd()));
  return waiter_.AddHandshake(worker.run.link.handshake_fd());
}

WorkerRun::End WorkerSet::Join(Worker& worker, Deadline deadline) {
  WorkerLink& link = worker.run.link;
  absl::Status joined = link.Handshake(deadline);
  if (absl::IsDeadlineExceeded(joined) && !worker.joins_by.has_passed()) {
    return {};
  }
  // From now on messages come with batches.
  waiter_.Remove(link.handshake_fd());
  // Made now: a sleep then needs no descriptor.
  if (joined.ok()) joined = link.PollFd().status();
  if (!joined.ok()) return worker.run.EndOf(joined);
  worker.joins_by = Deadline::Never();
  CountJoining();
  options_.stats->SetWorker(worker.index, link.TakeStats());
  const absl::Status assigned = AssignWaiting(worker);
  return assigned.ok() ? WorkerRun::End{} : worker.run.EndOf(assigned);
}

absl::Status WorkerSet::AssignWaiting(Worker& worker) {
  for (; !worker.waiting.empty(); worker.waiting.pop_front()) {
    // Another epoch may have begun meanwhile.
    if (worker.waiting.front().job.ticket < first_ticket_) continue;
    TENON_RETURN_IF_ERROR(worker.run.link.Assign(worker.waiting.front()));
  }
  return absl::OkStatus();
}

absl::Status WorkerSet::JoinNew() {
  for (size_t i = 0; joining_ > 0 && i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.run.link.has_joined()) continue;
    TENON_RETURN_IF_ERROR(OnEnd(worker, Join(worker, Deadline::Passed())));
  }
  return absl::OkStatus();
}

void WorkerSet::CountJoining() {
  joining_ = static_cast<size_t>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const Worker& worker) { return !worker.run.link.has_joined(); }));
}

absl::Status WorkerSet::Recycle(size_t index) {
  if (!options_.recycle_after_samples && !options_.recycle_after_bytes) {
    return absl::OkStatus();
  }
  Worker& worker = workers_[index];
  WorkerRun& run = worker.run;
  run.retires = run.retires || run.IsWorn(options_.recycle_after_samples,
                                          options_.recycle_after_bytes);
  if (!run.retires || run.link.outstanding() > 0) return absl::OkStatus();
  run.link.HangUp();
  run.link.Release();
  return OnEnd(worker, StartAgain(worker));
}

absl::Status WorkerSet::EndHung() {
  if (options_.sample_timeout == absl::InfiniteDuration()) {
    return absl::OkStatus();
  }
  const int64_t now = MonotonicNs();
  // Only time in which this process waits counts: between two calls of Next() a
  // worker may have been stopped and continued.
  const bool was_away = now - looked_at_ns_ >
                        absl::ToInt64Nanoseconds(options_.sample_timeout) / 2;
  looked_at_ns_ = now;
  for (Worker& worker : workers_) {
    if (was_away) worker.run.seen_since_ns = now;
    if (worker.run.Hangs(options_.sample_timeout, now)) {
      return Replace(worker, worker.run.Abort(options_.sample_timeout));
    }
  }
  return absl::OkStatus();
}

std::string WorkerSet::Describe() const {
  std::string text;
  for (const Worker& worker : workers_) {
    const WorkerLink::Job* job = worker.run.link.current();
    absl::StrAppend(&text, "; ", worker.run.host->Describe(),
                    job != nullptr
                        ? absl::StrCat(" is making batch ", job->number)
                    : worker.run.link.has_joined() ? " has nothing to do"
                                                   : " is starting",
                    IsAwaited(worker) ? "" : " of the next epoch");
    const std::string loading = worker.run.Describe();
    if (!loading.empty()) absl::StrAppend(&text, ", ", loading);
    const StatsView* const stats = options_.stats->worker(worker.index);
    if (job == nullptr || stats == nullptr) continue;
    absl::StrAppend(&text, ": ", DoingNow(*stats));
  }
  return text;
}

std::vector<pid_t> WorkerSet::Pids() const {
  std::vector<pid_t> pids;
  for (const Worker& worker : workers_) {
    if (worker.run.host->pid() != 0) pids.push_back(worker.run.host->pid());
  }
  return pids;
}

}  // namespace tenon::loader
