// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Datasets that the loader's tests run on, registered by name; each does one
// thing well or badly. Linking this file is enough to use them. Those by index
// are thread_safe(), but for OneThread.
//
//   "Numbers(int64_t size)"  item i: value = i (int64), and noise = 16 floats
//               from the sample's random numbers.
//   "Bulk(int64_t size)"  the same by GetBatch() alone.
//   "Bad()"     as Numbers(100); item i fails with kDataLoss if i % 10 == 3, and
//               throws std::runtime_error if i % 10 == 7.
//   "Dies()"    as Numbers(100); item 42 raises SIGKILL, in a worker and not in
//               the consumer.
//   "Exits()"   the same, with exit(3).
//   "Sleeps(int64_t ms)"  as Numbers(1000); each item takes so long.
//   "OneThread()"  as Numbers(10).
//   "CannotSleep()"  as Numbers(5); from item 3 on poll() fails in its process.
//   "PerProcess()"  a spec that differs from process to process: refused.
//   "NoSuchThing()"  Create() fails with kInvalidArgument "no such thing".
//   "Throws()"  a constructor that throws.
//   "NotInWorkers()"  Create() fails in workers only: "not in a worker".
//   "ItemFailsWith(int code)"  as Numbers(10); item 3 fails with that
//               absl::StatusCode.
//   "WorkerFailsWith(int code)"  Create() fails in worker processes only, with
//               that absl::StatusCode.
//   "Lingers()"  Create() fails in worker processes only, which then take a
//               minute to exit.
//   "SlowToMake(int64_t ms)"  as Numbers(10); outside of the consumer Create()
//               takes so long.
//   "SizeThrows(bool only_in_workers)", "SpecThrows(bool only_in_workers)"
//               as Numbers(10); that function throws std::runtime_error.
//   "Described(std::string text, std::vector<double> values)"  one item, with
//               the arguments: length (int64) and values (float64[3]).
//   "Streams(std::vector<int64_t> sizes)"  iterable; shard s has sizes[s]
//               samples. Fields as of Numbers; sample n of shard s has the value
//               1000 s + n. Cannot open a shard of a negative size.
//   "BadStreams(std::vector<int64_t> sizes)"  the same; a sample n fails with
//               kDataLoss if n % 10 == 3, and throws if n % 10 == 7.
//   "DyingStreams(bool in_open)"  as Streams({100, 100}); opening shard 1, or
//               its sample 3, raises SIGKILL in a worker.
//   "OtherShards()"  as Streams; two shards in the consumer, three in workers.

#ifndef TENON_LOADER_TESTING_TEST_DATASETS_H_
#define TENON_LOADER_TESTING_TEST_DATASETS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"

namespace tenon::loader {

inline constexpr int kNoiseSize = 16;

// Tells the datasets above that this process is the consumer and not a worker.
// Call it in main() after spawn::Init().
void MarkAsConsumer();

// How many samples the datasets above have made in this process, by any thread.
int64_t SamplesMade();

class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }
  SampleSpec spec() const override;
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override;
  bool thread_safe() const override { return true; }

 private:
  int64_t size_;
};
TENON_LOADER_DATASET(Numbers(int64_t));

class Streams : public IterableDataset {
 public:
  explicit Streams(std::vector<int64_t> sizes) : sizes_(std::move(sizes)) {}

  int64_t shards() const override { return std::ssize(sizes_); }
  SampleSpec spec() const override { return Numbers(0).spec(); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override;

 private:
  std::vector<int64_t> sizes_;
};
TENON_LOADER_DATASET(Streams(std::vector<int64_t>));

}  // namespace tenon::loader

#endif  // TENON_LOADER_TESTING_TEST_DATASETS_H_
