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

// LoaderOptions::workers: as many as make the loader faster.
inline constexpr int kAuto = std::numeric_limits<int>::min();

struct LoaderOptions {
  // Unset (std::nullopt): each sample is a batch, without a batch dimension.
  std::optional<int64_t> batch_size = 1;
  // Whether each epoch has all samples in another random order. Not together
  // with `sampler`.
  bool shuffle = false;
  // The order of an epoch. Unset: the order of the dataset, or of `shuffle`.
  std::shared_ptr<Sampler> sampler;
  // The batches of an epoch, of any sizes. Not together with `batch_size`,
  // `shuffle`, `sampler` and `drop_last`.
  std::shared_ptr<BatchSampler> batch_sampler;
  // Drops the last batch of an epoch if it is not full. Needs a batch_size.
  bool drop_last = false;

  // How many processes or threads make batches; 0: the consumer makes them
  // itself. kAuto: starts one for each usable core, but no more than a stream
  // has shards or `memory_quota` has room for batches, and uses as many of them
  // as shorten the time that the consumer waits; see Loader::tuning(). For a
  // stream the number changes between epochs only.
  int workers = 0;
  WorkerKind worker_kind = WorkerKind::kProcess;
  // How many threads make the samples of a batch, in each worker, or in the
  // consumer if there are no workers. A batch then takes less time; unlike more
  // workers, more threads need no memory for batches and datasets of their own.
  // The threads of a worker share its dataset: a dataset that is not
  // Dataset::thread_safe() is rejected, and so is a stream, whose samples
  // follow one another. Batches have the same bits for any number of threads.
  // With kAuto the loader starts as many workers as there are usable cores,
  // divided by this number. worker_init is called once in each worker, before
  // its threads start. Not together with sample_timeout.
  int threads_per_worker = 1;
  // How worker processes are started. Unset: kSpawn. Not for threads.
  std::optional<spawn::StartMethod> start_method;
  // Another program in which worker processes run (worker_program.h). This
  // program then need not call spawn::Init(), is not executed again, and need
  // not register the dataset: Create() by its name starts a process of the
  // other program, which makes the dataset and sends its size and fields. Not
  // together with worker_init: the other program's dataset does such work
  // itself.
  std::optional<WorkerProgram> worker_program = std::nullopt;
  // How many batches each worker has assigned at a time; each needs memory.
  // Unset: 2. Needs workers.
  std::optional<int> prefetch;
  // Bytes for the batches that workers make ahead. The loader lowers `prefetch`
  // as far as needed, and Loader::warnings() says so. The least is one batch
  // for each worker; without workers, one batch. Only tensors of fields of one
  // shape are counted, not the rounding of blocks (up to a fifth, below 16 KiB
  // up to a half) and of segments (256 KiB and more), fields whose shape
  // differs from sample to sample, windows of WindowShuffle, and batches that
  // the consumer keeps.
  std::optional<int64_t> memory_quota;
  // False: batches in the order in which they are ready; without workers, that
  // is the fixed order. The worker with the fewest batches is assigned the next
  // one, so a slow batch delays only the other batches of its worker, at most
  // `prefetch` - 1. Shards of an iterable dataset stay with their worker.
  // Batch::number() is still that of the fixed order, and each batch has the
  // same bytes.
  bool in_order = true;
  // True: when all batches of an epoch have been assigned (of a stream: when
  // the end of all shards is known), each worker is assigned up to `prefetch`
  // batches of the next epoch (its number + 1), so that no worker is idle
  // between epochs. If another epoch is begun instead, these batches are
  // abandoned. After the last epoch they are made in vain. Needs workers.
  bool overlap_epochs = false;
  // Called in each worker before it makes the dataset; registered by
  // TENON_LOADER_WORKER_INIT (worker_init.h). Needs workers.
  WorkerInit worker_init = nullptr;
  // The longest wait for a batch of an iteration; after it the element is
  // kDeadlineExceeded. With a worker_program also the longest wait of Create()
  // for the dataset. Needs workers: a consumer that makes a sample itself is
  // not interrupted.
  absl::Duration timeout = absl::InfiniteDuration();

  // The seed of all random numbers: those of samples (sample_random.h) and of
  // `shuffle`.
  uint64_t seed = 0;
  OnSampleError on_sample_error = OnSampleError::kFail;
  // How many samples of an epoch may fail. One more is an error of the loader,
  // kResourceExhausted, in place of the batch of that sample: with `in_order`
  // the same batch for any number of workers. Unset: all may fail. The samples
  // of Batch::skipped() count; in an epoch that was resumed (Loader::Load()),
  // from the position on. Not with kFail, unless on_worker_death is
  // kSkipSample.
  std::optional<int64_t> failure_budget;

  // The options from here to recycle_after_bytes are for worker processes, not
  // for threads. A process that replaces another one opens the shards of an
  // iterable dataset again and passes over the samples that have been made, by
  // SampleStream::Skip(), or else by making them again; kSkipSample is rejected
  // for these datasets.
  OnWorkerDeath on_worker_death = OnWorkerDeath::kFail;
  // How many deaths of a worker in a row, without a batch from it or a sample
  // left out in between, are answered by a new process. One more death is an
  // error of the loader. 0 to 1000.
  int max_restarts = 3;
  // The longest time for a sample, or a call of Dataset::GetBatch(), while the
  // consumer waits for a batch. A worker that takes longer is ended after 1 to
  // 1.5 times that time; the error names sample and stack, and on_worker_death
  // applies. Time in which a process is stopped or traced (SIGSTOP, a debugger)
  // does not count.
  absl::Duration sample_timeout = absl::InfiniteDuration();
  // A worker process is replaced after it has made so many samples, or after
  // its private memory has grown by so many bytes since its first batch. Before
  // that it finishes the batches that it has been assigned.
  std::optional<int64_t> recycle_after_samples;
  std::optional<int64_t> recycle_after_bytes;
  // Pins the memory of batches, so that devices copy it faster. Each segment is
  // pinned once, in the Next() that returns its first batch, which blocks for
  // as long as the driver takes. The program must link
  // //cuda_ipc:pinned_memory; without a device, or if the driver refuses, the
  // option has no effect and Loader::warnings() says why. //loader/to_device
  // pins without this option. A process that has initialized CUDA does not
  // fork, so with StartMethod::kFork its workers are not replaced.
  bool pin_memory = false;
  // The rank of this process in its job (FindRank(), job.h). Each error of the
  // loader and its batches begins with it. Of an iterable dataset each rank
  // reads its own part (iterable_dataset.h); of a map-style dataset the part of
  // a rank is the order of a DistributedSampler. Without one each rank reads
  // its whole order, and Loader::warnings() says so if that has no fewer
  // samples than the dataset.
  std::optional<Rank> rank;
  // To measure a consumer with an ideal loader, one that costs nothing: the
  // loader keeps the first so many batches, and from then on returns them again
  // and again, in their order and with their numbers, until the epoch has its
  // number of batches (of a stream: the number that is kept). Workers are idle
  // then, and State() is an error. 1 to 4096; the memory of these batches is
  // not part of `memory_quota`.
  std::optional<int> replay;
  // How many stages of batches each process keeps for Loader::Trace(), 32 bytes
  // each; rounded up to a power of two. At most 1048576.
  int trace_events = 1024;
  // How the memory of batches is shared with the consumer, by descriptor or by
  // name. Unset: GetSharingStrategy().
  std::optional<SharingStrategy> strategy;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOADER_OPTIONS_H_
