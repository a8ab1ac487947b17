// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The loader's worker process: entry point "tenon.loader.worker". Takes tasks
// from its channel until the consumer closes it.

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/spawn/child/entry.h"

namespace tenon::loader {
namespace {

// Tells, at the price of a clock read per call, whether the consumer has closed
// its end of the channel (or died).
class HangUp {
 public:
  explicit HangUp(int fd) : fd_(fd) {}

  bool operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look_) return false;
    next_look_ = now + std::chrono::milliseconds(20);
    pollfd channel = {.fd = fd_, .events = 0, .revents = 0};
    const auto ready = PollUntil(&channel, 1, Deadline::Passed());
    return ready.ok() && (channel.revents & (POLLHUP | POLLERR)) != 0;
  }

 private:
  int fd_;
  std::chrono::steady_clock::time_point next_look_;
};

class Worker {
 public:
  static absl::StatusOr<Worker> Create(spawn::Child& child);

  // Works until the consumer hangs up.
  absl::Status Run();

 private:
  Worker(WorkerSetup setup, Channel channel, ReadOnlyMapping lists,
         std::unique_ptr<Dataset> dataset, BatchLayout layout)
      : setup_(std::move(setup)),
        channel_(std::move(channel)),
        lists_(std::move(lists)),
        dataset_(std::move(dataset)),
        layout_(std::move(layout)),
        hang_up_(channel_.fd()) {}

  // Makes one batch and reports it. Fails only if the report cannot be sent.
  absl::Status Serve(const Task& task);
  // Makes the batch and its segment, if the slot is new; fills in `done`.
  absl::Status Make(const Task& task, BatchDone& done);
  absl::StatusOr<std::vector<int64_t>> ReadIndices(const Task& task) const;

  WorkerSetup setup_;
  Channel channel_;
  ReadOnlyMapping lists_;
  std::unique_ptr<Dataset> dataset_;
  BatchLayout layout_;
  HangUp hang_up_;
  std::vector<std::optional<Segment::OwnerWritten>> slots_;
};

absl::StatusOr<Worker> Worker::Create(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(WorkerSetup setup,
                         DecodeWorkerSetup(child.argument()));
  TENON_ASSIGN_OR_RETURN(Channel channel, Channel::Adopt(child.TakeFd(0)));
  TENON_ASSIGN_OR_RETURN(
      Segment lists,
      Segment::Adopt(child.TakeFd(1), SegmentKind::kOwnerWritten));
  TENON_ASSIGN_OR_RETURN(ReadOnlyMapping mapping, lists.MapReadOnly());
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                         MakeDataset(setup.dataset, setup.dataset_config));
  if (dataset->fields() != setup.fields) {
    return absl::FailedPreconditionError(absl::StrCat(
        "dataset '", setup.dataset,
        "' has other fields in this worker than in the consumer; fields() must "
        "depend on the configuration alone"));
  }
  TENON_ASSIGN_OR_RETURN(BatchLayout layout,
                         BatchLayout::Create(setup.fields, setup.batch_size));
  return Worker(std::move(setup), std::move(channel), std::move(mapping),
                std::move(dataset), std::move(layout));
}

absl::Status Worker::Run() {
  for (;;) {
    absl::StatusOr<Message> message = channel_.Receive(Deadline::Never());
    if (absl::IsUnavailable(message.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(message.status());
    TENON_ASSIGN_OR_RETURN(const Task task, DecodeTask(message->bytes));
    const absl::Status served = Serve(task);
    if (absl::IsUnavailable(served)) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(served);
  }
}

absl::Status Worker::Serve(const Task& task) {
  BatchDone done = {.ticket = task.ticket};
  done.status = Make(task, done);
  int fd = -1;
  absl::Span<const int> fds;
  if (done.has_segment && setup_.strategy == SharingStrategy::kFileDescriptor) {
    fd = slots_[task.slot]->segment.fd();
    fds = {&fd, 1};
  }
  return channel_.Send(Encode(done), fds, Deadline::Never());
}

absl::Status Worker::Make(const Task& task, BatchDone& done) {
  TENON_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadIndices(task));
  if (task.slot >= slots_.size()) slots_.resize(task.slot + size_t{1});
  std::optional<Segment::OwnerWritten>& slot = slots_[task.slot];
  if (!slot) {
    TENON_ASSIGN_OR_RETURN(slot, Segment::CreateOwnerWritten(
                                     static_cast<size_t>(layout_.total_bytes()),
                                     {.strategy = setup_.strategy,
                                      .name_prefix = setup_.name_prefix}));
    done.has_segment = true;
    done.segment_name = slot->segment.name();
  }
  const BatchTask batch = {.seed = setup_.seed,
                           .epoch = task.epoch,
                           .first_position = task.first_position,
                           .indices = indices,
                           .on_error = setup_.on_error};
  const auto report = [&](const SkippedSample& sample) {
    return channel_.Send(Encode(SampleFailed{task.ticket, sample.position,
                                             sample.index, sample.status}),
                         {}, Deadline::Never());
  };
  TENON_ASSIGN_OR_RETURN(
      done.filled, FillBatch(*dataset_, layout_, batch, slot->mapping.data(),
                             report, [this] { return hang_up_(); }));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> Worker::ReadIndices(
    const Task& task) const {
  const size_t length = static_cast<size_t>(layout_.batch_size());
  const size_t lists = lists_.size_bytes() / sizeof(int64_t) / length;
  if (task.list >= lists || task.count > length) {
    return absl::DataLossError(
        absl::StrCat("task for ", task.count, " samples in list ", task.list,
                     "; there are ", lists, " lists of ", length));
  }
  const auto* first =
      reinterpret_cast<const int64_t*>(lists_.data()) + task.list * length;
  std::vector<int64_t> indices(first, first + task.count);
  for (const int64_t index : indices) {
    if (index < 0 || index >= dataset_->size()) {
      return absl::OutOfRangeError(absl::StrCat("the sampler asks for item ",
                                                index, " of a dataset of ",
                                                dataset_->size()));
    }
  }
  return indices;
}

absl::Status RunWorker(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(Worker worker, Worker::Create(child));
  return worker.Run();
}

TENON_SPAWN_ENTRY("tenon.loader.worker", RunWorker);

}  // namespace
}  // namespace tenon::loader
