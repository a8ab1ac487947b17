// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/loader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/doorbell/spin_budget.h"
#include "tenon/loader/check_options.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/data/catching.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/data/worker_program.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader_progress.h"
#include "tenon/loader/loader_state.h"
#include "tenon/loader/local_source.h"
#include "tenon/loader/replay_source.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/stats/loader_report.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/loader_trace.h"
#include "tenon/loader/stats/open_metrics.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_board.h"
#include "tenon/loader/worker/dataset_facts.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_set.h"
#include "tenon/loader/worker/worker_source.h"
#include "tenon/shm/arena/page_pinner.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

template <typename T>
absl::StatusOr<int64_t> SizeOf(absl::string_view what, const T& object) {
  TENON_ASSIGN_OR_RETURN(
      const int64_t size,
      Catching(absl::StrCat("size() of the ", what),
               [&]() -> absl::StatusOr<int64_t> { return object.size(); }));
  if (size >= 0) return size;
  return absl::InvalidArgumentError(absl::StrCat(
      "Loader::Create(): size() of the ", what, " is ", size, "; want >= 0"));
}

absl::StatusOr<std::shared_ptr<Sampler>> MakeSampler(
    const LoaderOptions& options, int64_t size) {
  if (options.sampler != nullptr) return options.sampler;
  if (!options.shuffle) return std::make_shared<SequentialSampler>(size);
  return RandomSampler::Create({.dataset_size = size, .seed = options.seed});
}

// Whether an order is the whole one of the dataset. A slice of it names that
// order, has other positions in it, or fewer samples.
bool IsWholeOrder(Sampler& sampler, int64_t samples, int64_t dataset_size) {
  return Catching("the sampler",
                  [&]() -> absl::StatusOr<bool> {
                    return samples > 0 && samples >= dataset_size &&
                           &sampler.Whole() == &sampler &&
                           sampler.GlobalPosition(samples - 1) == samples - 1;
                  })
      .value_or(false);
}

// As the element of its batch: kDeadlineExceeded would ask the caller to try
// again, kCancelled is that of Loader::Cancel().
absl::StatusOr<Batch> OfBatch(absl::StatusOr<Batch> batch) {
  const absl::Status status = batch.status();
  if (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) {
    return absl::InternalError(
        absl::StrCat(absl::StatusCodeToString(status.code()),
                     " of a sample: ", status.message()));
  }
  return batch;
}

// `status` with the rank before it: "rank 3 on node1, worker 2 (...): ...".
absl::Status OfRank(const std::optional<Rank>& rank,
                    const absl::Status& status) {
  if (status.ok() || !rank) return status;
  const bool names_a_worker = absl::StartsWith(status.message(), "worker ");
  absl::Status named(status.code(), absl::StrCat(rank->ToString(),
                                                 names_a_worker ? ", " : ": ",
                                                 status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    named.SetPayload(type, payload);
  });
  return named;
}

absl::Status OfCall(absl::string_view call, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(call, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> Loader::FromRecipe(
    absl::StatusOr<DatasetRecipe> recipe, LoaderOptions options) {
  const std::optional<Rank> rank = options.rank;
  absl::StatusOr<std::unique_ptr<Loader>> loader =
      Make(std::move(recipe), std::move(options));
  if (!loader.ok()) return OfRank(rank, loader.status());
  return loader;
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Make(
    absl::StatusOr<DatasetRecipe> recipe, LoaderOptions options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  TENON_RETURN_IF_ERROR(recipe.status());
  TENON_ASSIGN_OR_RETURN(
      std::unique_ptr<Dataset> dataset,
      options.worker_program
          ? DescribeDataset(*options.worker_program, *recipe, options.timeout)
          : recipe->Make());
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Cancellation> cancellation,
                         Cancellation::Create());
  auto loader =
      absl::WrapUnique(new Loader(std::move(options), *std::move(recipe),
                                  std::move(dataset), std::move(cancellation)));
  TENON_RETURN_IF_ERROR(loader->Start());
  if (const std::optional<int> replay = loader->options_.replay) {
    loader->source_ = std::make_unique<ReplaySource>(
        std::move(loader->source_), static_cast<size_t>(*replay),
        loader->cancellation_.get());
  }
  // Not earlier: workers that are forked need a process without a driver.
  if (loader->options_.pin_memory) loader->pin_refusal_ = CheckPagePinner();
  return loader;
}

Loader::Loader(LoaderOptions options, DatasetRecipe recipe,
               std::unique_ptr<Dataset> dataset,
               std::unique_ptr<Cancellation> cancellation)
    : options_(std::move(options)),
      recipe_(std::move(recipe)),
      dataset_(std::move(dataset)),
      batch_size_(options_.batch_size.value_or(1)),
      cancellation_(std::move(cancellation)) {}

Loader::~Loader() = default;

absl::Status Loader::SetBatches() {
  TENON_ASSIGN_OR_RETURN(batches_,
                         SizeOf("batch sampler", *options_.batch_sampler));
  TENON_ASSIGN_OR_RETURN(
      batch_size_, Catching("max_batch_size() of the batch sampler",
                            [&]() -> absl::StatusOr<int64_t> {
                              return options_.batch_sampler->max_batch_size();
                            }));
  if (batch_size_ >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Loader::Create(): max_batch_size() of the batch sampler is ",
      batch_size_, "; want >= 1"));
}

absl::Status Loader::CheckThreads() const {
  if (options_.threads_per_worker == 1) return absl::OkStatus();
  const std::string what = absl::StrCat(
      "Loader::Create(): threads_per_worker is ", options_.threads_per_worker,
      ", but dataset '", recipe_.name(), "' ");
  if (dynamic_cast<const IterableDataset*>(dataset_.get()) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        what,
        "is iterable, and the samples of a shard follow one another; "
        "set workers, and leave threads_per_worker unset"));
  }
  TENON_ASSIGN_OR_RETURN(
      const bool thread_safe,
      Catching("thread_safe() of the dataset", [&]() -> absl::StatusOr<bool> {
        return dataset_->thread_safe();
      }));
  if (thread_safe) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what,
      "is not thread-safe, and several threads would call its Get() at "
      "the same time; return true from its thread_safe() if they may, or "
      "set workers, and leave threads_per_worker unset"));
}

absl::Status Loader::SetOrder() {
  const auto* iterable = dynamic_cast<const IterableDataset*>(dataset_.get());
  if (iterable == nullptr) {
    TENON_ASSIGN_OR_RETURN(dataset_size_, SizeOf("dataset", *dataset_));
    if (options_.batch_sampler != nullptr) return SetBatches();
    TENON_ASSIGN_OR_RETURN(sampler_, MakeSampler(options_, dataset_size_));
    TENON_ASSIGN_OR_RETURN(samples_, SizeOf("sampler", *sampler_));
    is_undivided_ = options_.rank.value_or(Rank()).world_size > 1 &&
                    IsWholeOrder(*sampler_, samples_, dataset_size_);
    const int64_t rest = samples_ % batch_size_;
    if (options_.drop_last) samples_ -= rest;
    batches_ = samples_ / batch_size_;
    if (rest != 0 && !options_.drop_last) ++batches_;
    return absl::OkStatus();
  }
  if (options_.shuffle || options_.sampler != nullptr ||
      options_.batch_sampler != nullptr) {
    return absl::InvalidArgumentError(
        "Loader::Create(): an iterable dataset gives the order of its samples "
        "itself; leave shuffle and samplers unset, and shuffle in Open(), such "
        "as by WindowShuffle");
  }
  if (options_.on_sample_error == OnSampleError::kReplace) {
    return absl::InvalidArgumentError(
        "Loader::Create(): on_sample_error kReplace with an iterable dataset: "
        "it has no item to put in the place of a sample; use kSkip");
  }
  if (options_.on_worker_death == OnWorkerDeath::kSkipSample) {
    return absl::InvalidArgumentError(
        "Loader::Create(): on_worker_death kSkipSample with an iterable "
        "dataset: a stream cannot leave out a sample that it has not read; use "
        "kRestart");
  }
  return SetLanes(*iterable);
}

absl::Status Loader::SetLanes(const IterableDataset& dataset) {
  TENON_ASSIGN_OR_RETURN(shards_, Catching("shards() of the dataset",
                                           [&]() -> absl::StatusOr<int64_t> {
                                             return dataset.shards();
                                           }));
  const int world_size = options_.rank.value_or(Rank()).world_size;
  is_shard_per_worker_ = shards_ == kShardPerWorker;
  if (is_shard_per_worker_) {
    if (options_.workers == kAuto) {
      return absl::InvalidArgumentError(
          "Loader::Create(): the dataset has a shard for each worker "
          "(kShardPerWorker), so its batches depend on the number of workers, "
          "which kAuto changes; set workers to a number");
    }
    shards_ = int64_t{std::max(options_.workers, 1)} * world_size;
    lanes_ = shards_;
    if (shards_ <= kMaxShards) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "Loader::Create(): the dataset has a shard for each worker of ",
        world_size, " ranks, ", shards_, " shards; want at most ", kMaxShards));
  }
  if (shards_ < 1 || shards_ > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("Loader::Create(): the dataset has ", shards_,
                     " shards; want 1 to ", kMaxShards));
  }
  TENON_ASSIGN_OR_RETURN(lanes_, Catching("open_shards() of the dataset",
                                          [&]() -> absl::StatusOr<int64_t> {
                                            return dataset.open_shards();
                                          }));
  lanes_ = std::min(lanes_, shards_);
  if (lanes_ >= world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Loader::Create(): the dataset has ", lanes_, " open shards (of ",
      shards_, "); want at least one for each of ", world_size,
      " ranks: more shards(), or open_shards()"));
}

int Loader::MostWorkers(int64_t batch_bytes) const {
  if (options_.workers != kAuto) return options_.workers;
  int64_t most =
      std::clamp(UsableCores() / options_.threads_per_worker, 1, kMaxWorkers);
  // A lane is read by one worker.
  if (shards_ > 0) {
    const Rank rank = options_.rank.value_or(Rank());
    most = std::min(most, (lanes_ - rank.rank - 1) / rank.world_size + 1);
  }
  if (options_.memory_quota) {
    most = std::clamp<int64_t>(*options_.memory_quota / batch_bytes, 1, most);
  }
  return static_cast<int>(most);
}

absl::StatusOr<int> Loader::Prefetch(int64_t batch_bytes, int workers) const {
  const int wanted = options_.prefetch.value_or(kDefaultPrefetch);
  if (!options_.memory_quota) return wanted;
  workers = std::max(workers, 1);
  const int64_t each = *options_.memory_quota / workers / batch_bytes;
  if (each >= 1) return static_cast<int>(std::min<int64_t>(wanted, each));
  const std::string what =
      absl::StrCat("Loader::Create(): memory_quota of ",
                   SizeText(static_cast<uint64_t>(*options_.memory_quota)),
                   " does not hold a batch of ",
                   SizeText(static_cast<uint64_t>(batch_bytes)));
  return absl::InvalidArgumentError(
      options_.workers == 0
          ? absl::StrCat(what, "; raise it, or lower batch_size")
          : absl::StrCat(what, " for each of ", workers,
                         " workers; raise it, or lower batch_size or workers"));
}

absl::Status Loader::StartLocal(std::shared_ptr<const BatchLayout> layout,
                                SharingStrategy strategy) {
  const Rank rank = options_.rank.value_or(Rank());
  LocalSource::Options local = {.seed = options_.seed,
                                .on_error = options_.on_sample_error,
                                .drop_last = options_.drop_last,
                                .strategy = strategy,
                                .threads = options_.threads_per_worker,
                                .meter = &stats_->meter()};
  if (is_shard_per_worker_) {
    local.worker_info = {.seed = options_.seed,
                         .rank = rank.rank,
                         .world_size = rank.world_size};
  }
  TENON_ASSIGN_OR_RETURN(
      source_, LocalSource::Create(dataset_.get(), std::move(layout), local,
                                   cancellation_.get()));
  return absl::OkStatus();
}

EpochPlan Loader::WholePlan() const {
  const Rank rank = options_.rank.value_or(Rank());
  return {.shards = shards_,
          .lanes = lanes_,
          .first_lane = rank.rank,
          .lane_step = rank.world_size,
          .sampler = sampler_.get(),
          .batch_sampler = options_.batch_sampler.get(),
          .dataset_size = dataset_size_,
          .batch_size = batch_size(),
          .batches = batches()};
}

absl::Status Loader::Start() {
  TENON_RETURN_IF_ERROR(CheckThreads());
  TENON_RETURN_IF_ERROR(SetOrder());
  progress_ =
      std::make_unique<LoaderProgress>(recipe_.name(), options_, WholePlan());
  TENON_ASSIGN_OR_RETURN(
      const SampleSpec spec,
      Catching("spec() of the dataset", [&]() -> absl::StatusOr<SampleSpec> {
        return dataset_->spec();
      }));
  TENON_ASSIGN_OR_RETURN(
      BatchLayout created,
      BatchLayout::Create(spec, options_.batch_size ? std::optional(batch_size_)
                                                    : std::nullopt));
  auto layout = std::make_shared<const BatchLayout>(std::move(created));
  const int workers = MostWorkers(layout->total_bytes());
  TENON_ASSIGN_OR_RETURN(const int prefetch,
                         Prefetch(layout->total_bytes(), workers));
  const SharingStrategy strategy =
      options_.strategy.value_or(GetSharingStrategy());
  TENON_ASSIGN_OR_RETURN(
      stats_, StatsBoard::Create({.dataset = recipe_.name(),
                                  .workers = workers,
                                  .prefetch = workers == 0 ? 0 : prefetch,
                                  .batch_size = batch_size(),
                                  .in_order = options_.in_order,
                                  .cores = UsableCores(),
                                  .events = options_.trace_events}));
  if (options_.workers == 0) return StartLocal(std::move(layout), strategy);
  prefetch_ = prefetch;
  WorkerSetup setup;
  setup.spec = spec.ToString();
  setup.workers = workers;
  setup.strategy = strategy;
  return StartWorkers(std::move(setup), std::move(layout));
}

absl::Status Loader::StartWorkers(WorkerSetup setup,
                                  std::shared_ptr<const BatchLayout> layout) {
  const Rank rank = options_.rank.value_or(Rank());
  setup.shards = shards_;
  setup.lanes = lanes_;
  setup.batch_size = batch_size();
  setup.unbatched = !options_.batch_size.has_value();
  setup.prefetch = prefetch_;
  setup.threads = options_.threads_per_worker;
  setup.rank = rank.rank;
  setup.world_size = rank.world_size;
  setup.loader = stats_->info().loader;
  setup.trace_events = options_.trace_events;
  if (options_.worker_init != nullptr) {
    TENON_ASSIGN_OR_RETURN(setup.worker_init,
                           NameOfWorkerInit(options_.worker_init));
  }
  const WorkerProgram program =
      options_.worker_program.value_or(WorkerProgram());
  setup.plugin = program.plugin;
  setup.seed = options_.seed;
  setup.on_error = options_.on_sample_error;
  setup.drop_last = options_.drop_last;
  TENON_ASSIGN_OR_RETURN(
      auto workers,
      WorkerSet::Create(
          {.kind = options_.worker_kind,
           .start_method =
               options_.start_method.value_or(spawn::StartMethod::kSpawn),
           .program = program.program,
           .on_death = options_.on_worker_death,
           .dataset_size = dataset_size_,
           .max_restarts = options_.max_restarts,
           .sample_timeout = options_.sample_timeout,
           .recycle_after_samples = options_.recycle_after_samples,
           .recycle_after_bytes = options_.recycle_after_bytes,
           .stats = stats_.get()},
          std::move(setup), recipe_, layout, cancellation_.get()));
  source_ = std::make_unique<WorkerSource>(
      WorkerSource::Options{.tasks = {.in_order = options_.in_order,
                                      .batch_size = batch_size(),
                                      .drop_last = options_.drop_last},
                            .overlap_epochs = options_.overlap_epochs,
                            .tune = options_.workers == kAuto,
                            .prefetch = prefetch_},
      std::move(workers), std::move(layout), cancellation_.get());
  return absl::OkStatus();
}

absl::Status Loader::CountFailures(const Batch& batch) {
  failed_samples_ += std::ssize(batch.skipped());
  if (!options_.failure_budget || failed_samples_ <= *options_.failure_budget) {
    return absl::OkStatus();
  }
  const SkippedSample& last = batch.skipped().back();
  const std::string sample =
      shards_ > 0
          ? absl::StrCat("shard ", ShardOf(last.position), ", sample ",
                         last.index)
          : absl::StrCat("sample ", last.position, " (item ", last.index, ")");
  return absl::ResourceExhaustedError(
      absl::StrCat("failure_budget of ", *options_.failure_budget,
                   " samples exceeded: ", failed_samples_, " failed in epoch ",
                   epoch_, " up to batch ", batch.number(),
                   "; the last one is ", sample, ": ", last.status.message()));
}

void Loader::Pin(const Batch& batch) {
  const absl::StatusOr<const std::byte*> block = batch.storage()->Read();
  const absl::Status pinned = block.ok() ? PinPagesOf(*block) : block.status();
  if (pin_refusal_.ok()) pin_refusal_ = pinned;
}

EpochRange Loader::Epoch(int64_t epoch) {
  ++epoch_ticket_;
  epoch_ = epoch;
  failed_samples_ = 0;
  is_drained_ = false;
  stats_->meter().Pause();
  refusal_ = epoch >= 0 ? absl::OkStatus()
                        : absl::InvalidArgumentError(absl::StrCat(
                              "Loader::Epoch(): epoch ", epoch, "; want >= 0"));
  if (failure_.ok() && refusal_.ok()) {
    const absl::StatusOr<EpochPlan> plan = progress_->Begin(epoch);
    refusal_ = plan.status();
    if (plan.ok()) source_->StartEpoch(*plan);
  }
  return EpochRange(this, epoch_ticket_, options_.timeout);
}

absl::StatusOr<std::optional<BatchResult>> Loader::Next(uint64_t ticket,
                                                        Deadline deadline) {
  absl::StatusOr<std::optional<BatchResult>> batch =
      NextUnnamed(ticket, deadline);
  if (!batch.ok()) return OfRank(options_.rank, batch.status());
  if (!batch->has_value() || (*batch)->batch.ok()) return batch;
  return BatchResult{OfRank(options_.rank, (*batch)->batch.status()),
                     (*batch)->number};
}

absl::StatusOr<std::optional<BatchResult>> Loader::NextUnnamed(
    uint64_t ticket, Deadline deadline) {
  TENON_RETURN_IF_ERROR(failure_);
  if (ticket != epoch_ticket_) {
    return absl::FailedPreconditionError(
        "EpochRange::Next(): the epoch was abandoned when another one was "
        "begun by Loader::Epoch(), or a state was loaded by Loader::Load()");
  }
  TENON_RETURN_IF_ERROR(refusal_);
  if (is_drained_) return std::nullopt;
  StageMeter& meter = stats_->meter();
  meter.Begin(Stage::kTake);
  absl::StatusOr<std::optional<BatchResult>> batch = Cancellation::Error();
  if (!cancellation_->is_cancelled()) batch = source_->Next(deadline);
  if (absl::IsDeadlineExceeded(batch.status())) {
    meter.Pause();
    return batch.status();
  }
  if (batch.ok() && batch->has_value() && (*batch)->batch.ok()) {
    const absl::Status counted = CountFailures(*(*batch)->batch);
    if (!counted.ok()) batch = counted;
  }
  if (!batch.ok() || !batch->has_value()) meter.Pause();
  if (!batch.ok()) {
    failure_ = batch.status();
    incidents_ = source_->Incidents();
    replaced_workers_ = source_->Replaced();
    source_.reset();  // Ends the workers.
    return failure_;
  }
  if (!batch->has_value()) {
    if (cancellation_->is_draining()) {
      is_drained_ = true;  // The state is that of the last batch.
      cancellation_->EndDrain();
    } else {
      progress_->OnEnd();
    }
    return batch;
  }
  absl::StatusOr<Batch>& element = (*batch)->batch;
  element = OfBatch(std::move(element));
  progress_->OnBatch((*batch)->number);
  if (element.ok()) {
    meter.SetBatch(epoch_, element->number());
    meter.Done(static_cast<uint64_t>(element->size()));
    if (options_.pin_memory) Pin(*element);
  }
  meter.Enter(Stage::kUse);
  return batch;
}

absl::StatusOr<LoaderState> Loader::State() {
  absl::StatusOr<LoaderState> state = progress_->State();
  if (state.ok()) return state;
  return OfRank(options_.rank, OfCall("Loader::State()", state.status()));
}

absl::Status Loader::Load(const LoaderState& state) {
  TENON_RETURN_IF_ERROR(OfRank(options_.rank, failure_));
  const absl::Status loaded = progress_->Load(state);
  if (!loaded.ok()) {
    return OfRank(options_.rank, OfCall("Loader::Load()", loaded));
  }
  ++epoch_ticket_;  // Abandons the epoch.
  return absl::OkStatus();
}

void Loader::Cancel() { cancellation_->Cancel(); }

void Loader::Drain() { cancellation_->Drain(); }

std::vector<pid_t> Loader::worker_pids() const {
  return source_ == nullptr ? std::vector<pid_t>() : source_->WorkerPids();
}

int Loader::workers() const {
  return source_ == nullptr ? 0 : source_->Workers();
}

std::string Loader::tuning() const {
  return source_ == nullptr ? std::string() : source_->Tuning();
}

std::vector<absl::Status> Loader::incidents() const {
  return source_ == nullptr ? incidents_ : source_->Incidents();
}

int64_t Loader::replaced_workers() const {
  return source_ == nullptr ? replaced_workers_ : source_->Replaced();
}

LoaderStats Loader::Stats() const { return stats_->Stats(); }

LoaderReport Loader::Report() const { return MakeReport(Stats()); }

std::string Loader::Metrics() const {
  OpenMetrics metrics;
  AddLoaders({Stats()}, metrics);
  return metrics.ToText();
}

std::string Loader::Trace() const { return TraceJson(Stats()); }

std::vector<std::string> Loader::warnings() const {
  std::vector<std::string> warnings;
  if (options_.replay) {
    warnings.push_back(
        absl::StrCat("replay returns the first ", *options_.replay,
                     " batches again and again; it is for measurements"));
  }
  if (is_undivided_) {
    warnings.push_back(absl::StrCat(
        "rank (", options_.rank->rank, " of ", options_.rank->world_size,
        ") does not divide the order: this rank has ", samples_,
        " samples in each epoch, of a dataset of ", dataset_size_,
        "; if the dataset is the same on each rank, set sampler to a "
        "DistributedSampler"));
  }
  if (!pin_refusal_.ok()) {
    warnings.push_back(
        absl::StrCat("pin_memory has no effect: ", pin_refusal_.message()));
  }
  if (prefetch_ > 0 && options_.prefetch && prefetch_ < *options_.prefetch) {
    warnings.push_back(absl::StrCat("memory_quota lowers prefetch (",
                                    *options_.prefetch, ") to ", prefetch_));
  }
  const int threads = options_.threads_per_worker;
  if (threads > 1 && batch_size_ == 1) {
    warnings.push_back(
        absl::StrCat("threads_per_worker (", threads,
                     ") has no effect: a batch has one sample; raise "
                     "batch_size"));
  }
  const int workers = std::max(options_.workers, 1);  // kAuto is negative.
  if (const int cores = UsableCores(); workers * threads > cores) {
    const std::string each =
        threads == 1 ? ""
                     : absl::StrCat(" of threads_per_worker (", threads, ")");
    warnings.push_back(absl::StrCat("workers (", workers, ")", each,
                                    " exceed the cores that this process may "
                                    "use (",
                                    cores, ")"));
  }
  return warnings;
}

absl::StatusOr<std::optional<Batch>> EpochRange::Next(Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(std::optional<BatchResult> batch,
                         loader_->Next(ticket_, deadline));
  if (!batch) return std::nullopt;
  TENON_RETURN_IF_ERROR(batch->batch.status());
  return *std::move(batch->batch);
}

EpochRange::Iterator EpochRange::begin() {
  if (begun_) {
    ended_ = false;
    last_ = true;
    current_ = OfRank(
        loader_->options().rank,
        absl::FailedPreconditionError(
            "EpochRange::begin(): an epoch can be iterated over once; call "
            "Loader::Epoch() again"));
  } else {
    begun_ = true;
    Advance();
  }
  return Iterator(this);
}

void EpochRange::Advance() {
  if (last_) {
    ended_ = true;
    return;
  }
  // The memory of the batch is free before the next one is waited for.
  current_ = absl::CancelledError();
  absl::StatusOr<std::optional<BatchResult>> batch =
      loader_->Next(ticket_, timeout_ == absl::InfiniteDuration()
                                 ? Deadline::Never()
                                 : Deadline::After(timeout_));
  if (!batch.ok()) {
    last_ = true;
    current_ = batch.status();
  } else if (!batch->has_value()) {
    ended_ = true;
  } else {
    current_ = std::move((*batch)->batch);
  }
}

}  // namespace tenon::loader
