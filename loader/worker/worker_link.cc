// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_link.h"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon::loader {
namespace {

// A batch has one note at most, and its block one new segment.
constexpr uint64_t kMaxMessages = 2;

// The item that the worker is told of a sample that is left out: those after it
// are tried in its place.
int64_t LastTried(const SkippedSample& left_out) {
  return left_out.replaced_by >= 0 ? left_out.replaced_by : left_out.index;
}

// Those of `skipped` that no other item replaces.
int64_t NotReplaced(absl::Span<const SkippedSample> skipped) {
  return std::count_if(
      skipped.begin(), skipped.end(),
      [](const SkippedSample& sample) { return sample.replaced_by < 0; });
}

// What another try can change stays as it is; all other errors are the
// worker's.
absl::Status Malformed(absl::string_view what, const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) {
    return status;
  }
  return absl::DataLossError(absl::StrCat(what, ": ", status.message()));
}

// A worker closes its ring when it ends, whatever the reason: its host knows
// more.
absl::Status Gone(const absl::Status& ring) {
  return absl::IsOutOfRange(ring) ? absl::UnavailableError(ring.message())
                                  : ring;
}

}  // namespace

const SkippedSample* WorkerLink::Task::LeftOut(int64_t position) const {
  const auto found = std::find_if(
      left_out.begin(), left_out.end(),
      [&](const SkippedSample& s) { return s.position == position; });
  return found == left_out.end() ? nullptr : &*found;
}

absl::StatusOr<WorkerLink> WorkerLink::Create(
    int index, int capacity, std::shared_ptr<const BatchLayout> layout) {
  const uint64_t task_records =
      TaskRecords(static_cast<uint64_t>(layout->batch_size()));
  const auto tasks_ahead = static_cast<uint64_t>(capacity);
  RingGeometry sizes = {.record_bytes = sizeof(TaskRecord)};
  // Else the product may overflow.
  if (task_records <=
      RingGeometry::kMaxBytes / sizeof(TaskRecord) / tasks_ahead) {
    sizes.capacity = std::bit_ceil(tasks_ahead * task_records);
  }
  if (!sizes.valid_sizes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batches of ", layout->batch_size(), " samples, ", capacity,
        " ahead, have more indices than a ring takes (",
        SizeText(RingGeometry::kMaxBytes), "); lower batch_size or prefetch"));
  }
  TENON_ASSIGN_OR_RETURN(
      auto tasks,
      RingProducer::Create({.name = absl::StrCat("loader-tasks-", index),
                            .record_bytes = sizes.record_bytes,
                            .capacity = sizes.capacity,
                            .sleeper_fences = false}));
  // The offer of an arena has a socket.
  TENON_ASSIGN_OR_RETURN(auto channels,
                         Channel::CreatePair({.allow_sockets = true}));
  return WorkerLink(index, capacity, std::move(layout), std::move(tasks),
                    std::move(channels));
}

WorkerLink::WorkerLink(int index, int capacity,
                       std::shared_ptr<const BatchLayout> layout,
                       std::unique_ptr<RingProducer> tasks,
                       std::pair<Channel, Channel> channels)
    : index_(index),
      capacity_(static_cast<size_t>(capacity)),
      layout_(std::move(layout)),
      channel_(std::move(channels.first)),
      worker_end_(std::move(channels.second)),
      tasks_(std::move(tasks)),
      importer_(std::make_unique<ArenaTensorImporter>()) {}

absl::Status WorkerLink::Handshake(Deadline deadline) {
  while (!has_joined()) {
    if (step_ != Step::kOffer) {
      pollfd message = {.fd = channel_.fd(), .events = POLLIN, .revents = 0};
      TENON_ASSIGN_OR_RETURN(const int ready,
                             PollUntil({&message, 1}, deadline));
      if (ready == 0) {
        return absl::DeadlineExceededError("it has not joined the rings yet");
      }
    }
    const absl::Status done = DoStep();
    if (absl::IsDeadlineExceeded(done)) {
      return absl::DataLossError(
          absl::StrCat("does not read its channel: ", done.message()));
    }
    TENON_RETURN_IF_ERROR(done);
    step_ = static_cast<Step>(static_cast<int>(step_) + 1);
  }
  return absl::OkStatus();
}

absl::Status WorkerLink::DoStep() {
  // The message has come, and there is room for those that are sent.
  const Deadline now = Deadline::Passed();
  switch (step_) {
    case Step::kOffer: {
      TENON_ASSIGN_OR_RETURN(tasks_offer_,
                             SendRingOffer(*tasks_, channel_, now));
      return absl::OkStatus();
    }
    case Step::kReply:
      return ReceiveRingReply(*tasks_, tasks_offer_, channel_, now).status();
    case Step::kBatches: {
      TENON_ASSIGN_OR_RETURN(batches_, JoinRing(channel_, now));
      if (batches_->record_bytes() == sizeof(BatchRecord)) {
        return absl::OkStatus();
      }
      return absl::DataLossError(
          absl::StrCat("its batches have records of ", batches_->record_bytes(),
                       " bytes; want ", sizeof(BatchRecord)));
    }
    default:
      return ReceiveStats();
  }
}

absl::Status WorkerLink::ReceiveStats() {
  TENON_ASSIGN_OR_RETURN(const Message message,
                         channel_.Receive(Deadline::Passed(), 1));
  if (message.bytes != kStatsMessage || message.fds.size() != 1) {
    return absl::DataLossError(absl::StrCat(
        "sent no counters, but a message of ", message.bytes.size(),
        " bytes and ", message.fds.size(), " descriptors"));
  }
  absl::StatusOr<StatsView> stats = StatsView::Adopt(message.fds[0].get());
  if (!stats.ok()) return Malformed("bad counters", stats.status());
  stats_ = *std::move(stats);
  return absl::OkStatus();
}

const WorkerLink::Job* WorkerLink::current() const {
  return outstanding_.empty() ? nullptr : &outstanding_.front().job;
}

const WorkerLink::Task* WorkerLink::Find(uint64_t ticket) const {
  const auto found =
      std::find_if(outstanding_.begin(), outstanding_.end(),
                   [&](const Task& task) { return task.job.ticket == ticket; });
  return found == outstanding_.end() ? nullptr : &*found;
}

absl::Status WorkerLink::Assign(Task& task) {
  constexpr size_t kTaskWords = sizeof(TaskRecord) / sizeof(int64_t);
  words_.resize(TaskRecords(task.indices.size()) * kTaskWords);
  std::copy(task.indices.begin(), task.indices.end(),
            words_.begin() + kTaskWords);
  for (const SkippedSample& sample : task.left_out) {
    words_[kTaskWords +
           static_cast<size_t>(sample.position - task.job.first_position)] =
        ~LastTried(sample);
  }
  const TaskRecord record = {
      .ticket = task.job.ticket,
      .epoch = task.job.epoch,
      .first_position = task.job.first_position,
      .count = static_cast<uint64_t>(task.count()),
      .lane = task.job.lane,
      .run = task.job.run,
      .flags = (task.one_by_one ? TaskRecord::kOneByOne : 0) |
               (task.left_out.empty() ? 0 : TaskRecord::kLeavesOut),
      .number = task.job.number};
  std::memcpy(words_.data(), &record, sizeof(record));
  TENON_ASSIGN_OR_RETURN(const bool put,
                         tasks_->TryPut(std::as_bytes(std::span(words_))));
  if (!put) {
    return absl::DataLossError(
        "acknowledges tasks after their batches: its ring is full");
  }
  TENON_CRASH_POINT("loader.assigned");
  outstanding_.push_back(std::move(task));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<WorkerLink::Finished>> WorkerLink::Take() {
  if (!has_joined() || batches_ == nullptr) return std::nullopt;
  BatchRecord record;
  const absl::StatusOr<size_t> got =
      batches_->TryPeek(std::as_writable_bytes(std::span(&record, 1)));
  if (!got.ok()) return Gone(got.status());
  if (*got == 0) return std::nullopt;
  TENON_ASSIGN_OR_RETURN(Finished finished, OnRecord(record));
  TENON_CRASH_POINT("loader.claimed");
  outstanding_.pop_front();
  // The block has been claimed: now the worker may drop it.
  TENON_RETURN_IF_ERROR(batches_->Advance(1));
  TENON_CRASH_POINT("loader.acknowledged");
  return finished;
}

bool WorkerLink::HasFinished() {
  if (!has_joined()) return false;
  BatchRecord record;
  const absl::StatusOr<size_t> got =
      batches_->TryPeek(std::as_writable_bytes(std::span(&record, 1)));
  return !got.ok() || *got != 0;
}

absl::Status WorkerLink::CheckAlive() {
  if (!has_joined()) return absl::OkStatus();
  BatchRecord record;
  const absl::Status peeked =
      batches_
          ->Peek(std::as_writable_bytes(std::span(&record, 1)),
                 Deadline::Passed())
          .status();
  return absl::IsDeadlineExceeded(peeked) ? absl::OkStatus() : Gone(peeked);
}

absl::Status WorkerLink::CheckRecord(
    const BatchRecord& record, const Task& job,
    const std::optional<BatchNote>& note) const {
  const bool has_batch = record.outcome == BatchRecord::kMade ||
                         record.outcome == BatchRecord::kFailed;
  if (has_batch && job.after_end) {
    return absl::DataLossError(absl::StrCat(
        "reports a batch of lane ", job.job.lane, " after the lane's end"));
  }
  if (!has_batch && (record.samples != 0 || note)) {
    return absl::DataLossError(absl::StrCat(
        "reports ", record.samples, " samples ", note ? "and a note " : "",
        "for a task without a batch; want neither"));
  }
  switch (record.outcome) {
    case BatchRecord::kMade:
      if (!note || note->status.ok()) return absl::OkStatus();
      return absl::DataLossError(absl::StrCat("reports a batch with an error: ",
                                              note->status.message()));
    case BatchRecord::kFailed:
      if (!note || note->status.ok()) {
        return absl::DataLossError("reports a failed batch without an error");
      }
      if (note->skipped.empty()) return absl::OkStatus();
      return absl::DataLossError(absl::StrCat("reports a failed batch with ",
                                              note->skipped.size(),
                                              " skipped samples; want none"));
    case BatchRecord::kAbandoned:
      if (record.ticket < first_ticket_) return absl::OkStatus();
      return absl::DataLossError(absl::StrCat(
          "reports task ", record.ticket, " as abandoned; only those before ",
          first_ticket_, " are"));
    case BatchRecord::kEnded:
      if (job.is_of_lane()) return absl::OkStatus();
      return absl::DataLossError("reports kEnded for a task of indices");
    default:
      return absl::DataLossError(
          absl::StrCat("reports a batch of unknown outcome ", record.outcome));
  }
}

absl::StatusOr<WorkerLink::Finished> WorkerLink::OnRecord(
    const BatchRecord& record) {
  if (outstanding_.empty() ||
      record.ticket != outstanding_.front().job.ticket) {
    return absl::DataLossError(absl::StrCat(
        "reports task ", record.ticket, ", which it was not asked for; want ",
        outstanding_.empty() ? "none"
                             : absl::StrCat(outstanding_.front().job.ticket)));
  }
  const Task& job = outstanding_.front();
  TENON_ASSIGN_OR_RETURN(std::optional<BatchNote> note,
                         ReceiveMessages(record));
  Finished finished = {.job = job.job,
                       .worker = index_,
                       .batch = absl::CancelledError("abandoned")};
  TENON_RETURN_IF_ERROR(CheckRecord(record, job, note));
  switch (record.outcome) {
    case BatchRecord::kMade: {
      const int64_t made =
          record.samples + (note ? NotReplaced(note->skipped) : 0);
      TENON_ASSIGN_OR_RETURN(
          finished.batch,
          MakeBatch(record, job, std::move(note).value_or(BatchNote())));
      ++claimed_;
      // The last of its shard: if the lane has no other one, its end, too.
      if (made < job.count() && !job.job.lanes.After(job.job.lane)) {
        NoteEnd(job.job);
      }
      return finished;
    }
    case BatchRecord::kFailed:
      finished.batch = std::move(note->status);
      return finished;
    case BatchRecord::kEnded:
      NoteEnd(job.job);
      finished.ended = true;
      return finished;
    default:
      return finished;  // Abandoned.
  }
}

void WorkerLink::NoteEnd(const Job& job) {
  for (Task& later : outstanding_) {
    later.after_end |= later.job.lane == job.lane && later.job.run == job.run;
  }
}

absl::StatusOr<std::optional<BatchNote>> WorkerLink::ReceiveMessages(
    const BatchRecord& record) {
  if (record.messages > kMaxMessages) {
    return absl::DataLossError(
        absl::StrCat("reports a batch with ", record.messages,
                     " messages; want at most ", kMaxMessages));
  }
  std::optional<BatchNote> note;
  bool has_offer = false;
  for (uint64_t i = 0; i < record.messages; ++i) {
    // Sent before the record, so no wait.
    absl::StatusOr<Message> message = channel_.Receive(Deadline::Passed());
    if (absl::IsDeadlineExceeded(message.status())) {
      return absl::DataLossError("reports a batch before its messages");
    }
    if (!message.ok()) return Malformed("bad message", message.status());
    TENON_ASSIGN_OR_RETURN(WorkerMessage decoded,
                           DecodeWorkerMessage(message->bytes));
    if (decoded.is_offer ? has_offer : note.has_value()) {
      return absl::DataLossError(
          absl::StrCat("reports a batch with two ",
                       decoded.is_offer ? "offers" : "notes", "; want one"));
    }
    if (decoded.is_offer) {
      const absl::Status accepted =
          importer_->Accept(decoded.offer, std::move(message->fds));
      if (!accepted.ok()) return Malformed("bad offer", accepted);
      has_offer = true;
    } else {
      note = std::move(decoded.note);
    }
  }
  return note;
}

absl::Status WorkerLink::CheckSkipped(absl::Span<const SkippedSample> skipped,
                                      const Task& job) {
  int64_t first = job.job.first_position;
  if (job.is_of_lane()) {
    int64_t shard = job.job.lane;
    if (!skipped.empty()) {
      const int64_t named = ShardOf(skipped[0].position);
      if (job.job.lanes.Contains(shard, named)) shard = named;
    }
    first = PositionInShard(shard, 0);
  }
  int64_t next = first;
  int64_t end = first + (job.is_of_lane() ? kSamplesOfShard : job.count());
  for (const SkippedSample& sample : skipped) {
    if (sample.position < next || sample.position >= end) {
      return absl::DataLossError(absl::StrCat("skipped the sample at position ",
                                              sample.position, "; want ", next,
                                              " to ", end - 1));
    }
    const SkippedSample* const left_out = job.LeftOut(sample.position);
    const int64_t index =
        left_out != nullptr ? LastTried(*left_out)
        : job.is_of_lane()
            ? sample.position - first
            : job.indices[static_cast<size_t>(sample.position - first)];
    if (sample.index != index) {
      return absl::DataLossError(absl::StrCat("skipped item ", sample.index,
                                              " at position ", sample.position,
                                              "; want item ", index));
    }
    if (sample.status.ok()) {
      return absl::DataLossError(
          absl::StrCat("skipped item ", index, " without an error"));
    }
    if (sample.replaced_by < -1 ||
        (sample.replaced_by >= 0 && job.is_of_lane())) {
      return absl::DataLossError(absl::StrCat("replaced item ", index,
                                              " by item ", sample.replaced_by));
    }
    next = sample.position + 1;
    // A batch of a shard begins anywhere in it.
    end = std::min(end, sample.position + job.count());
  }
  return absl::OkStatus();
}

absl::StatusOr<Batch> WorkerLink::MakeBatch(const BatchRecord& record,
                                            const Task& job, BatchNote note) {
  const int64_t skipped = NotReplaced(note.skipped);
  const int64_t count = job.count();
  const int64_t least = job.is_of_lane() && !job.job.full ? 1 : count;
  if (record.samples < 0 || record.samples > count - skipped ||
      record.samples + skipped < least) {
    return absl::DataLossError(absl::StrCat("reports ", record.samples,
                                            " samples made and ", skipped,
                                            " skipped of ", count));
  }
  TENON_RETURN_IF_ERROR(CheckSkipped(note.skipped, job));
  absl::StatusOr<std::shared_ptr<Storage>> claimed =
      importer_->ClaimBlock(record.block);
  if (!claimed.ok()) return Malformed("bad block", claimed.status());
  std::shared_ptr<Storage> storage = *std::move(claimed);
  if (storage->size_bytes() < static_cast<size_t>(layout_->total_bytes())) {
    return absl::DataLossError(absl::StrCat(
        "sent a block of ", SizeText(storage->size_bytes()), " for a batch of ",
        SizeText(static_cast<uint64_t>(layout_->total_bytes()))));
  }
  for (SkippedSample& sample : note.skipped) {
    const SkippedSample* const left_out = job.LeftOut(sample.position);
    if (left_out == nullptr) continue;
    sample.index = left_out->index;
    sample.status = left_out->status;
  }
  Batch::Contents contents = {.number = job.job.number,
                              .size = record.samples,
                              .worker = index_,
                              .skipped = std::move(note.skipped)};
  absl::StatusOr<Batch> batch =
      Batch::Create(std::move(contents), layout_, std::move(storage));
  if (!batch.ok()) return Malformed("bad batch", batch.status());
  return batch;
}

void WorkerLink::HangUp() {
  tasks_.reset();
  worker_end_.Release().Reset();
  channel_.Release().Reset();
}

void WorkerLink::Release() {
  batches_.reset();
  importer_.reset();
}

}  // namespace tenon::loader
