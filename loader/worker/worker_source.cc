// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_source.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
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
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/loader/data/on_worker_death.h"
#include "tenon/loader/data/worker_kind.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_board.h"
#include "tenon/loader/stats/stats_memory.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_host.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/read_file.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/spawn/report/process_error.h"

namespace tenon::loader {
namespace {

// How long a worker may take from its start to main().
constexpr absl::Duration kStartPatience = absl::Seconds(60);
// Of a worker that has closed its ring: the reason comes with its end.
constexpr absl::Duration kEndPatience = absl::Seconds(5);
// How long Next() stays with the handshake of a process that it has started,
// before it goes on with other workers.
constexpr absl::Duration kJoinPatience = absl::Seconds(1);
// Of one that is asked for its stack.
constexpr absl::Duration kStackPatience = absl::Seconds(2);
// How often a worker is looked at in LoaderOptions::sample_timeout.
constexpr int kLooksPerTimeout = 4;
constexpr size_t kMaxIncidents = 64;

// What epoll reports; ends of workers count from kEnds.
constexpr uint64_t kWakeOnly = 0;
constexpr uint64_t kEnds = 1;

// `status` with `prefix`, as an error of the loader: kDeadlineExceeded would
// ask the caller to try again, kCancelled is that of Loader::Cancel().
absl::Status Final(const absl::Status& status, absl::string_view prefix) {
  if (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) {
    return absl::AbortedError(absl::StrCat(prefix, status.ToString()));
  }
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

// Whether a signal or a debugger keeps the process from running, or may.
bool IsHeld(pid_t pid) {
  const std::string status =
      ReadFile(absl::StrCat("/proc/", pid, "/status")).value_or("");
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    if (absl::StartsWith(line, "State:\tT") ||
        absl::StartsWith(line, "State:\tt")) {
      return true;
    }
    int tracer = 0;
    if (absl::StartsWith(line, "TracerPid:") &&
        absl::SimpleAtoi(line.substr(sizeof("TracerPid:") - 1), &tracer)) {
      return tracer != 0;
    }
  }
  return false;
}

// "; it waits in the kernel's futex_wait_queue", if the kernel says where.
std::string WaitsIn(pid_t pid) {
  const std::string where =
      ReadFile(absl::StrCat("/proc/", pid, "/wchan")).value_or("");
  if (where.empty() || where == "0") return "";
  return absl::StrCat("; it waits in the kernel's ", where);
}

// Memory of the process that it shares with no other. 0 if unknown.
int64_t PrivateBytesOf(pid_t pid) {
  const std::string statm =
      ReadFile(absl::StrCat("/proc/", pid, "/statm")).value_or("");
  const std::vector<absl::string_view> pages = absl::StrSplit(statm, ' ');
  int64_t resident = 0;
  int64_t shared = 0;
  if (pages.size() < 3 || !absl::SimpleAtoi(pages[1], &resident) ||
      !absl::SimpleAtoi(pages[2], &shared)) {
    return 0;
  }
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

void RemoveNames(absl::string_view prefix) {
  const auto names = ListShmNames(prefix);
  if (!names.ok()) return;
  for (const std::string& name : *names) RemoveShmName(name).IgnoreError();
}

absl::StatusOr<Segment> CreateNote() {
  return Segment::CreateSharedWritable(
      sizeof(WorkerNote), {.strategy = SharingStrategy::kFileDescriptor});
}

// An item in the place of `left_out` has ended a worker: goes on after the next
// one. That is this item, or one whose error the worker has seen before. False
// after as many as it would try.
bool TryAnother(int64_t dataset_size, SkippedSample& left_out) {
  const int64_t last =
      left_out.replaced_by >= 0 ? left_out.replaced_by : left_out.index;
  const int64_t tried =
      last - left_out.index + (last < left_out.index ? dataset_size : 0);
  if (tried >= std::min(kReplacements, dataset_size - 1)) return false;
  left_out.replaced_by = last < dataset_size - 1 ? last + 1 : 0;
  return true;
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

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSource>> WorkerSource::Create(
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
  auto source = absl::WrapUnique(
      new WorkerSource(std::move(setup), options, recipe, std::move(layout),
                       std::move(control), cancellation));
  TENON_RETURN_IF_ERROR(source->Start());
  source->epoch_ = source->NewEpoch({});
  return source;
}

WorkerSource::WorkerSource(WorkerSetup setup, const Options& options,
                           const DatasetRecipe& recipe,
                           std::shared_ptr<const BatchLayout> layout,
                           Segment::OwnerWritten control,
                           const Cancellation* cancellation)
    : setup_(std::move(setup)),
      options_(options),
      recipe_(recipe),
      stats_(options.stats),
      in_order_(options.in_order),
      overlap_epochs_(options.overlap_epochs),
      layout_(std::move(layout)),
      control_(std::move(control)),
      cancellation_(cancellation),
      spin_(SpinBudget::ForThisProcess(setup_.workers * setup_.threads)),
      joiner_(layout_) {
  if (options.tune) tuner_.emplace(options.workers, setup_.prefetch);
}

absl::Status WorkerSource::Start() {
  std::vector<WorkerLink> links;
  for (int i = 0; i < options_.workers; ++i) {
    TENON_ASSIGN_OR_RETURN(WorkerLink link,
                           WorkerLink::Create(i, setup_.prefetch, layout_));
    links.push_back(std::move(link));
  }
  TENON_RETURN_IF_ERROR(StartHosts(std::move(links)));
  epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return PosixError(errno, "epoll_create1", "loader");
  TENON_RETURN_IF_ERROR(Watch(cancellation_->fd(), kWakeOnly));
  const Deadline deadline = Deadline::After(kStartPatience);
  for (size_t i = 0; i < workers_.size(); ++i) {
    absl::Status met = Meet(i, deadline);
    if (met.ok()) met = Watch(workers_[i].host->end_fd(), kEnds + i);
    if (!met.ok()) return Failure(workers_[i], met);
  }
  return absl::OkStatus();
}

absl::Status WorkerSource::Meet(size_t index, Deadline deadline) {
  Worker& worker = workers_[index];
  TENON_RETURN_IF_ERROR(worker.link.Handshake(deadline));
  // Made now: Next() then needs no descriptor.
  TENON_RETURN_IF_ERROR(worker.link.PollFd().status());
  stats_->SetWorker(static_cast<int>(index), worker.link.TakeStats());
  return absl::OkStatus();
}

absl::Status WorkerSource::StartHosts(std::vector<WorkerLink> links) {
  std::vector<WorkerEnd> ends;
  std::vector<WritableMapping> notes;
  std::vector<WorkerNote*> words;
  for (WorkerLink& link : links) {
    TENON_ASSIGN_OR_RETURN(Segment note, CreateNote());
    TENON_ASSIGN_OR_RETURN(notes.emplace_back(), note.MapWritable());
    words.push_back(reinterpret_cast<WorkerNote*>(notes.back().data()));
    ends.push_back({link.TakeWorkerEnd(), std::move(note)});
  }
  std::vector<std::unique_ptr<WorkerHost>> hosts;
  const absl::Status started =
      options_.kind == WorkerKind::kThread
          ? StartWorkerThreads(std::move(ends), setup_, recipe_, control(),
                               words, hosts)
          : StartWorkerProcesses(std::move(ends), setup_, recipe_,
                                 {.program = options_.program,
                                  .method = options_.start_method,
                                  .crash_stack = wants_stacks()},
                                 control_.segment, hosts);
  // After an error the destructor ends those that were started.
  for (size_t i = 0; i < hosts.size(); ++i) {
    workers_.push_back({.note = std::move(notes[i]),
                        .host = std::move(hosts[i]),
                        .link = std::move(links[i])});
  }
  return started;
}

absl::Status WorkerSource::Watch(int fd, uint64_t what) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = what}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return PosixError(errno, "epoll_ctl", "loader");
  }
  return absl::OkStatus();
}

WorkerSource::~WorkerSource() {
  if (fork_count_ != ForkCount()) {
    // The workers are the parent's, and of its threads this process has none.
    for (Worker& worker : workers_) static_cast<void>(worker.host.release());
    for (auto& host : retired_) static_cast<void>(host.release());
    return;
  }
  StdAtomics::Store(control().stop, 1, std::memory_order_release);
  for (Worker& worker : workers_) worker.link.HangUp();
  // While the workers exit.
  for (Worker& worker : workers_) worker.link.Release();
  for (Worker& worker : workers_) retired_.push_back(std::move(worker.host));
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

void WorkerSource::JoinAll(Deadline deadline) {
  for (const auto& host : retired_) host->Join(deadline).IgnoreError();
}

WorkerControl& WorkerSource::control() {
  return *reinterpret_cast<WorkerControl*>(control_.mapping.data());
}

void WorkerSource::StartEpoch(const EpochPlan& plan) {
  returned_at_ns_ = 0;
  waited_ns_ = 0;
  has_returned_ = false;
  joiner_.Abandon();
  if (ahead_ && ahead_->tasks.plan().epoch == plan.epoch &&
      plan.whole == nullptr) {
    epoch_ = *std::move(ahead_);
  } else {
    epoch_ = NewEpoch(plan);
  }
  ahead_.reset();
  StdAtomics::Store(control().first_ticket, first_ticket(),
                    std::memory_order_release);
  for (Worker& worker : workers_) worker.link.AbandonBefore(first_ticket());
}

WorkerSource::Epoch WorkerSource::NewEpoch(const EpochPlan& plan) const {
  const size_t workers =
      tuner_ ? static_cast<size_t>(tuner_->workers()) : workers_.size();
  return {EpochTasks(plan, workers, next_ticket_,
                     {.in_order = in_order_,
                      .batch_size = setup_.batch_size,
                      .drop_last = setup_.drop_last}),
          {}};
}

bool WorkerSource::BeginNextEpoch() {
  const EpochPlan& plan = epoch_.tasks.plan();
  if (!overlap_epochs_ || ahead_ || !epoch_.tasks.done() ||
      plan.epoch == std::numeric_limits<int64_t>::max()) {
    return false;
  }
  EpochPlan next = plan.whole == nullptr ? plan : *plan.whole;
  next.epoch = plan.epoch + 1;
  ahead_ = NewEpoch(next);
  return ahead_->tasks.has_next();
}

absl::StatusOr<std::optional<BatchResult>> WorkerSource::Next(
    Deadline deadline) {
  if (stats_->meter().measured()) NoteReady();
  if (!tuner_) return NextResult(deadline);
  const int64_t begin = MonotonicNs();
  absl::StatusOr<std::optional<BatchResult>> result = NextResult(deadline);
  const int64_t end = MonotonicNs();
  waited_ns_ += end - begin;
  if (!result.ok() || !result->has_value()) return result;
  // A change that an epoch of shards has yet to see is not judged by it.
  const auto workers = static_cast<size_t>(tuner_->workers());
  if (returned_at_ns_ != 0 && assigning().tasks.workers() == workers) {
    tuner_->OnBatch(waited_ns_, end - returned_at_ns_);
  }
  returned_at_ns_ = end;
  waited_ns_ = 0;
  assigning().tasks.SetWorkers(static_cast<size_t>(tuner_->workers()));
  return result;
}

absl::StatusOr<std::optional<BatchResult>> WorkerSource::NextResult(
    Deadline deadline) {
  deadline_ = deadline;
  for (;;) {
    // Before the end: a batch that could not be assigned is missing.
    TENON_RETURN_IF_ERROR(failure_);
    if (epoch_.awaited.empty() &&
        (epoch_.tasks.done() || cancellation_->is_draining())) {
      // Of shards, the end may be known only now.
      failure_ = Dispatch();
      return std::nullopt;
    }
    if (cancellation_->is_cancelled()) return Cancellation::Error();
    if (joining_ > 0) TENON_RETURN_IF_ERROR(JoinNew());
    TENON_RETURN_IF_ERROR(Dispatch());
    // A drain that began just now: there is nothing to wait for.
    if (epoch_.awaited.empty() && cancellation_->is_draining()) continue;
    if (epoch_.tasks.has_error() && (epoch_.awaited.empty() || !in_order_)) {
      return epoch_.tasks.TakeError();
    }
    const absl::Span<Worker> awaited = AwaitedWorkers();
    TENON_ASSIGN_OR_RETURN(std::optional<WorkerLink::Finished> finished,
                           TakeOne(awaited));
    if (finished) {
      // Let the worker go on while the caller uses the batch, which is good
      // also if another worker has failed meanwhile.
      failure_ = Dispatch();
      if (finished->ended) continue;
      std::optional<absl::StatusOr<Batch>> batch = std::move(finished->batch);
      if (joiner_.is_joining()) batch = joiner_.Add(*std::move(batch));
      if (!batch) continue;
      has_returned_ = true;
      return BatchResult{*std::move(batch), finished->job.number};
    }
    // Where the results of abandoned tasks were in the way.
    if (CanDispatch()) continue;
    TENON_RETURN_IF_ERROR(Wait(awaited, deadline));
  }
}

absl::Span<WorkerSource::Worker> WorkerSource::AwaitedWorkers() {
  if (!in_order_) return absl::MakeSpan(workers_);
  // Only results of abandoned tasks can keep a worker from taking one.
  return {&workers_[epoch_.awaited.empty() ? NextWorker()
                                           : epoch_.awaited.front().worker],
          1};
}

absl::StatusOr<std::optional<WorkerLink::Finished>> WorkerSource::TakeOne(
    absl::Span<Worker> workers) {
  for (size_t i = 0; i < workers.size(); ++i) {
    // Each in turn, so that a fast one does not keep the others waiting.
    Worker& worker = workers[(next_polled_ + i) % workers.size()];
    absl::StatusOr<std::optional<WorkerLink::Finished>> finished = Take(worker);
    if (finished.ok() && !finished->has_value()) continue;
    if (!finished.ok()) return finished;
    const auto index = static_cast<size_t>(&worker - workers_.data());
    next_polled_ = index + 1;
    epoch_.awaited.pop_front();
    const WorkerLink::Finished& result = **finished;
    if (result.ended) epoch_.tasks.EndLane(index, result.job.lane);
    return finished;
  }
  return std::nullopt;
}

size_t WorkerSource::LoadOf(const Worker& worker) {
  return worker.retires || !worker.link.has_joined()
             ? std::numeric_limits<size_t>::max()
             : worker.link.outstanding();
}

size_t WorkerSource::NextWorker() {
  return assigning().tasks.NextWorker(
      [this](size_t worker) { return LoadOf(workers_[worker]); });
}

bool WorkerSource::CanDispatch() {
  return !cancellation_->is_draining() && assigning().tasks.has_next() &&
         CanTake(workers_[NextWorker()]);
}

absl::Status WorkerSource::Dispatch() {
  while (!cancellation_->is_draining() &&
         (assigning().tasks.has_next() || BeginNextEpoch())) {
    const size_t next = NextWorker();
    TENON_RETURN_IF_ERROR(DropAbandoned(workers_[next]));
    if (!CanTake(workers_[next])) break;
    TENON_RETURN_IF_ERROR(AssignNext(next));
  }
  return absl::OkStatus();
}

absl::Status WorkerSource::AssignNext(size_t worker) {
  std::optional<WorkerLink::Task> task = assigning().tasks.Next(worker);
  if (!task) return absl::OkStatus();
  const size_t parts = std::min(workers_.size(), task->indices.size());
  if (MayBeInParts(*task) && joiner_.Begin(task->job.number, parts)) {
    return AssignParts(*task, parts);
  }
  return AssignTo(worker, *std::move(task));
}

bool WorkerSource::MayBeInParts(const WorkerLink::Task& task) const {
  return in_order_ && !ahead_ && workers_.size() > 1 &&
         task.indices.size() > 1 &&
         task.job.number == epoch_.tasks.plan().first_batch &&
         std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) {
           return w.link.outstanding() == 0 && w.link.has_joined();
         });
}

absl::Status WorkerSource::AssignParts(const WorkerLink::Task& task,
                                       size_t parts) {
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = i * task.indices.size() / parts;
    const size_t end = (i + 1) * task.indices.size() / parts;
    WorkerLink::Task part = {
        .job = task.job,
        .indices = {task.indices.begin() + begin, task.indices.begin() + end}};
    part.job.first_position += static_cast<int64_t>(begin);
    TENON_RETURN_IF_ERROR(AssignTo(i, std::move(part)));
  }
  return absl::OkStatus();
}

absl::Status WorkerSource::AssignTo(size_t index, WorkerLink::Task task) {
  task.job.ticket = next_ticket_++;
  assigning().awaited.push_back({.worker = index, .number = task.job.number});
  Worker& worker = workers_[index];
  const absl::Status assigned = worker.link.Assign(task);
  if (assigned.ok()) return assigned;
  TENON_RETURN_IF_ERROR(OnError(worker, assigned));
  if (!worker.link.has_joined()) {
    worker.waiting.push_back(std::move(task));
    return absl::OkStatus();
  }
  const absl::Status again = worker.link.Assign(std::move(task));
  return again.ok() ? again : Failure(worker, again);
}

void WorkerSource::NoteReady() {
  if (epoch_.awaited.empty()) return;
  const absl::Span<Worker> awaited = AwaitedWorkers();
  uint64_t ready = 0;
  for (const Worker& worker : awaited) {
    const StatsView* const stats =
        stats_->worker(static_cast<int>(&worker - workers_.data()));
    if (stats == nullptr || !worker.link.has_joined()) continue;
    const uint64_t made = stats->batches();
    if (made > worker.link.claimed()) ready += made - worker.link.claimed();
  }
  stats_->meter().AddReady(ready / awaited.size());
}

absl::Status WorkerSource::DropAbandoned(Worker& worker) {
  for (;;) {
    const WorkerLink::Job* job = Current(worker);
    if (job == nullptr || job->ticket >= first_ticket())
      return absl::OkStatus();
    const auto finished = TakeAny(worker);
    if (!finished.ok()) return OnError(worker, finished.status());
    if (!finished->has_value()) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(Recycle(worker));
  }
}

absl::StatusOr<std::optional<WorkerLink::Finished>> WorkerSource::Take(
    Worker& worker) {
  TENON_RETURN_IF_ERROR(DropAbandoned(worker));
  if (!IsAwaited(worker)) return std::nullopt;
  const WorkerLink::Job* job = Current(worker);
  if (job != nullptr && job->ticket < first_ticket()) return std::nullopt;
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
    batch = absl::Status(
        batch.status().code(),
        absl::StrCat(worker.host->Describe(), ": ", batch.status().message()));
  }
  const absl::Status recycled = Recycle(worker);
  if (failure_.ok()) failure_ = recycled;
  return finished;
}

absl::StatusOr<std::optional<WorkerLink::Finished>> WorkerSource::TakeAny(
    Worker& worker) {
  if (!worker.finished.empty()) {
    const absl::Cleanup pop = [&] { worker.finished.pop_front(); };
    return std::move(worker.finished.front());
  }
  auto finished = worker.link.Take();
  if (!finished.ok() || !finished->has_value()) return finished;
  stats_->meter().SetTaken(static_cast<int>(&worker - workers_.data()),
                           worker.link.claimed());
  worker.deaths = 0;
  if ((*finished)->batch.ok()) worker.samples += (*finished)->batch->size();
  return finished;
}

absl::Status WorkerSource::Wait(absl::Span<Worker> workers, Deadline deadline) {
  const bool is_first = !has_returned_;
  StageMeter& meter = stats_->meter();
  if (in_order_ && !epoch_.awaited.empty()) {
    meter.SetBatch(epoch_.tasks.plan().epoch, epoch_.awaited.front().number);
  }
  is_first ? meter.EnterTimed(Stage::kStart) : meter.Enter(Stage::kWait);
  const absl::Status waited = SpinAndSleep(workers, deadline);
  meter.Enter(Stage::kTake);
  return waited;
}

absl::Status WorkerSource::SpinAndSleep(absl::Span<Worker> workers,
                                        Deadline deadline) {
  const auto ready = [&] {
    return cancellation_->is_cancelled() ||
           std::any_of(workers.begin(), workers.end(), [this](Worker& worker) {
             return IsAwaited(worker) && HasFinished(worker);
           });
  };
  // Where it does not spin: no bell rings for what a former process has left.
  if (std::any_of(workers.begin(), workers.end(), [this](Worker& worker) {
        return IsAwaited(worker) && !worker.finished.empty();
      })) {
    return absl::OkStatus();
  }
  // A turn of the budget is the check of one ring.
  for (uint64_t turn = 0; turn < spin_.turns(); turn += workers.size()) {
    if (ready()) {
      spin_.Succeeded();
      return absl::OkStatus();
    }
    StdAtomics::Pause();
  }
  spin_.Failed();
  stats_->meter().EnterTimed(has_returned_ ? Stage::kWait : Stage::kStart);
  return Sleep(workers, deadline);
}

absl::Status WorkerSource::Sleep(absl::Span<Worker> workers,
                                 Deadline deadline) {
  TENON_RETURN_IF_ERROR(EndHung());
  // The bells of workers that are not awaited may be rung already.
  polled_.assign(1, {.fd = epoll_.get(), .events = POLLIN, .revents = 0});
  absl::StatusOr<int> woken = 1;
  absl::StatusOr<bool> may_sleep = true;
  for (Worker& worker : workers) {
    polled_.push_back({.fd = -1, .events = 0, .revents = 0});
    // A handshake wakes by epoll_.
    if (!IsAwaited(worker) || !worker.link.has_joined()) continue;
    TENON_ASSIGN_OR_RETURN(const int bell, worker.link.PollFd());
    polled_.back() = {.fd = bell, .events = POLLIN, .revents = 0};
    may_sleep = worker.link.Arm();
    if (!may_sleep.ok() || !*may_sleep) break;
  }
  if (may_sleep.ok() && *may_sleep) woken = Poll(deadline);
  const size_t armed = polled_.size() - 1;
  for (Worker& worker : workers.first(armed)) {
    if (worker.link.has_joined()) worker.link.Disarm();
  }
  if (!may_sleep.ok()) return OnError(workers[armed - 1], may_sleep.status());
  TENON_RETURN_IF_ERROR(woken.status());
  if (*woken == 0) {
    return deadline.has_passed() ? absl::DeadlineExceededError(Waiting())
                                 : absl::OkStatus();
  }
  for (size_t i = 1; i < polled_.size(); ++i) {
    if (polled_[i].revents == 0 || workers[i - 1].link.HasFinished()) continue;
    const absl::Status alive = workers[i - 1].link.CheckAlive();
    if (!alive.ok()) return OnError(workers[i - 1], alive);
  }
  if (polled_[0].revents == 0) return absl::OkStatus();
  epoll_event events[16];
  const int count = epoll_wait(epoll_.get(), events, 16, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 < kEnds) continue;
    return OnError(workers_[events[i].data.u64 - kEnds],
                   absl::UnavailableError("it has ended"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> WorkerSource::Poll(Deadline deadline) {
  if (options_.sample_timeout != absl::InfiniteDuration()) {
    // To look for samples that take too long.
    deadline = Earlier(
        deadline, Deadline::After(options_.sample_timeout / kLooksPerTimeout));
  }
  for (size_t i = 0; joining_ > 0 && i < workers_.size(); ++i) {
    deadline = Earlier(deadline, workers_[i].joins_by);
  }
  return PollUntil(polled_.data(), polled_.size(), deadline);
}

absl::Status WorkerSource::OnError(Worker& worker, const absl::Status& why) {
  End end = EndOf(worker, why);
  return end.is_death ? Replace(worker, std::move(end.status)) : end.status;
}

WorkerSource::End WorkerSource::EndOf(Worker& worker, const absl::Status& why) {
  if (!absl::IsUnavailable(why)) {
    return {Final(why, absl::StrCat(worker.host->Describe(), ": "))};
  }
  // The ring closes as the process goes; its end is a moment away.
  const absl::Status how = worker.host->Join(Deadline::After(kEndPatience));
  const std::string loading = LoadingOf(worker);
  if (how.ok()) {
    return {absl::AbortedError(absl::StrCat(
                worker.host->Describe(), " ended before its work was done",
                loading.empty() ? "" : ", while it loaded ", loading)),
            true};
  }
  if (!spawn::GetProcessExited(how)) {
    return {Final(how, absl::IsDeadlineExceeded(how)
                           ? absl::StrCat(worker.host->Describe(), ": ",
                                          why.message(), "; its end: ")
                           : "")};
  }
  if (loading.empty()) return {Final(how, ""), true};
  // Behind the first line: a stack may follow.
  std::string text(how.message());
  text.insert(std::min(text.find('\n'), text.size()),
              absl::StrCat(", while it loaded ", loading));
  return {Final(absl::Status(how.code(), text), ""), true};
}

std::string WorkerSource::LoadingOf(const Worker& worker) const {
  const WorkerNote& note = NoteOf(worker);
  const uint64_t sample =
      StdAtomics::Load(note.sample, std::memory_order_acquire);
  const WorkerLink::Task* task = worker.link.Find(
      StdAtomics::Load(note.ticket, std::memory_order_acquire));
  if (task == nullptr || sample == WorkerNote::kNone) return "";
  if (task->is_of_lane()) {
    return absl::StrCat("sample ", sample - 1, " of batch ", task->job.number);
  }
  const int64_t first = task->job.first_position;
  if (sample == WorkerNote::kAll) {
    return absl::StrCat("samples ", first, " to ", first + task->count() - 1);
  }
  if (sample > task->indices.size()) return "";
  return absl::StrCat("sample ", first + static_cast<int64_t>(sample) - 1,
                      " (item ", task->indices[sample - 1], ")");
}

bool WorkerSource::LeaveOut(const Worker& worker, const absl::Status& end,
                            std::deque<WorkerLink::Task>& tasks) const {
  if (options_.on_death != OnWorkerDeath::kSkipSample || tasks.empty()) {
    return false;
  }
  WorkerLink::Task& task = tasks.front();
  const WorkerNote& note = NoteOf(worker);
  const uint64_t sample =
      StdAtomics::Load(note.sample, std::memory_order_acquire);
  if (StdAtomics::Load(note.ticket, std::memory_order_acquire) !=
          task.job.ticket ||
      sample == WorkerNote::kNone) {
    return false;
  }
  if (sample == WorkerNote::kAll) return !std::exchange(task.one_by_one, true);
  if (sample > task.indices.size()) return false;
  const int64_t position =
      task.job.first_position + static_cast<int64_t>(sample) - 1;
  const auto place = std::lower_bound(
      task.left_out.begin(), task.left_out.end(), position,
      [](const SkippedSample& other, int64_t p) { return other.position < p; });
  if (place != task.left_out.end() && place->position == position) {
    return setup_.on_error == OnSampleError::kReplace &&
           TryAnother(epoch_.tasks.plan().dataset_size, *place);
  }
  task.left_out.insert(
      place,
      {.position = position, .index = task.indices[sample - 1], .status = end});
  return true;
}

absl::Status WorkerSource::Replace(Worker& worker, absl::Status end) {
  if (options_.on_death == OnWorkerDeath::kFail) return end;
  for (;;) {
    absl::StatusOr<std::optional<WorkerLink::Finished>> left =
        worker.link.Take();
    // The worker may have died before the loader has its arena: then its batch
    // is made again.
    if (!left.ok() && !absl::IsUnavailable(left.status())) {
      return Failure(worker, left.status());
    }
    if (!left.ok() || !left->has_value()) break;
    worker.deaths = 0;
    worker.finished.push_back(std::move(left));
  }
  TENON_CRASH_POINT("loader_replace.kept");
  TakeBack(worker);
  if (LeaveOut(worker, end, worker.waiting)) worker.deaths = 0;
  if (setup_.strategy != SharingStrategy::kFileDescriptor) {
    const auto index = static_cast<int>(&worker - workers_.data());
    RemoveNames(absl::StrCat(NamePrefixOf(setup_, index), "-"));
  }
  for (;;) {
    incidents_.push_back(end);
    if (incidents_.size() > kMaxIncidents) incidents_.pop_front();
    if (++worker.deaths > options_.max_restarts) {
      return absl::AbortedError(absl::StrCat(
          end.message(), "\nIt was the death number ", worker.deaths,
          " in a row of worker ", &worker - workers_.data(),
          " without a batch between; max_restarts is ", options_.max_restarts));
    }
    End again = StartAgain(worker);
    ++replaced_;
    if (again.status.ok() || !again.is_death) return again.status;
    TakeBack(worker);
    end = std::move(again.status);
  }
}

void WorkerSource::TakeBack(Worker& worker) {
  std::deque<WorkerLink::Task> tasks = worker.link.TakeTasks();
  // Of a process that had not joined, or was being assigned them.
  std::move(worker.waiting.begin(), worker.waiting.end(),
            std::back_inserter(tasks));
  while (!tasks.empty() && tasks.front().job.ticket < first_ticket()) {
    tasks.pop_front();
  }
  worker.waiting = std::move(tasks);
}

absl::StatusOr<std::unique_ptr<WorkerHost>> WorkerSource::StartHost(
    int index, WorkerEnd end) {
  std::vector<WorkerEnd> ends;
  ends.push_back(std::move(end));
  std::vector<std::unique_ptr<WorkerHost>> hosts;
  TENON_RETURN_IF_ERROR(StartWorkerProcesses(std::move(ends), setup_, recipe_,
                                             {.program = options_.program,
                                              .method = options_.start_method,
                                              .crash_stack = wants_stacks(),
                                              .first = index},
                                             control_.segment, hosts));
  return std::move(hosts[0]);
}

WorkerSource::End WorkerSource::StartAgain(Worker& worker) {
  const auto index = static_cast<int>(&worker - workers_.data());
  const auto cannot = [&](const absl::Status& why) {
    // Its supervisor, or it, may have been killed before it ran.
    return End{Final(why, absl::StrCat("worker ", index,
                                       " cannot be started again: ")),
               absl::IsUnavailable(why) || absl::IsAborted(why)};
  };
  for (const int fd : {worker.host->end_fd(), worker.link.handshake_fd()}) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  absl::StatusOr<WorkerLink> link =
      WorkerLink::Create(index, setup_.prefetch, layout_);
  if (!link.ok()) return cannot(link.status());
  absl::StatusOr<Segment> note = CreateNote();
  if (!note.ok()) return cannot(note.status());
  absl::StatusOr<WritableMapping> mapped = note->MapWritable();
  if (!mapped.ok()) return cannot(mapped.status());
  absl::StatusOr<std::unique_ptr<WorkerHost>> host =
      StartHost(index, {link->TakeWorkerEnd(), *std::move(note)});
  if (!host.ok()) return cannot(host.status());
  retired_.push_back(std::exchange(worker.host, *std::move(host)));
  // Most have ended.
  std::erase_if(retired_, [](const std::unique_ptr<WorkerHost>& former) {
    return !absl::IsDeadlineExceeded(former->Join(Deadline::Passed()));
  });
  worker.link = *std::move(link);
  worker.note = *std::move(mapped);
  TENON_CRASH_POINT("loader_replace.forked");
  worker.samples = 0;
  worker.first_bytes = -1;
  worker.retires = false;
  worker.seen_sample = WorkerNote::kNone;
  worker.link.AbandonBefore(first_ticket());
  worker.joins_by = Deadline::After(kStartPatience);
  CountJoining();
  absl::Status watched =
      Watch(worker.host->end_fd(), kEnds + static_cast<size_t>(index));
  if (watched.ok()) watched = Watch(worker.link.handshake_fd(), kWakeOnly);
  if (!watched.ok()) return cannot(watched);
  TENON_CRASH_POINT("loader_replace.started");
  return Join(worker, Earlier(deadline_, Deadline::After(kJoinPatience)));
}

WorkerSource::End WorkerSource::Join(Worker& worker, Deadline deadline) {
  const auto index = static_cast<size_t>(&worker - workers_.data());
  const absl::Status met = Meet(index, deadline);
  if (absl::IsDeadlineExceeded(met) && !worker.joins_by.has_passed()) {
    return {};
  }
  // From now on messages come with batches.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, worker.link.handshake_fd(), nullptr);
  if (!met.ok()) return EndOf(worker, met);
  worker.joins_by = Deadline::Never();
  CountJoining();
  const absl::Status assigned = AssignWaiting(worker);
  return assigned.ok() ? End{} : EndOf(worker, assigned);
}

absl::Status WorkerSource::AssignWaiting(Worker& worker) {
  for (; !worker.waiting.empty(); worker.waiting.pop_front()) {
    // Another epoch may have begun meanwhile.
    if (worker.waiting.front().job.ticket < first_ticket()) continue;
    TENON_RETURN_IF_ERROR(worker.link.Assign(worker.waiting.front()));
  }
  TENON_CRASH_POINT("loader_replace.assigned");
  return absl::OkStatus();
}

absl::Status WorkerSource::JoinNew() {
  for (Worker& worker : workers_) {
    if (worker.link.has_joined()) continue;
    End end = Join(worker, Deadline::Passed());
    TENON_RETURN_IF_ERROR(end.is_death ? Replace(worker, std::move(end.status))
                                       : end.status);
  }
  return absl::OkStatus();
}

void WorkerSource::CountJoining() {
  joining_ = static_cast<size_t>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const Worker& worker) { return !worker.link.has_joined(); }));
}

bool WorkerSource::IsWorn(Worker& worker) {
  if (options_.recycle_after_samples &&
      worker.samples >= *options_.recycle_after_samples) {
    return true;
  }
  // What is claimed may be of the process before it.
  if (!options_.recycle_after_bytes || worker.link.claimed() == 0) return false;
  const int64_t bytes = PrivateBytesOf(worker.host->pid());
  if (worker.first_bytes < 0) worker.first_bytes = bytes;
  return bytes - worker.first_bytes >= *options_.recycle_after_bytes;
}

absl::Status WorkerSource::Recycle(Worker& worker) {
  if (!options_.recycle_after_samples && !options_.recycle_after_bytes) {
    return absl::OkStatus();
  }
  worker.retires = worker.retires || IsWorn(worker);
  if (!worker.retires || worker.link.outstanding() > 0) return absl::OkStatus();
  worker.link.HangUp();
  worker.link.Release();
  End again = StartAgain(worker);
  ++replaced_;
  return again.is_death ? Replace(worker, std::move(again.status))
                        : again.status;
}

bool WorkerSource::Hangs(Worker& worker, int64_t now) {
  const WorkerNote& note = NoteOf(worker);
  const uint64_t ticket =
      StdAtomics::Load(note.ticket, std::memory_order_acquire);
  const uint64_t sample =
      StdAtomics::Load(note.sample, std::memory_order_acquire);
  if (ticket != worker.seen_ticket || sample != worker.seen_sample ||
      sample == WorkerNote::kNone || worker.link.Find(ticket) == nullptr) {
    worker.seen_ticket = ticket;
    worker.seen_sample = sample;
    worker.seen_since_ns = now;
    return false;
  }
  if (now - worker.seen_since_ns <
      absl::ToInt64Nanoseconds(options_.sample_timeout)) {
    return false;
  }
  if (!IsHeld(worker.host->pid())) return true;
  worker.seen_since_ns = now;  // The time does not count.
  return false;
}

absl::Status WorkerSource::EndHung() {
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
    if (was_away) worker.seen_since_ns = now;
    if (!Hangs(worker, now)) continue;
    const std::string what =
        absl::StrCat(worker.host->Describe(), " was ended: ", LoadingOf(worker),
                     " takes longer than sample_timeout (",
                     absl::FormatDuration(options_.sample_timeout), ")",
                     WaitsIn(worker.host->pid()));
    // Its handler notes its stack.
    worker.host->Signal(SIGABRT);
    absl::Status how = worker.host->Join(Deadline::After(kStackPatience));
    if (absl::IsDeadlineExceeded(how)) {
      worker.host->Signal(SIGKILL);
      how = worker.host->Join(Deadline::After(kEndPatience));
    }
    const auto exited = spawn::GetProcessExited(how);
    return Replace(worker, absl::AbortedError(absl::StrCat(
                               what, exited && !exited->stack.empty()
                                         ? absl::StrCat("\n", exited->stack)
                                         : "")));
  }
  return absl::OkStatus();
}

std::string WorkerSource::Waiting() const {
  std::string text = "no batch in time";
  if (in_order_ && !epoch_.awaited.empty()) {
    text = absl::StrCat("no batch ", epoch_.awaited.front().number, " in time");
  }
  for (const Worker& worker : workers_) {
    const WorkerLink::Job* job = worker.link.current();
    absl::StrAppend(&text, "; ", worker.host->Describe(),
                    job != nullptr
                        ? absl::StrCat(" is making batch ", job->number)
                    : worker.link.has_joined() ? " has nothing to do"
                                               : " is starting",
                    IsAwaited(worker) ? "" : " of the next epoch");
    const std::string loading = LoadingOf(worker);
    if (!loading.empty()) absl::StrAppend(&text, ", ", loading);
    const auto number = static_cast<int>(&worker - workers_.data());
    const StatsView* const stats = stats_->worker(number);
    if (job == nullptr || stats == nullptr) continue;
    absl::StrAppend(&text, ": ", Doing(stats->stage()), " for ",
                    absl::FormatDuration(absl::Trunc(
                        absl::Nanoseconds(MonotonicNs() - stats->since_ns()),
                        absl::Milliseconds(1))));
  }
  return text;
}

std::vector<pid_t> WorkerSource::WorkerPids() const {
  std::vector<pid_t> pids;
  for (const Worker& worker : workers_) {
    if (worker.host->pid() != 0) pids.push_back(worker.host->pid());
  }
  return pids;
}

}  // namespace tenon::loader
