// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderOptions: how a loader makes batches. A value; see loader.h.

#ifndef TENON_LOADER_LOADER_OPTIONS_H_
#define TENON_LOADER_LOADER_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "tenon/loader/data/on_sample_error.h"  // IWYU pragma: export
#include "tenon/loader/data/on_worker_death.h"  // IWYU pragma: export
#include "tenon/loader/data/worker_init.h"      // IWYU pragma: export
#include "tenon/loader/data/worker_kind.h"      // IWYU pragma: export
#include "tenon/loader/data/worker_program.h"   // IWYU pragma: export
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/batch_sampler.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {

// LoaderOptions::workers: as many as are of use.
inline constexpr int kAuto = std::numeric_limits<int>::min();

struct LoaderOptions {
  // Unset (std::nullopt): each sample is a batch, without a batch dimension.
  std::optional<int64_t> batch_size = 1;
  // Another order of all samples in each epoch. Not together with `sampler`.
  bool shuffle = false;
  // The order of an epoch. Unset: that of the dataset, or of `shuffle`.
  std::shared_ptr<Sampler> sampler;
  // The batches of an epoch, of any sizes. Not together with `batch_size`,
  // `shuffle`, `sampler` and `drop_last`.
  std::shared_ptr<BatchSampler> batch_sampler;
  // Leaves out the last batch of an epoch if it is not full. Not without a
  // batch_size.
  bool drop_last = false;

  // How many processes or threads make batches; 0: the consumer makes them
  // itself. kAuto: starts as many as there are usable cores, shards of a
  // stream, and batches in `memory_quota`, and uses 1 of them or more, by the
  // time that the consumer waits for batches; see Loader::tuning(). For a
  // stream the number changes between epochs only.
  int workers = 0;
  WorkerKind worker_kind = WorkerKind::kProcess;
  // How many threads make the samples of a batch, in each worker, or in the
  // consumer if there are none: so a batch takes less time, and threads cost no
  // memory for batches and datasets, as more workers do. They share the dataset
  // of their worker: one that is not Dataset::thread_safe() is refused, and so
  // is a stream, whose samples follow one another. Batches have the same bits
  // for any number. With kAuto the workers are as many as the usable cores
  // divided by it. worker_init is called once in a worker, before its threads
  // start. Not together with sample_timeout.
  int threads_per_worker = 1;
  // How worker processes are started. Unset: kSpawn. Only for these.
  std::optional<spawn::StartMethod> start_method;
  // Another program in which worker processes run (worker_program.h), so that
  // this one need not call spawn::Init() and is not executed again. The dataset
  // need not be registered here: Create() by its name has one process of that
  // program make the dataset, and learns its size and fields. Not together
  // with worker_init: such a dataset does that itself.
  std::optional<WorkerProgram> worker_program = std::nullopt;
  // How many batches each worker is ahead, at the price of their memory. Unset:
  // 2. Not without workers.
  std::optional<int> prefetch;
  // Bytes for the batches that workers are ahead: lowers `prefetch` as far as
  // needed, and Loader::warnings() says so. Each worker needs one batch;
  // without workers it is one batch. Counted are the tensors of fields of one
  // shape. Not counted: the rounding of blocks (up to a fifth, below 16 KiB up
  // to a half) and of segments (256 KiB and more), fields whose shape differs
  // from sample to sample, windows of WindowShuffle, and batches that the
  // consumer keeps.
  std::optional<int64_t> memory_quota;
  // False: batches in the order in which they are ready; without workers, that
  // is the fixed order. A free worker takes the next batch, so a slow one
  // delays only the `prefetch` - 1 batches that its worker has been assigned
  // already. Shards of an iterable dataset stay with their worker.
  // Batch::number() is still that of the fixed order, and each batch has the
  // same bytes.
  bool in_order = true;
  // True: when all batches of an epoch have been assigned, workers go on with
  // those of the next one (its number + 1), up to `prefetch` of them, so that
  // they do not idle between epochs; of a stream, when the end of all shards is
  // known. An epoch with another number abandons them. After the last epoch
  // they are made in vain. Not without workers.
  bool overlap_epochs = false;
  // Called in each worker before it makes the dataset; registered by
  // TENON_LOADER_WORKER_INIT (worker_init.h). Not without workers.
  WorkerInit worker_init = nullptr;
  // The longest wait for a batch of an iteration; then its element is
  // kDeadlineExceeded. Of a worker_program also the longest wait of Create()
  // for the dataset. Not without workers, which it could not interrupt.
  absl::Duration timeout = absl::InfiniteDuration();

  // Of all random numbers: those of samples (sample_random.h), and of
  // `shuffle`.
  uint64_t seed = 0;
  OnSampleError on_sample_error = OnSampleError::kFail;
  // How many samples of an epoch may fail; one more is an error of the loader,
  // kResourceExhausted, in place of the batch that has it: with `in_order` the
  // same batch for any number of workers. Unset: all may. Counted are the
  // samples of Batch::skipped(), from where the epoch was resumed
  // (Loader::Load()). Not with kFail, unless on_worker_death is kSkipSample.
  std::optional<int64_t> failure_budget;

  // The following are for worker processes alone. Of an iterable dataset the
  // new process opens the shards again and passes over what has been made, by
  // SampleStream::Skip(), or else by making it; kSkipSample is refused.
  OnWorkerDeath on_worker_death = OnWorkerDeath::kFail;
  // How often in a row a worker is started again, without a batch from it
  // between, or a sample that is left out; one more death is the error of the
  // loader. 0 to 1000.
  int max_restarts = 3;
  // The longest time for a sample, or a call of Dataset::GetBatch(), while the
  // consumer waits for a batch: seen at 1 to 1.5 times that. Then the worker is
  // ended; the error names sample and stack; then on_worker_death holds. The
  // time in which a process is stopped or traced (SIGSTOP, a debugger) does not
  // count.
  absl::Duration sample_timeout = absl::InfiniteDuration();
  // Another process takes a worker's place after so many samples; after its
  // private memory has grown by so many bytes since its first batch. It
  // finishes the batches that it has been assigned.
  std::optional<int64_t> recycle_after_samples;
  std::optional<int64_t> recycle_after_bytes;
  // Pins the memory of batches for devices, each segment of it once, before the
  // first batch of the segment is returned; that Next() blocks for as long as
  // the driver takes. For a program that links //cuda_ipc:pinned_memory; where
  // there is no device, or it refuses, Loader::warnings() says why it has no
  // effect. //loader/to_device does it without this. A process that has
  // initialized CUDA does not fork, so forked workers are not replaced then.
  bool pin_memory = false;
  // This process in its job (FindRank(), job.h): stands before each error of
  // the loader and its batches. Of an iterable dataset it is also the part that
  // this process reads (iterable_dataset.h); of another one that part is the
  // order of a DistributedSampler.
  std::optional<Rank> rank;
  // To measure the ideal, a loader that costs nothing: the first so many
  // batches are made and kept, and from then on returned again and again, in
  // their order and with their numbers, until each epoch has as many as it
  // should have (of a stream: as are kept). Workers are idle then, and State()
  // is an error. 1 to 4096, and the memory of so many batches beside
  // `memory_quota`.
  std::optional<int> replay;
  // How many stages of batches each process keeps for Loader::Trace(), 32 bytes
  // each; rounded up to a power of two. At most 1048576.
  int trace_events = 1024;
  // How batches are named to the consumer. Unset: GetSharingStrategy().
  std::optional<SharingStrategy> strategy;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOADER_OPTIONS_H_
