// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_source.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/loader/worker/remote_worker.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<WorkerSource>> WorkerSource::Create(
    int workers, int prefetch, WorkerSetup setup,
    std::shared_ptr<const BatchLayout> layout,
    const Cancellation* cancellation) {
  TENON_ASSIGN_OR_RETURN(setup.name_prefix,
                         MakeShmName(absl::StrCat("tenon-loader-", getpid())));
  auto source = absl::WrapUnique(new WorkerSource(
      setup.name_prefix, int64_t{workers} * prefetch, cancellation));
  TENON_ASSIGN_OR_RETURN(
      source->workers_,
      RemoteWorker::Start(workers, prefetch, setup, std::move(layout)));
  return source;
}

WorkerSource::~WorkerSource() {
  for (RemoteWorker& worker : workers_) worker.HangUp();
  JoinAll(Deadline::After(absl::Seconds(1)));
  for (RemoteWorker& worker : workers_) worker.Signal(SIGTERM);
  JoinAll(Deadline::After(absl::Milliseconds(500)));
  for (RemoteWorker& worker : workers_) worker.Signal(SIGKILL);
  JoinAll(Deadline::Never());
  // A worker that was killed could not remove its names.
  const auto names = ListShmNames(name_prefix_);
  if (!names.ok()) return;
  for (const std::string& name : *names) RemoveShmName(name).IgnoreError();
}

void WorkerSource::JoinAll(Deadline deadline) {
  for (RemoteWorker& worker : workers_) worker.Join(deadline).IgnoreError();
}

void WorkerSource::StartEpoch(const EpochPlan& plan) {
  plan_ = plan;
  next_to_assign_ = 0;
  next_to_return_ = 0;
  ready_.clear();
  first_ticket_ = next_ticket_;
}

absl::StatusOr<Batch> WorkerSource::Next(Deadline deadline) {
  for (;;) {
    if (cancellation_->is_cancelled()) return Cancellation::Error();
    TENON_RETURN_IF_ERROR(Dispatch());
    auto found = ready_.find(next_to_return_);
    if (found != ready_.end()) {
      absl::StatusOr<Batch> batch = std::move(found->second);
      ready_.erase(found);
      TENON_RETURN_IF_ERROR(batch.status());
      ++next_to_return_;
      // The window has moved: let the workers go on while the caller works.
      TENON_RETURN_IF_ERROR(Dispatch());
      return batch;
    }
    TENON_RETURN_IF_ERROR(Wait(deadline));
  }
}

absl::Status WorkerSource::Dispatch() {
  const int64_t end = std::min(plan_.batches, next_to_return_ + window_);
  while (next_to_assign_ < end) {
    RemoteWorker* worker = LeastBusy();
    if (worker == nullptr) break;
    TENON_ASSIGN_OR_RETURN(const std::vector<int64_t> indices,
                           plan_.Indices(next_to_assign_));
    const RemoteWorker::Job job = {
        .ticket = next_ticket_++,
        .number = next_to_assign_,
        .epoch = plan_.epoch,
        .first_position = plan_.first_position(next_to_assign_)};
    TENON_RETURN_IF_ERROR(worker->Assign(job, indices));
    ++next_to_assign_;
  }
  return absl::OkStatus();
}

RemoteWorker* WorkerSource::LeastBusy() {
  const auto least =
      std::min_element(workers_.begin(), workers_.end(),
                       [](const RemoteWorker& a, const RemoteWorker& b) {
                         return a.outstanding() < b.outstanding();
                       });
  return least->CanTake() ? &*least : nullptr;
}

absl::Status WorkerSource::Wait(Deadline deadline) {
  std::vector<pollfd> fds;
  for (const RemoteWorker& worker : workers_) {
    fds.push_back({.fd = worker.channel_fd(), .events = POLLIN, .revents = 0});
    fds.push_back({.fd = worker.end_fd(), .events = POLLIN, .revents = 0});
  }
  fds.push_back({.fd = cancellation_->fd(), .events = POLLIN, .revents = 0});
  TENON_ASSIGN_OR_RETURN(const int ready,
                         PollUntil(fds.data(), fds.size(), deadline));
  if (ready == 0) return absl::DeadlineExceededError(Waiting());
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (fds[2 * i].revents != 0 || fds[2 * i + 1].revents != 0) {
      TENON_RETURN_IF_ERROR(TakeIn(workers_[i]));
    }
  }
  return absl::OkStatus();
}

absl::Status WorkerSource::TakeIn(RemoteWorker& worker) {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(std::optional<RemoteWorker::Finished> finished,
                           worker.Receive());
    if (!finished) return absl::OkStatus();
    if (finished->ticket < first_ticket_) continue;  // Of an abandoned epoch.
    ready_.emplace(finished->number, std::move(finished->batch));
  }
}

std::string WorkerSource::Waiting() const {
  std::string text = absl::StrCat("no batch ", next_to_return_, " in time");
  for (const RemoteWorker& worker : workers_) {
    const std::optional<int64_t> current = worker.current();
    absl::StrAppend(&text, "; ", worker.Describe(),
                    current ? absl::StrCat(" is making batch ", *current)
                            : " has nothing to do");
  }
  return text;
}

std::vector<pid_t> WorkerSource::WorkerPids() const {
  std::vector<pid_t> pids;
  for (const RemoteWorker& worker : workers_) pids.push_back(worker.pid());
  return pids;
}

}  // namespace tenon::loader
