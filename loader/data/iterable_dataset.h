// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// IterableDataset: samples one after another, for data without random access:
// files of records, sockets, generators.
//
//   class Lines : public loader::IterableDataset {
//    public:
//     explicit Lines(std::vector<std::string> paths) : paths_(paths) {}
//
//     int64_t shards() const override { return std::ssize(paths_); }
//     loader::SampleSpec spec() const override { return LineSpec(); }
//     absl::StatusOr<std::unique_ptr<loader::SampleStream>> Open(
//         int64_t shard, int64_t /*epoch*/) override {
//       return OpenLines(paths_[shard]);
//     }
//
//    private:
//     std::vector<std::string> paths_;
//   };
//   TENON_LOADER_DATASET(Lines(std::vector<std::string>));
//
// The dataset has a fixed number of shards, which workers read. A batch has
// samples of one shard. Batches come from the shards in turn: the first batch
// of each shard, then the second of each, until all have ended. So neither the
// batches nor their order depend on the number of workers.
//
// If open_shards() is less than shards(), the shards are in as many lanes: lane
// l reads shard l, then shard l + lanes, and so on, and batches come from the
// lanes in turn. Without ranks, worker l mod workers reads lane l, so more
// workers than lanes are of no use.
//
// The error of a batch (of Open(), of a sample with OnSampleError::kFail, or a
// lack of memory for the batch) ends its shard; the next batch of the lane is
// of the lane's next shard.
//
// Ranks: with LoaderOptions::rank, and the same dataset on all ranks, rank r
// reads the lanes l with l mod world_size = r, and its workers read these in
// turn. The batches of all ranks, in the order of Batch::number(), are those of
// one process, bit for bit. Ranks may have different numbers of batches.

#ifndef TENON_LOADER_DATA_ITERABLE_DATASET_H_
#define TENON_LOADER_DATA_ITERABLE_DATASET_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// The samples of one shard in one epoch.
// Threads: an instance is used by one thread at a time.
class SampleStream {
 public:
  virtual ~SampleStream() = default;

  // Writes the next sample, every byte of every field, and returns true; or
  // returns false at the end, after which it is not called again. All
  // randomness must come from `random`, which is keyed by the shard and the
  // number of the sample in it.
  // An error or an exception is that of this sample. With OnSampleError::kFail
  // the stream is then destroyed, and the shard ends with the error of its
  // batch. With kSkip Next() is called again, without a limit: a stream that
  // cannot go on after an error must return false from then on.
  virtual absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) = 0;

  // Optional: passes over up to `samples` samples without making them, and
  // returns their number: fewer than `samples`, or 0, if it cannot pass over
  // more, or at its end. A loader that resumes, and a worker that replaces
  // another one, makes the other samples by Next() and drops them. Samples that
  // Next() would fail on count, too: with kFail a shard that ended by such a
  // sample goes on after it. A stream whose samples depend on the random
  // numbers of those before, such as a WindowShuffle or a mix, returns 0.
  // Errors: an error, an exception, or a number that is not in [0, samples]
  // is the error of the batch that was to be read next, whatever the options,
  // and ends its lane: which batch of which shard comes then is not known.
  virtual absl::StatusOr<int64_t> Skip(int64_t /*samples*/) { return 0; }
};

// IterableDataset::shards(): one for each worker of each rank. The dataset
// divides its samples among them, as with get_worker_info() of torch. Shard s
// of n is opened by worker s / world_size of rank s mod world_size, and n =
// workers * world_size (GetWorkerInfo(), worker_init.h); without workers the
// consumer is the only worker of its rank. n is at most kMaxShards. Batches
// then depend on the number of workers, so kAuto is refused, and on that of
// ranks.
//
//   class Lines : public IterableDataset {
//    public:
//     int64_t shards() const override { return kShardPerWorker; }
//     SampleSpec spec() const override { return LineSpec(); }
//     absl::StatusOr<std::unique_ptr<SampleStream>> Open(
//         int64_t shard, int64_t /*epoch*/) override {
//       const WorkerInfo info = GetWorkerInfo().value_or(WorkerInfo());
//       const int all = info.workers * info.world_size;
//       return OpenLines(absl::StrCat("part", shard, "of", all));
//     }
//   };
inline constexpr int64_t kShardPerWorker = -1;

// Threads, processes, failure: as a Dataset.
class IterableDataset : public Dataset {
 public:
  // At least 1, at most kMaxShards, or kShardPerWorker. Must not change, and
  // must be the same in each process: it is part of the order of an epoch.
  virtual int64_t shards() const { return 1; }

  // How many shards are open at the same time in the whole job, each with its
  // files and its window (WindowShuffle): the number of lanes. At least 1, and
  // at least the number of ranks; more than shards() counts as shards(). Part
  // of the order of an epoch, as shards() is. With many shards return a few for
  // each worker of each rank.
  virtual int64_t open_shards() const { return shards(); }

  // Begins shard `shard`, in [0, shards()), of `epoch`. The dataset outlives
  // the stream. Streams of an abandoned epoch stay open until their worker
  // begins another epoch. An error, an exception or a null stream (kInternal)
  // is the error of a batch, the only one of the shard.
  virtual absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                             int64_t epoch) = 0;

  // The number of samples is not known: -1.
  int64_t size() const final { return -1; }
  // kUnimplemented.
  absl::Status Get(int64_t index, SampleRandom& random, Sample& sample) final;
};

// dataset.Open(). Errors: also kInternal for a null stream.
absl::StatusOr<std::unique_ptr<SampleStream>> OpenShard(
    IterableDataset& dataset, int64_t shard, int64_t epoch);

// Limits of a dataset.
inline constexpr int64_t kMaxShards = (int64_t{1} << 22) - 1;
inline constexpr int64_t kSamplesOfShard = int64_t{1} << 40;

// The position of sample `n` of a shard, which keys its random numbers.
inline int64_t PositionInShard(int64_t shard, int64_t n) {
  return shard * kSamplesOfShard + n;
}
inline int64_t ShardOf(int64_t position) { return position / kSamplesOfShard; }

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_ITERABLE_DATASET_H_
