// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/remote_worker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/spawn/process/process.h"

namespace tenon::loader {

struct RemoteWorker::Ends {
  // The worker gets the second channel and the lists.
  std::pair<Channel, Channel> channels;
  Segment::OwnerWritten lists;

  static absl::StatusOr<Ends> Create(size_t list_bytes) {
    // Index lists travel by descriptor whatever the strategy of the data: the
    // worker gets the descriptor at its start.
    TENON_ASSIGN_OR_RETURN(
        Segment::OwnerWritten lists,
        Segment::CreateOwnerWritten(
            list_bytes, {.strategy = SharingStrategy::kFileDescriptor}));
    TENON_ASSIGN_OR_RETURN(auto channels, Channel::CreatePair());
    return Ends{std::move(channels), std::move(lists)};
  }
};

absl::StatusOr<std::vector<RemoteWorker>> RemoteWorker::Start(
    int count, int capacity, const WorkerSetup& setup,
    const std::shared_ptr<const BatchLayout>& layout) {
  const auto jobs = static_cast<size_t>(capacity);
  const auto batch_size = static_cast<size_t>(layout->batch_size());
  std::vector<Ends> ends;
  std::vector<std::vector<int>> fds;
  for (int i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(Ends one,
                           Ends::Create(jobs * batch_size * sizeof(int64_t)));
    fds.push_back({one.channels.second.fd(), one.lists.segment.fd()});
    ends.push_back(std::move(one));
  }
  spawn::ProcessOptions options = {.entry = "tenon.loader.worker",
                                   .argument = Encode(setup),
                                   .ignore_interrupt = true};
  TENON_ASSIGN_OR_RETURN(std::vector<spawn::Process> processes,
                         spawn::Process::StartEach(options, fds));
  std::vector<RemoteWorker> workers;
  for (size_t i = 0; i < ends.size(); ++i) {
    workers.push_back(
        RemoteWorker(std::move(processes[i]), std::move(ends[i].channels.first),
                     std::move(ends[i].lists.mapping), jobs, layout, setup));
  }
  return workers;
}

RemoteWorker::RemoteWorker(spawn::Process process, Channel channel,
                           WritableMapping lists, size_t capacity,
                           std::shared_ptr<const BatchLayout> layout,
                           const WorkerSetup& setup)
    : process_(std::move(process)),
      channel_(std::move(channel)),
      lists_(std::move(lists)),
      capacity_(capacity),
      layout_(std::move(layout)),
      strategy_(setup.strategy),
      name_prefix_(setup.name_prefix) {}

absl::Status RemoteWorker::Assign(const Job& job,
                                  absl::Span<const int64_t> indices) {
  // The worker finishes jobs in order, so with less than capacity_ outstanding
  // the list of the job that many ago is no longer read.
  const auto list = static_cast<uint32_t>(assigned_ % capacity_);
  auto* to = reinterpret_cast<int64_t*>(lists_.data()) +
             list * static_cast<size_t>(layout_->batch_size());
  std::copy(indices.begin(), indices.end(), to);
  const uint32_t slot = slots_->Take();
  const Task task = {.ticket = job.ticket,
                     .epoch = job.epoch,
                     .first_position = job.first_position,
                     .count = static_cast<uint32_t>(indices.size()),
                     .list = list,
                     .slot = slot};
  const absl::Status sent = channel_.Send(Encode(task), {}, Deadline::Passed());
  if (absl::IsUnavailable(sent)) return Failure();
  if (!sent.ok()) return Named(sent);
  outstanding_.push_back({.job = job,
                          .slot = slot,
                          .count = static_cast<int64_t>(indices.size()),
                          .skipped = {}});
  ++assigned_;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RemoteWorker::Finished>> RemoteWorker::Receive() {
  for (;;) {
    absl::StatusOr<Message> message = channel_.Receive(Deadline::Passed());
    if (absl::IsDeadlineExceeded(message.status())) return std::nullopt;
    if (absl::IsUnavailable(message.status())) return Failure();
    if (!message.ok()) return Named(message.status());
    absl::StatusOr<WorkerMessage> said = DecodeWorkerMessage(message->bytes);
    if (!said.ok()) return Named(said.status());
    if (auto* failed = std::get_if<SampleFailed>(&*said)) {
      TENON_RETURN_IF_ERROR(Named(OnSampleFailed(std::move(*failed))));
      continue;
    }
    absl::StatusOr<Finished> finished = OnBatchDone(
        std::get<BatchDone>(*std::move(said)), std::move(message->fds));
    if (!finished.ok()) return Named(finished.status());
    return *std::move(finished);
  }
}

absl::Status RemoteWorker::OnSampleFailed(SampleFailed failed) {
  if (outstanding_.empty() ||
      failed.ticket != outstanding_.front().job.ticket ||
      std::ssize(outstanding_.front().skipped) >= outstanding_.front().count) {
    return absl::DataLossError("reports a sample that it was not asked for");
  }
  outstanding_.front().skipped.push_back(
      {failed.position, failed.index, std::move(failed.status)});
  return absl::OkStatus();
}

absl::StatusOr<RemoteWorker::Finished> RemoteWorker::OnBatchDone(
    const BatchDone& done, std::vector<UniqueFd> fds) {
  if (outstanding_.empty() || done.ticket != outstanding_.front().job.ticket) {
    return absl::DataLossError("reports a batch that it was not asked for");
  }
  Outstanding job = std::move(outstanding_.front());
  outstanding_.pop_front();
  if (done.has_segment) {
    TENON_RETURN_IF_ERROR(MapSlot(job.slot, done, std::move(fds)));
  }
  if (!done.status.ok()) {
    slots_->Return(job.slot);
    return Finished{done.ticket, job.job.number, Named(done.status)};
  }
  const auto skipped = std::ssize(job.skipped);
  if (done.filled < 0 || done.filled + skipped != job.count) {
    return absl::DataLossError(absl::StrCat("reports ", done.filled,
                                            " samples made and ", skipped,
                                            " skipped of ", job.count));
  }
  if (!slots_->IsMapped(job.slot)) {
    return absl::DataLossError("sent no segment for a new slot");
  }
  Batch::Contents contents = {.number = job.job.number,
                              .size = done.filled,
                              .worker = index(),
                              .skipped = std::move(job.skipped)};
  return Finished{
      done.ticket, job.job.number,
      Batch(std::move(contents), layout_, slots_->MemoryOf(job.slot))};
}

absl::Status RemoteWorker::MapSlot(uint32_t slot, const BatchDone& done,
                                   std::vector<UniqueFd> fds) {
  if (slots_->IsMapped(slot)) {
    return absl::DataLossError("sent a second segment for one slot");
  }
  TENON_ASSIGN_OR_RETURN(Segment segment, OpenSegment(done, std::move(fds)));
  if (segment.size_bytes() < static_cast<size_t>(layout_->total_bytes())) {
    return absl::DataLossError(
        absl::StrCat("sent a segment of ", segment.size_bytes(),
                     " bytes for batches of ", layout_->total_bytes()));
  }
  TENON_ASSIGN_OR_RETURN(ReadOnlyMapping mapping, segment.MapReadOnly());
  slots_->SetMapping(slot, std::move(mapping));
  return absl::OkStatus();
}

absl::StatusOr<Segment> RemoteWorker::OpenSegment(
    const BatchDone& done, std::vector<UniqueFd> fds) const {
  if (strategy_ == SharingStrategy::kFileDescriptor) {
    if (fds.size() != 1) {
      return absl::DataLossError(
          absl::StrCat("sent ", fds.size(), " descriptors for a segment"));
    }
    return Segment::Adopt(std::move(fds[0]), SegmentKind::kOwnerWritten);
  }
  if (!absl::StartsWith(done.segment_name, name_prefix_)) {
    return absl::DataLossError(
        "sent the name of a segment that is not its own");
  }
  absl::StatusOr<Segment> segment =
      Segment::Open(done.segment_name, SegmentKind::kOwnerWritten);
  // No other process opens it. Without its name it cannot be left behind.
  RemoveShmName(done.segment_name).IgnoreError();
  return segment;
}

std::optional<int64_t> RemoteWorker::current() const {
  if (outstanding_.empty()) return std::nullopt;
  return outstanding_.front().job.number;
}

absl::Status RemoteWorker::Named(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(Describe(), ": ", status.message()));
}

absl::Status RemoteWorker::Failure() {
  // The channel closes as the process goes; its end is a moment away.
  const absl::Status how = Join(Deadline::After(absl::Seconds(1)));
  if (!how.ok()) return how;
  return absl::AbortedError(
      absl::StrCat(Describe(), " ended before its work was done"));
}

}  // namespace tenon::loader
