// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/run_worker.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/catching.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/data/shard_order.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_memory.h"
#include "tenon/loader/worker/collate_batch.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/sample_threads.h"
#include "tenon/loader/worker/shard_reader.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

// How long a worker without memory for a batch tries again, and how often. The
// loader's end does not wake it.
constexpr absl::Duration kMemoryPatience = absl::Seconds(1);
constexpr absl::Duration kMemoryNap = absl::Milliseconds(10);

template <typename T>
std::span<std::byte> BytesOf(T& record) {
  return std::as_writable_bytes(std::span(&record, 1));
}

class Worker {
 public:
  // Joins the rings before it makes the dataset, which may take long.
  static absl::StatusOr<Worker> Create(int index, const WorkerSetup& setup,
                                       const DatasetRecipe& recipe,
                                       Channel channel,
                                       const WorkerControl& control,
                                       WorkerNote& note);

  // Works until the loader closes the tasks or dies.
  absl::Status Run();

 private:
  Worker(const WorkerSetup& setup, Channel channel,
         const WorkerControl& control, WorkerNote& note, BatchLayout layout,
         StatsMemory stats)
      : setup_(setup),
        stats_(std::move(stats)),
        meter_(stats_.meter()),
        channel_(std::move(channel)),
        control_(control),
        note_(note),
        layout_(std::make_unique<const BatchLayout>(std::move(layout))),
        scratch_(std::make_unique<SampleScratch>(layout_.get())),
        block_bytes_(static_cast<size_t>(layout_->total_bytes())) {}

  absl::StatusOr<TaskRecord> NextTask();
  // Makes the batch of `task` and reports it. Fails only if it cannot report.
  absl::Status Serve(const TaskRecord& task);
  // Nothing if the task's lane has ended.
  absl::StatusOr<std::optional<FilledBatch>> Make(const TaskRecord& task,
                                                  Block& block);
  absl::StatusOr<std::optional<FilledBatch>> MakeOfShard(const TaskRecord& task,
                                                         Block& block);
  // Exchanges the block for a larger one if the batch needs that.
  absl::Status Collate(const TaskRecord& task, int64_t samples, Block& block);
  // The memory of the batch. Waits a moment for the consumer to release some.
  // Errors: kResourceExhausted.
  absl::StatusOr<Block> Allocate(const TaskRecord& task, size_t bytes);
  // Sends the offer of the block's segment, if the loader does not have it.
  absl::Status Offer(const Block& block, BatchRecord& record);
  absl::Status SendNote(const BatchNote& note, BatchRecord& record);
  SampleScratch* scratch() {
    return layout_->varying() > 0 ? scratch_.get() : nullptr;
  }
  bool ShouldStop(const TaskRecord& task) const;
  // Drops the blocks that the loader has claimed.
  void ReleaseTaken();

  const WorkerSetup& setup_;
  StatsMemory stats_;
  StageMeter meter_;
  Channel channel_;
  const WorkerControl& control_;
  WorkerNote& note_;
  std::unique_ptr<const BatchLayout> layout_;
  std::unique_ptr<SampleScratch> scratch_;
  size_t block_bytes_;  // Of the next block.
  std::unique_ptr<RingReader> tasks_;
  std::unique_ptr<RingProducer> batches_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<SampleThreads> threads_;  // Null: this thread alone.
  IterableDataset* iterable_ = nullptr;     // dataset_, if it is one.
  std::unique_ptr<ShardReader> shards_;     // Of the epoch with this `run`.
  uint64_t run_ = 0;
  std::shared_ptr<Arena> arena_;
  absl::flat_hash_set<uint32_t> offered_;  // Segments.
  std::vector<int64_t> indices_;
  std::vector<int64_t> left_out_;  // BatchTask

  struct Sent {
    uint64_t number = 0;  // Of its record in batches_, from 1.
    Block block;
  };
  std::deque<Sent> sent_;
};

WorkerInfo InfoOf(int index, const WorkerSetup& setup) {
  return {.index = index,
          .workers = setup.workers,
          .seed = setup.seed,
          .rank = setup.rank,
          .world_size = setup.world_size};
}

absl::Status CallWorkerInit(int index, const WorkerSetup& setup) {
  if (setup.worker_init.empty()) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(const WorkerInit init,
                         FindWorkerInit(setup.worker_init));
  const absl::Status status =
      Catching(setup.worker_init,
               [&]() -> absl::Status { return init(InfoOf(index, setup)); });
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("worker_init: ", status.message()));
}

absl::Status CheckSameShards(const WorkerSetup& setup, const Dataset& dataset) {
  const auto* iterable = dynamic_cast<const IterableDataset*>(&dataset);
  if (iterable == nullptr) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(
      int64_t shards,
      Catching("IterableDataset::shards()", [&]() -> absl::StatusOr<int64_t> {
        return iterable->shards();
      }));
  if (shards == kShardPerWorker) {
    shards = int64_t{setup.workers} * setup.world_size;
  }
  if (shards == setup.shards) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("dataset '", setup.dataset,
                   "' has another number of shards in this "
                   "worker (",
                   shards, ") than in the consumer (", setup.shards,
                   "); shards() must depend on the arguments alone"));
}

// Null for one thread.
absl::StatusOr<std::unique_ptr<SampleThreads>> StartThreads(
    const WorkerSetup& setup, const Dataset& dataset) {
  if (setup.threads == 1) return nullptr;
  TENON_ASSIGN_OR_RETURN(
      const bool thread_safe,
      Catching("Dataset::thread_safe()", [&]() -> absl::StatusOr<bool> {
        return dataset.thread_safe();
      }));
  if (!thread_safe) {
    return absl::FailedPreconditionError(
        absl::StrCat("dataset '", setup.dataset,
                     "' is thread-safe in the consumer and not in this worker; "
                     "thread_safe() must depend on the arguments alone"));
  }
  return SampleThreads::Create(setup.threads);
}

// The layout of a batch of `dataset`, if it is that of the consumer.
absl::StatusOr<BatchLayout> SameLayout(const WorkerSetup& setup,
                                       const Dataset& dataset) {
  TENON_ASSIGN_OR_RETURN(
      const SampleSpec spec,
      Catching("Dataset::spec()",
               [&]() -> absl::StatusOr<SampleSpec> { return dataset.spec(); }));
  if (const std::string fields = spec.ToString(); fields != setup.spec) {
    return absl::FailedPreconditionError(absl::StrCat(
        "dataset '", setup.dataset, "' has other fields in this worker (",
        fields, ") than in the consumer (", setup.spec,
        "); spec() must depend on the arguments alone"));
  }
  return BatchLayout::Create(
      spec, setup.unbatched ? std::nullopt : std::optional(setup.batch_size));
}

absl::StatusOr<Worker> Worker::Create(int index, const WorkerSetup& setup,
                                      const DatasetRecipe& recipe,
                                      Channel channel,
                                      const WorkerControl& control,
                                      WorkerNote& note) {
  TENON_ASSIGN_OR_RETURN(auto tasks, JoinRing(channel, Deadline::Never()));
  const std::string name = absl::StrCat("loader-worker-", index);
  TENON_ASSIGN_OR_RETURN(
      auto batches,
      RingProducer::Create(
          {.name = name,
           .record_bytes = sizeof(BatchRecord),
           .capacity = std::bit_ceil(static_cast<size_t>(setup.prefetch)),
           .sleeper_fences = false}));
  TENON_RETURN_IF_ERROR(
      AddRingReader(*batches, channel, Deadline::Never()).status());
  TENON_ASSIGN_OR_RETURN(StatsMemory stats,
                         StatsMemory::Create({.loader = setup.loader,
                                              .worker = index,
                                              .dataset = setup.dataset,
                                              .workers = setup.workers,
                                              .prefetch = setup.prefetch,
                                              .batch_size = setup.batch_size,
                                              .events = setup.trace_events}));
  const int stats_fd = stats.fd();
  TENON_RETURN_IF_ERROR(channel.Send(
      kStatsMessage, absl::MakeConstSpan(&stats_fd, 1), Deadline::Never()));
  TENON_RETURN_IF_ERROR(CallWorkerInit(index, setup));
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, recipe.Make());
  TENON_ASSIGN_OR_RETURN(BatchLayout layout, SameLayout(setup, *dataset));
  TENON_RETURN_IF_ERROR(CheckSameShards(setup, *dataset));
  // After worker_init: they have the affinity that it has set.
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<SampleThreads> threads,
                         StartThreads(setup, *dataset));
  Worker worker(setup, std::move(channel), control, note, std::move(layout),
                std::move(stats));
  ArenaOptions arena;
  arena.name = name;
  arena.segment.strategy = setup.strategy;
  arena.segment.name_prefix = NamePrefixOf(setup, index);
  TENON_ASSIGN_OR_RETURN(worker.arena_, Arena::Create(arena));
  worker.tasks_ = std::move(tasks);
  worker.batches_ = std::move(batches);
  worker.dataset_ = std::move(dataset);
  worker.threads_ = std::move(threads);
  worker.iterable_ = dynamic_cast<IterableDataset*>(worker.dataset_.get());
  return worker;
}

// The loader has closed its tasks, or has died.
bool IsEnd(const absl::Status& status) {
  return absl::IsOutOfRange(status) || absl::IsUnavailable(status);
}

absl::Status Worker::Run() {
  for (;;) {
    const absl::StatusOr<TaskRecord> task = NextTask();
    if (IsEnd(task.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(task.status());
    TENON_RETURN_IF_ERROR(Serve(*task));
  }
}

absl::StatusOr<TaskRecord> Worker::NextTask() {
  TaskRecord task;
  meter_.Begin(Stage::kQueue);
  TENON_ASSIGN_OR_RETURN(const size_t records_now,
                         tasks_->TryGet(BytesOf(task)));
  if (records_now == 0) {
    meter_.EnterTimed(Stage::kWait);
    TENON_RETURN_IF_ERROR(
        tasks_->Get(BytesOf(task), Deadline::Never()).status());
    meter_.Enter(Stage::kQueue);
  }
  meter_.SetBatch(task.epoch, task.number);
  if (task.count > static_cast<uint64_t>(setup_.batch_size)) {
    return absl::DataLossError(absl::StrCat(
        "task of ", task.count, " samples; want at most ", setup_.batch_size));
  }
  if (task.lane != TaskRecord::kNoLane) {
    if (task.lane >= 0 && task.lane < setup_.lanes) return task;
    return absl::DataLossError(absl::StrCat("task of lane ", task.lane,
                                            "; want one of ", setup_.lanes));
  }
  // All records of a task are put at once.
  const size_t records = TaskRecords(task.count) - 1;
  indices_.resize(records * IndexRecord::kIndices);
  std::span<std::byte> left = std::as_writable_bytes(std::span(indices_));
  while (!left.empty()) {
    TENON_ASSIGN_OR_RETURN(const size_t got,
                           tasks_->Get(left, Deadline::Never()));
    left = left.subspan(got * sizeof(IndexRecord));
  }
  indices_.resize(task.count);
  left_out_.clear();
  if ((task.flags & TaskRecord::kLeavesOut) == 0) return task;
  for (size_t i = 0; i < indices_.size(); ++i) {
    if (indices_[i] >= 0) continue;
    left_out_.push_back(static_cast<int64_t>(i));
    indices_[i] = ~indices_[i];
  }
  return task;
}

absl::Status Worker::Serve(const TaskRecord& task) {
  ReleaseTaken();
  // In this order: a sample is never noted of another task.
  StdAtomics::Store(note_.sample, WorkerNote::kNone, std::memory_order_release);
  StdAtomics::Store(note_.ticket, task.ticket, std::memory_order_release);
  TENON_CRASH_POINT("loader.worker.begun");
  BatchRecord record = {.ticket = task.ticket};
  Block block;
  absl::StatusOr<std::optional<FilledBatch>> filled = Make(task, block);
  TENON_CRASH_POINT("loader.worker.made");
  StdAtomics::Store(note_.sample, WorkerNote::kNone, std::memory_order_relaxed);
  meter_.Enter(Stage::kQueue);
  if (filled.ok() && filled->has_value()) {
    record.samples = (*filled)->samples;
    TENON_ASSIGN_OR_RETURN(record.block, block.Describe());
    TENON_RETURN_IF_ERROR(Offer(block, record));
    if (!(*filled)->skipped.empty()) {
      TENON_RETURN_IF_ERROR(SendNote(
          {.status = {}, .skipped = std::move((*filled)->skipped)}, record));
    }
  } else if (filled.ok()) {
    record.outcome = BatchRecord::kEnded;
  } else if (ShouldStop(task)) {
    record.outcome = BatchRecord::kAbandoned;
  } else {
    record.outcome = BatchRecord::kFailed;
    TENON_RETURN_IF_ERROR(
        SendNote({.status = filled.status(), .skipped = {}}, record));
  }
  // There is room: there are at most `prefetch` tasks at a time.
  TENON_RETURN_IF_ERROR(batches_->Put(BytesOf(record), Deadline::Never()));
  TENON_CRASH_POINT("loader.worker.reported");
  if (record.outcome == BatchRecord::kMade) {
    sent_.push_back({batches_->put(), std::move(block)});
    meter_.Done(static_cast<uint64_t>(record.samples));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<FilledBatch>> Worker::Make(const TaskRecord& task,
                                                        Block& block) {
  if (ShouldStop(task)) return absl::CancelledError("the task was abandoned");
  if (task.lane != TaskRecord::kNoLane) return MakeOfShard(task, block);
  TENON_ASSIGN_OR_RETURN(block, Allocate(task, block_bytes_));
  const BatchTask batch = {
      .seed = setup_.seed,
      .epoch = task.epoch,
      .first_position = task.first_position,
      .indices = indices_,
      .on_error = setup_.on_error,
      .scratch = scratch(),
      .one_by_one = (task.flags & TaskRecord::kOneByOne) != 0,
      .left_out = left_out_,
      .now = &note_.sample,
      .threads = threads_.get()};
  meter_.Enter(Stage::kLoad);
  TENON_ASSIGN_OR_RETURN(FilledBatch filled,
                         FillBatch(*dataset_, *layout_, batch, block.data(),
                                   [&] { return ShouldStop(task); }));
  TENON_RETURN_IF_ERROR(Collate(task, filled.samples, block));
  return filled;
}

absl::Status Worker::Collate(const TaskRecord& task, int64_t samples,
                             Block& block) {
  // No sample is loaded any more: what happens now is not its failure.
  StdAtomics::Store(note_.sample, WorkerNote::kNone, std::memory_order_release);
  if (scratch() != nullptr) meter_.Enter(Stage::kCollate);
  Block larger;
  const auto grow = [&](size_t bytes) -> absl::StatusOr<std::span<std::byte>> {
    TENON_ASSIGN_OR_RETURN(larger, Allocate(task, bytes));
    return larger.bytes();
  };
  TENON_ASSIGN_OR_RETURN(const size_t needed,
                         CollateBatch(*dataset_, *layout_, *scratch_, samples,
                                      block.bytes(), grow));
  block_bytes_ = NextBlockBytes(block_bytes_, needed);
  if (larger.size() > 0) block = std::move(larger);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<FilledBatch>> Worker::MakeOfShard(
    const TaskRecord& task, Block& block) {
  if (shards_ == nullptr || run_ != task.run) {
    shards_ = std::make_unique<ShardReader>(
        iterable_, layout_.get(),
        ShardLanes{.shards = setup_.shards, .lanes = setup_.lanes});
    run_ = task.run;
  }
  if (shards_->HasEnded(task.lane)) return std::nullopt;
  absl::StatusOr<Block> allocated = Allocate(task, block_bytes_);
  // Else the shard's next batch had the samples of this one.
  if (!allocated.ok()) shards_->CloseShard(task.lane, task.first_position);
  TENON_ASSIGN_OR_RETURN(block, std::move(allocated));
  meter_.Enter(Stage::kLoad);
  const ShardTask batch = {.seed = setup_.seed,
                           .epoch = task.epoch,
                           .lane = task.lane,
                           .before = task.first_position,
                           .samples = static_cast<int64_t>(task.count),
                           .on_error = setup_.on_error,
                           .drop_last = setup_.drop_last,
                           .scratch = scratch(),
                           .now = &note_.sample};
  TENON_ASSIGN_OR_RETURN(
      std::optional<FilledBatch> filled,
      shards_->Fill(batch, block.data(), [&] { return ShouldStop(task); }));
  if (filled) TENON_RETURN_IF_ERROR(Collate(task, filled->samples, block));
  return filled;
}

absl::StatusOr<Block> Worker::Allocate(const TaskRecord& task, size_t bytes) {
  absl::StatusOr<Block> block = arena_->TryAllocate(bytes);
  if (!absl::IsResourceExhausted(block.status())) return block;
  meter_.EnterTimed(Stage::kQueue);
  const Deadline deadline = Deadline::After(kMemoryPatience);
  while (absl::IsResourceExhausted(block.status()) && !deadline.has_passed() &&
         !ShouldStop(task)) {
    ReleaseTaken();
    // Counted by the arena.
    block = arena_->Allocate(bytes, Deadline::After(kMemoryNap));
    if (absl::IsDeadlineExceeded(block.status())) {
      block = arena_->TryAllocate(bytes);
    }
  }
  return block;
}

absl::Status Worker::Offer(const Block& block, BatchRecord& record) {
  if (offered_.contains(record.block.segment)) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, arena_->Offer(block));
  TENON_RETURN_IF_ERROR(
      channel_.Send(EncodeOffer(offer.bytes), offer.fds, Deadline::Never()));
  TENON_CRASH_POINT("loader.worker.offered");
  offered_.insert(record.block.segment);
  ++record.messages;
  return absl::OkStatus();
}

absl::Status Worker::SendNote(const BatchNote& note, BatchRecord& record) {
  ++record.messages;
  return channel_.Send(EncodeNote(note), {}, Deadline::Never());
}

bool Worker::ShouldStop(const TaskRecord& task) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return StdAtomics::Load(control_.stop, kRelaxed) != 0 ||
         task.ticket < StdAtomics::Load(control_.first_ticket, kRelaxed);
}

void Worker::ReleaseTaken() {
  const uint64_t taken = batches_->acknowledged();
  while (!sent_.empty() && sent_.front().number <= taken) sent_.pop_front();
}

}  // namespace

absl::Status RunWorker(int index, const WorkerSetup& setup,
                       const DatasetRecipe& recipe, Channel channel,
                       const WorkerControl& control, WorkerNote& note) {
  const ScopedWorkerInfo info(InfoOf(index, setup));
  TENON_ASSIGN_OR_RETURN(
      Worker worker,
      Worker::Create(index, setup, recipe, std::move(channel), control, note));
  const absl::Status status = worker.Run();
  // The loader has gone, or is about to.
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

}  // namespace tenon::loader
