// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Loader: batches of a dataset, made by worker processes, in a fixed order (or,
// with LoaderOptions::in_order false, as they are ready).
//
//   int main(int argc, char** argv) {
//     tenon::spawn::Init(argc, argv);  // Workers are this program, too.
//     auto loader = Loader::Create<Squares>({.batch_size = 64, .workers = 2},
//                                           1000);
//     if (!loader.ok()) return Fail(loader.status());
//     for (absl::StatusOr<Batch>& batch : (*loader)->Epoch(0)) {
//       if (!batch.ok()) return Fail(batch.status());  // Names the worker.
//       Use(*batch->data<int64_t>("square"));
//     }
//   }
//
// The batches of an epoch, their numbers and every bit in them depend on the
// dataset, the sampler, batch_size, seed and epoch alone, not on the workers (a
// stream with kShardPerWorker is the exception). With in_order the order of the
// batches depends on nothing else either.

#ifndef TENON_LOADER_LOADER_H_
#define TENON_LOADER_LOADER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader_options.h"  // IWYU pragma: export
#include "tenon/loader/loader_state.h"    // IWYU pragma: export
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/stats/loader_report.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon::loader {

struct BatchResult;
class BatchLayout;
class BatchSource;
class Cancellation;
class IterableDataset;
class LoaderProgress;
struct EpochPlan;
class StatsBoard;
struct WorkerSetup;

// Ownership: owns the workers; the destructor ends them. Idle workers end at
//   once; busy ones finish the call of Get(), GetBatch() or
//   SampleStream::Next() that they are in. A process that still runs after
//   1.5 s is killed; a thread is waited for. Batches outlive the loader.
// Threads: thread-compatible, but Cancel() and Drain() may be called at any
//   time.
// Processes: belongs to the process that made it. In a forked child no function
//   may be called, and the destructor leaves the workers alone.
// Trust: workers are this user's processes and run the same program; their
//   messages are checked all the same, and a malformed one is an error.
// Failure: after kAborted, kDataLoss, kCancelled and errors of the system the
//   workers have been ended, and every later call returns the same error;
//   State() still returns the position that was reached.
class Loader {
 public:
  // A loader of D, a TENON_LOADER_DATASET (dataset_registry.h). `arguments` are
  // converted to the parameters of its registration, and sent to each worker.
  // Starts the workers and waits until they run, but not until they have made
  // the dataset. With a worker_program it also waits for a process of that
  // program to make the dataset: up to a minute until the program calls
  // spawn::Init(), then up to LoaderOptions::timeout.
  // Errors: kInvalidArgument for options that are out of range or contradict
  // one another; the dataset's own; those of packing an argument;
  // kFailedPrecondition if there are to be workers and spawn::Init() was not
  // called, or for a worker_program that does not call it, or whose plugin
  // cannot be loaded (with the text of dlopen()) or is of another version of
  // Tenon; kDeadlineExceeded if that program has not made the dataset in time;
  // kNotFound if there is no such program; kResourceExhausted at a limit.
  template <typename D, typename... A>
  static absl::StatusOr<std::unique_ptr<Loader>> Create(LoaderOptions options,
                                                        A&&... arguments) {
    return FromRecipe(DatasetRecipe::Of<D>(std::forward<A>(arguments)...),
                      std::move(options));
  }

  // The same by the name of the dataset. The arguments must have the types of
  // its registration: none is converted. With a worker_program the dataset is
  // one of that program, and need not be registered in this one.
  // Errors: also kNotFound, listing the names; kInvalidArgument if the dataset
  // takes other types.
  template <typename... A>
  static absl::StatusOr<std::unique_ptr<Loader>> Create(
      absl::string_view dataset, LoaderOptions options, A&&... arguments) {
    return FromRecipe(
        options.worker_program
            ? DatasetRecipe::ByNameElsewhere(dataset,
                                             std::forward<A>(arguments)...)
            : DatasetRecipe::ByName(dataset, std::forward<A>(arguments)...),
        std::move(options));
  }

  // The same for a recipe, which is a dataset with its packed arguments. An
  // error in place of the recipe is returned.
  static absl::StatusOr<std::unique_ptr<Loader>> FromRecipe(
      absl::StatusOr<DatasetRecipe> recipe, LoaderOptions options);

  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Begins epoch `epoch` (>= 0). The first Next() assigns its batches to the
  // workers, unless LoaderOptions::overlap_epochs has assigned them already. An
  // unfinished epoch is abandoned: each worker finishes the call of Get(),
  // GetBatch() or SampleStream::Next() that it is in, and drops the other
  // samples. (The first Next() of a WindowShuffle reads a whole window.) The
  // range of a negative epoch has one element, kInvalidArgument.
  EpochRange Epoch(int64_t epoch);

  // The position that the consumer has reached: after all batches, and errors
  // of batches, that Next() or an iteration has returned. In the body of a loop
  // the current batch counts as received. Batches that workers have made ahead
  // do not, so a resumed epoch makes them again and none is lost. Once Next()
  // has returned the end of the epoch, the position is the beginning of the
  // next epoch, except after Drain(); before the first epoch it is the
  // beginning of epoch 0. The state is a value: later batches do not change it.
  // The call loads no sample; once in an epoch it asks the sampler for 8
  // indices.
  // The ranks of a map-style dataset have the same state when each has received
  // the same number of batches: keep one of these states. The states of ranks
  // of an iterable dataset differ: keep LoaderState::Combine() of all.
  // Errors: kUnimplemented for a sampler that is a slice of an order but does
  // not name that order (sampler.h); kFailedPrecondition if the sampler divides
  // the order among ranks in another way than the loader, with
  // LoaderOptions::replay, and, with in_order false, while an earlier batch is
  // missing on one of several ranks, or in the middle of an epoch of an
  // iterable dataset with kAuto; kInternal for an exception of the sampler.
  absl::StatusOr<LoaderState> State();

  // If the next Epoch() is that of state.epoch(), it begins at the position of
  // `state`: the batches of all ranks together have the remaining samples, in
  // the global order and with the same bits, for any number of workers and
  // ranks. A map-style dataset may be resumed with another batch_size: then the
  // first batch begins at the position, the last one has the number that it has
  // in a complete epoch, and drop_last drops an incomplete batch of the
  // remaining samples. If the next Epoch() is of another number, it begins at
  // its beginning, and the state is dropped.
  // The epoch in progress is abandoned, with the batches that workers have made
  // ahead. No sample before the position is loaded again, except of an iterable
  // dataset whose SampleStream::Skip() does not pass over it.
  // Errors: kInvalidArgument for a state of another dataset, seed or order, or
  // of other shards or batches of an iterable dataset (the error names both
  // values), and for the state of one rank of a job of several ranks
  // (LoaderState::Combine()); those of State(). After an error nothing has
  // changed.
  absl::Status Load(const LoaderState& state);

  // Makes a running Next() and every later one return kCancelled, also at the
  // end of an epoch. Without workers a running Next() first finishes the sample
  // that it is loading. Safe from any thread and from a signal handler, as long
  // as the loader lives.
  void Cancel();

  // Ends the current epoch early, or the next one if there is no current epoch,
  // and loses no batch that has been begun: Next() returns the batches that
  // have been assigned to workers, up to `prefetch` of each, then the end of
  // the epoch. The epoch after it is complete again. Safe from any thread and
  // from a signal handler (one atomic store), as long as the loader lives.
  void Drain();

  // The numbers of samples and batches of an epoch. -1 where they are not
  // known: both of an iterable dataset, samples() with a batch sampler.
  int64_t samples() const { return samples_; }
  int64_t batches() const { return batches_; }

  // This process's own instance of the dataset; with a worker_program a
  // stand-in of the same size and fields, whose samples are kUnimplemented.
  const Dataset& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return options_; }
  // The worker processes, by number of the worker. Empty without workers, for
  // threads, and after the workers have been ended.
  std::vector<pid_t> worker_pids() const;
  // How many workers make batches now: LoaderOptions::workers, or the current
  // choice of kAuto. 0 without workers, and after they have been ended.
  int workers() const;
  // With kAuto: that number and its reason, such as "4 of at most 16: 8 were
  // not faster than 4"; else empty. For a stream the choice for the next epoch.
  std::string tuning() const;
  // The last 64 deaths of workers that were replaced: worker, pid, signal or
  // exit code, the sample that it was loading, and its stack if it crashed or
  // was ended for sample_timeout. The death that exceeded max_restarts is
  // included. Kept after the loader has failed.
  std::vector<absl::Status> incidents() const;
  // How many workers have been replaced: dead, hung or recycled ones.
  int64_t replaced_workers() const;
  // The time of the consumer and of each worker since Create(), by stage
  // (loader_stats.h), also after an error. Copies some kilobytes for each
  // worker, and its last LoaderOptions::trace_events stages.
  LoaderStats Stats() const;
  // A report on these statistics: whether the loader or the consumer is the
  // bottleneck, and what to change, in words and as JSON (loader_report.h). For
  // a part of the time: MakeReport(loader.Stats().Since(before)).
  LoaderReport Report() const;
  // The statistics as text of OpenMetrics 1.0.
  std::string Metrics() const;
  // The last LoaderOptions::trace_events stages of each process, as JSON that
  // ui.perfetto.dev and chrome://tracing open.
  std::string Trace() const;
  // A sentence for each option that has no effect here, or makes the loader
  // slower. One of them names a rank of several that reads a whole map-style
  // dataset: its order is not a DistributedSampler's, and has at least as many
  // samples as the dataset. (Of a batch sampler this cannot be known.)
  std::vector<std::string> warnings() const;

 private:
  friend class EpochRange;

  Loader(LoaderOptions options, DatasetRecipe recipe,
         std::unique_ptr<Dataset> dataset,
         std::unique_ptr<Cancellation> cancellation);

  // The most samples of a batch.
  int64_t batch_size() const { return batch_size_; }
  // Whether the dataset bears LoaderOptions::threads_per_worker.
  absl::Status CheckThreads() const;
  absl::Status SetOrder();
  absl::Status SetBatches();  // Of a batch sampler.
  absl::Status SetLanes(const IterableDataset& dataset);
  // Of any epoch, from its beginning.
  EpochPlan WholePlan() const;
  // The prefetch under the quota.
  absl::StatusOr<int> Prefetch(int64_t batch_bytes, int workers) const;
  int MostWorkers(int64_t batch_bytes) const;
  // FromRecipe() with errors that do not name the rank.
  static absl::StatusOr<std::unique_ptr<Loader>> Make(
      absl::StatusOr<DatasetRecipe> recipe, LoaderOptions options);
  absl::Status Start();
  // Errors: kResourceExhausted beyond LoaderOptions::failure_budget.
  absl::Status CountFailures(const Batch& batch);
  // By LoaderOptions::pin_memory.
  void Pin(const Batch& batch);
  // Without workers.
  absl::Status StartLocal(std::shared_ptr<const BatchLayout> layout,
                          SharingStrategy strategy);
  // With workers; `setup` has what depends on the layout.
  absl::Status StartWorkers(WorkerSetup setup,
                            std::shared_ptr<const BatchLayout> layout);
  // The next batch of the epoch that was begun with `ticket`; its own error
  // inside, the loader's outside.
  absl::StatusOr<std::optional<BatchResult>> Next(uint64_t ticket,
                                                  Deadline deadline);
  // The same, with errors that do not name the rank.
  absl::StatusOr<std::optional<BatchResult>> NextUnnamed(uint64_t ticket,
                                                         Deadline deadline);

  const LoaderOptions options_;
  const DatasetRecipe recipe_;
  std::unique_ptr<Dataset> dataset_;
  int prefetch_ = 0;  // Under the quota; 0 without workers.
  int64_t batch_size_ = 1;
  int64_t samples_ = -1;
  int64_t batches_ = -1;
  int64_t dataset_size_ = 0;          // Of a map-style dataset.
  std::shared_ptr<Sampler> sampler_;  // Of a map-style dataset.
  int64_t shards_ = 0;                // Of an iterable dataset.
  int64_t lanes_ = 0;                 // That these are in.
  bool is_shard_per_worker_ = false;  // kShardPerWorker
  bool is_undivided_ = false;  // One of several ranks has the whole order.
  std::unique_ptr<Cancellation> cancellation_;
  std::unique_ptr<LoaderProgress> progress_;
  std::unique_ptr<StatsBoard> stats_;
  std::unique_ptr<BatchSource> source_;
  uint64_t epoch_ticket_ = 0;   // Counts calls of Epoch().
  int64_t epoch_ = 0;           // That of the last call.
  int64_t failed_samples_ = 0;  // In its batches so far, without kFail.
  bool is_drained_ = false;     // It has ended by Drain().
  absl::Status refusal_;        // Of this epoch.
  absl::Status pin_refusal_;    // The first one of pin_memory.
  // What the source had at the loader's failure.
  std::vector<absl::Status> incidents_;
  int64_t replaced_workers_ = 0;
  absl::Status failure_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOADER_H_
