// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Loader::State() and Load(): what remains of an epoch has the same bits for
// any numbers of workers and ranks, before and after.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/window_shuffle.h"
#include "tenon/loader/datasets/mix_dataset.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/gated_testing.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_state.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/batch_sampler.h"
#include "tenon/loader/sampling/bucket_sampler.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/sampling/subset_sampler.h"
#include "tenon/loader/sampling/weighted_sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kEpoch = 5;

// Streams() that can pass over samples, in lanes of two shards.
class SkippingStreams : public Streams {
 public:
  explicit SkippingStreams(std::vector<int64_t> sizes)
      : Streams(sizes), sizes_(std::move(sizes)) {}
  int64_t open_shards() const override { return (shards() + 1) / 2; }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t) override {
    return std::make_unique<Stream>(1000 * shard,
                                    sizes_[static_cast<size_t>(shard)]);
  }

 private:
  class Stream : public SampleStream {
   public:
    Stream(int64_t first, int64_t size) : first_(first), left_(size) {}
    absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
      if (left_ == 0) return false;
      --left_;
      Numbers numbers(0);
      TENON_RETURN_IF_ERROR(numbers.Get(first_++, random, sample));
      return true;
    }
    absl::StatusOr<int64_t> Skip(int64_t samples) override {
      samples = std::min(samples, left_);
      first_ += samples;
      left_ -= samples;
      return samples;
    }

   private:
    int64_t first_;
    int64_t left_;
  };

  std::vector<int64_t> sizes_;
};
TENON_LOADER_DATASET(SkippingStreams(std::vector<int64_t>));

// Two streams of sizes[0], mixed by weights that the epoch gives, and shuffled
// in a window.
class Mixed : public IterableDataset {
 public:
  static absl::StatusOr<std::unique_ptr<Mixed>> Create(
      std::vector<int64_t> sizes) {
    std::vector<std::unique_ptr<IterableDataset>> datasets;
    datasets.push_back(std::make_unique<Streams>(sizes));
    datasets.push_back(std::make_unique<Streams>(sizes));
    auto mixed = std::make_unique<Mixed>();
    TENON_ASSIGN_OR_RETURN(
        mixed->mix_, MixDataset::Create(std::move(datasets), [](int64_t epoch) {
          return std::vector<double>{1, static_cast<double>(epoch)};
        }));
    return mixed;
  }
  int64_t shards() const override { return mix_->shards(); }
  SampleSpec spec() const override { return mix_->spec(); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override {
    TENON_ASSIGN_OR_RETURN(auto stream, mix_->Open(shard, epoch));
    return WindowShuffle::Create(std::move(stream), spec(), 5);
  }

 private:
  std::unique_ptr<MixDataset> mix_;
};
TENON_LOADER_DATASET(Mixed(std::vector<int64_t>));

// As many shards as workers, of 9 samples each.
class PerWorker : public Streams {
 public:
  PerWorker() : Streams(std::vector<int64_t>(16, 9)) {}
  int64_t shards() const override { return kShardPerWorker; }
};
TENON_LOADER_DATASET(PerWorker());

// What tests compare: samples one after the other.
struct Item {
  int64_t value;
  std::vector<uint32_t> noise;
  friend bool operator==(const Item&, const Item&) = default;
};
using Items = std::vector<Item>;

std::string Digest(absl::Span<const Item> items) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t word) {
    for (int i = 0; i < 8; ++i, word >>= 8) {
      hash = (hash ^ (word & 0xff)) * 0x100000001b3;
    }
  };
  for (const Item& item : items) {
    add(static_cast<uint64_t>(item.value));
    for (const uint32_t bits : item.noise) add(bits);
  }
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

Items ItemsOf(const Copy& batch) {
  Items items;
  for (size_t i = 0; i < batch.values.size(); ++i) {
    items.push_back({batch.values[i], {}});
    for (size_t k = 0; k < kNoiseSize; ++k) {
      items.back().noise.push_back(
          std::bit_cast<uint32_t>(batch.noise[i * kNoiseSize + k]));
    }
  }
  return items;
}

void Append(Items& all, const Items& more) {
  all.insert(all.end(), more.begin(), more.end());
}

struct Topology {
  int workers;
  int ranks;
};
std::vector<Topology> Topologies() {
  std::vector<Topology> all;
  for (const int ranks : {1, 2, 3}) {
    for (const int workers : {0, 1, 2, 5}) all.push_back({workers, ranks});
  }
  return all;
}

// Threads, as they start faster, but two workers are processes.
LoaderOptions OptionsOf(const Topology& topology, int rank) {
  return {.workers = topology.workers,
          .worker_kind = topology.workers == 2 ? WorkerKind::kProcess
                                               : WorkerKind::kThread,
          .seed = 8,
          .rank = Rank{.rank = rank, .world_size = topology.ranks}};
}

// The loaders of a job.
using Loaders = std::vector<std::unique_ptr<Loader>>;

// Sets the order of a rank.
using SetOrder =
    std::function<void(LoaderOptions&, const Rank&, int64_t batch_size)>;

constexpr int64_t kItems = 61;
constexpr int64_t kBatch = 4;

Loaders MapLoaders(const Topology& topology, int64_t batch_size,
                   const SetOrder& set) {
  Loaders loaders;
  for (int rank = 0; rank < topology.ranks; ++rank) {
    LoaderOptions options = OptionsOf(topology, rank);
    set(options, *options.rank, batch_size);
    auto loader = Loader::Create<Numbers>(options, kItems);
    EXPECT_THAT(loader, IsOk());
    loaders.push_back(*std::move(loader));
  }
  return loaders;
}

void SetRandom(LoaderOptions& options, const Rank& rank, int64_t batch_size) {
  options.batch_size = batch_size;
  options.sampler = *DistributedSampler::Create(
      *RandomSampler::Create({.dataset_size = kItems, .seed = 3}), rank,
      {.batch_size = batch_size});
}

Copy NextOf(EpochRange& range) {
  auto batch = range.Next(Watchdog());
  EXPECT_THAT(batch, IsOk());
  if (!batch.ok() || !batch->has_value()) return {-1, {}, {}};
  return CopyOf(**batch);
}

// What the ranks give of epoch kEpoch, one batch of each in turn, without what
// fills up the last batches.
Items RunJob(Loaders& loaders, size_t most) {
  std::vector<std::vector<Copy>> batches;
  size_t steps = 0;
  for (auto& loader : loaders) {
    auto epoch = RunEpoch(*loader, kEpoch);
    EXPECT_THAT(epoch, IsOk());
    batches.push_back(*std::move(epoch));
    steps = std::max(steps, batches.back().size());
  }
  Items items;
  for (size_t i = 0; i < steps; ++i) {
    for (const auto& of_rank : batches) {
      if (i < of_rank.size()) Append(items, ItemsOf(of_rank[i]));
    }
  }
  items.resize(std::min(items.size(), most));
  return items;
}

// The states of a job after each step, of which each has its position as key.
std::map<int64_t, LoaderState> StatesOf(Loaders& loaders) {
  std::vector<std::unique_ptr<EpochRange>> ranges;
  for (auto& loader : loaders) {
    ranges.emplace_back(new EpochRange(loader->Epoch(kEpoch)));
  }
  std::map<int64_t, LoaderState> states;
  for (bool more = true; more;) {
    std::vector<LoaderState> of_ranks;
    for (auto& loader : loaders) of_ranks.push_back(*loader->State());
    const auto state = LoaderState::Combine(of_ranks);
    EXPECT_THAT(state, IsOk());
    if (state->epoch() != kEpoch) break;
    states.emplace(state->contents().positions[0], *state);
    for (auto& range : ranges) more = NextOf(*range).number >= 0;
  }
  return states;
}

TEST(LoaderResumeTest, MapStyleOverWorkersAndRanks) {
  Loaders alone = MapLoaders({0, 1}, kBatch, SetRandom);
  const Items whole = RunJob(alone, kItems);
  ASSERT_THAT(whole, SizeIs(kItems));
  // States of all topologies are those of one process, as text.
  const std::map<int64_t, LoaderState> states = StatesOf(alone);
  ASSERT_THAT(states, SizeIs(17));
  for (const Topology& from : Topologies()) {
    Loaders loaders = MapLoaders(from, kBatch, SetRandom);
    const auto of_job = StatesOf(loaders);
    EXPECT_GE(of_job.size(), 6u);
    for (const auto& [position, state] : of_job) {
      ASSERT_TRUE(states.contains(position)) << position;
      EXPECT_EQ(state.ToString(), states.at(position).ToString());
    }
  }
  // Batches of 3 and 5 samples begin in the middle of those of 4.
  for (const int64_t batch_size : {kBatch, int64_t{3}, int64_t{5}}) {
    for (const Topology& to : Topologies()) {
      Loaders loaders = MapLoaders(to, batch_size, SetRandom);
      Items all;
      for (const auto& [position, state] : states) {
        TENON_ASSERT_OK_AND_ASSIGN(const LoaderState read,
                                   LoaderState::Parse(state.ToString()));
        for (auto& loader : loaders) ASSERT_THAT(loader->Load(read), IsOk());
        const absl::Span<const Item> remaining =
            absl::MakeConstSpan(whole).subspan(static_cast<size_t>(position));
        const Items items = RunJob(loaders, remaining.size());
        EXPECT_EQ(Digest(items), Digest(remaining))
            << position << " by " << to.workers << " workers, " << to.ranks
            << " ranks, batches of " << batch_size;
        Append(all, items);
      }
      std::cout << "map-style, " << states.size() << " positions, resumed by "
                << to.workers << " workers, " << to.ranks
                << " ranks, batches of " << batch_size << ": remaining samples "
                << Digest(all) << "\n";
    }
  }
}

TEST(LoaderResumeTest, AllSamplersAndBatchSamplers) {
  std::vector<int64_t> lengths, subset;
  std::vector<double> weights;
  for (int64_t i = 0; i < kItems; ++i) {
    lengths.push_back(i * 7 % 31);
    subset.push_back(kItems - 1 - i);
    weights.push_back(static_cast<double>(1 + i % 3));
  }
  const auto divided = [](std::unique_ptr<Sampler> order) {
    auto shared = std::make_shared<std::unique_ptr<Sampler>>(std::move(order));
    return [shared](LoaderOptions& options, const Rank& rank,
                    int64_t batch_size) mutable {
      options.batch_size = batch_size;
      // Each rank owns its sampler: made anew by the caller.
      options.sampler = *DistributedSampler::Create(std::move(*shared), rank,
                                                    {.batch_size = batch_size});
    };
  };
  const std::map<std::string, std::function<SetOrder()>> orders = {
      {"weighted",
       [&] { return divided(*WeightedSampler::Create({.weights = weights})); }},
      {"weighted, without replacement",
       [&] {
         return divided(*WeightedSampler::Create(
             {.weights = weights, .replacement = false}));
       }},
      {"random, with replacement",
       [&] {
         return divided(*RandomSampler::Create(
             {.dataset_size = kItems, .samples = 50, .replacement = true}));
       }},
      {"buckets",
       [&] {
         return divided(*BucketSampler::Create(
             {.lengths = lengths, .batch_size = kBatch, .window = 4},
             *RandomSampler::Create({.dataset_size = kItems})));
       }},
      {"subset of a slice",
       [&] {
         return
             [&](LoaderOptions& options, const Rank& rank, int64_t batch_size) {
               options.batch_size = batch_size;
               options.sampler = *SubsetSampler::Create(
                   subset, *DistributedSampler::Create(
                               *RandomSampler::Create({.dataset_size = kItems}),
                               rank, {.batch_size = batch_size}));
             };
       }},
      {"batches of an order, divided",
       [&] {
         return [&](LoaderOptions& options, const Rank& rank, int64_t) {
           options.batch_sampler = *DistributedBatchSampler::Create(
               *FixedBatchSampler::Create(
                   *RandomSampler::Create({.dataset_size = kItems}), kBatch),
               rank);
         };
       }},
      {"an order divided, in batches", [&] {
         return [&](LoaderOptions& options, const Rank& rank, int64_t) {
           options.batch_sampler = *FixedBatchSampler::Create(
               *DistributedSampler::Create(
                   *RandomSampler::Create({.dataset_size = kItems}), rank,
                   {.batch_size = kBatch}),
               kBatch);
         };
       }}};
  for (const auto& [name, make] : orders) {
    SCOPED_TRACE(name);
    const auto loaders_of = [&](const Topology& topology) {
      return MapLoaders(topology, kBatch,
                        [&](LoaderOptions& options, const Rank& rank,
                            int64_t batch) { make()(options, rank, batch); });
    };
    Loaders alone = loaders_of({0, 1});
    const Items whole = RunJob(alone, kItems);
    ASSERT_GE(whole.size(), 50u);
    Loaders from = loaders_of({1, 2});
    const auto states = StatesOf(from);
    ASSERT_GE(states.size(), 7u);
    const bool in_batches = name.find("batches") != std::string::npos;
    for (const Topology to : {Topology{0, 1}, {1, 2}, {5, 3}}) {
      Loaders loaders = loaders_of(to);
      for (const auto& [position, state] : states) {
        for (auto& loader : loaders) ASSERT_THAT(loader->Load(state), IsOk());
        const size_t received = std::min(
            static_cast<size_t>(in_batches ? position * kBatch : position),
            whole.size());
        const absl::Span<const Item> remaining =
            absl::MakeConstSpan(whole).subspan(received);
        EXPECT_EQ(Digest(RunJob(loaders, remaining.size())), Digest(remaining))
            << state.ToString() << " by " << to.ranks << " ranks";
      }
    }
  }
}

// Batches by their numbers in the epoch of the whole job.
using Batches = std::map<int64_t, Items>;

Batches BatchesOf(Loaders& loaders) {
  Batches all;
  for (auto& loader : loaders) {
    const auto epoch = RunEpoch(*loader, kEpoch);
    EXPECT_THAT(epoch, IsOk());
    int64_t last = -1;
    for (const Copy& batch : *epoch) {
      EXPECT_GT(batch.number, last);
      last = batch.number;
      EXPECT_TRUE(all.emplace(batch.number, ItemsOf(batch)).second);
    }
  }
  return all;
}

std::string Digest(const Batches& batches) {
  Items all;
  for (const auto& [number, items] : batches) {
    all.push_back({number, {}});
    Append(all, items);
  }
  return Digest(all);
}

template <typename D>
Loaders StreamLoaders(const Topology& topology,
                      const std::vector<int64_t>& sizes) {
  Loaders loaders;
  for (int rank = 0; rank < topology.ranks; ++rank) {
    LoaderOptions options = OptionsOf(topology, rank);
    options.batch_size = kBatch;
    auto loader = Loader::Create<D>(options, sizes);
    EXPECT_THAT(loader, IsOk());
    loaders.push_back(*std::move(loader));
  }
  return loaders;
}

// The states of a job after each step, and what remains then. With `uneven`
// rank r stops r steps later.
template <typename D>
std::map<std::string, Batches> StreamStates(const Topology& from,
                                            const std::vector<int64_t>& sizes,
                                            const Batches& whole, bool uneven) {
  Loaders loaders = StreamLoaders<D>(from, sizes);
  std::vector<std::unique_ptr<EpochRange>> ranges;
  for (auto& loader : loaders) {
    ranges.emplace_back(new EpochRange(loader->Epoch(kEpoch)));
  }
  std::map<std::string, Batches> states;
  Batches remaining = whole;
  const auto receive = [&](EpochRange& range) {
    const int64_t number = NextOf(range).number;
    EXPECT_EQ(remaining.erase(number), number >= 0 ? 1u : 0u);
    return number >= 0;
  };
  if (uneven) {
    for (size_t r = 0; r < ranges.size(); ++r) {
      for (size_t i = 0; i < r; ++i) receive(*ranges[r]);
    }
  }
  for (bool more = true; more;) {
    std::vector<LoaderState> of_ranks;
    for (auto& loader : loaders) of_ranks.push_back(*loader->State());
    const auto state = LoaderState::Combine(of_ranks);
    EXPECT_THAT(state, IsOk());
    if (state->epoch() != kEpoch) break;
    states.emplace(state->ToString(), remaining);
    more = false;
    for (auto& range : ranges) more = receive(*range) || more;
  }
  return states;
}

template <typename D>
void ResumeStreams(const std::string& name, const std::vector<int64_t>& sizes,
                   const std::vector<Topology>& to_all) {
  Loaders alone = StreamLoaders<D>({0, 1}, sizes);
  const Batches whole = BatchesOf(alone);
  std::map<std::string, Batches> states;
  for (const int ranks : {1, 2, 3}) {
    std::map<std::string, Batches> of_ranks;
    for (const int workers : {0, 1, 2, 5}) {
      auto more = StreamStates<D>({workers, ranks}, sizes, whole, false);
      if (workers == 0) of_ranks = more;
      // The same texts whatever the number of workers.
      EXPECT_EQ(more, of_ranks) << workers << " workers, " << ranks << " ranks";
    }
    states.merge(of_ranks);
    states.merge(StreamStates<D>({1, ranks}, sizes, whole, true));
  }
  ASSERT_GE(states.size(), 20u);
  for (const Topology& to : to_all) {
    Loaders loaders = StreamLoaders<D>(to, sizes);
    std::string all;
    for (const auto& [text, remaining] : states) {
      TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state,
                                 LoaderState::Parse(text));
      for (auto& loader : loaders) ASSERT_THAT(loader->Load(state), IsOk());
      const Batches batches = BatchesOf(loaders);
      EXPECT_EQ(Digest(batches), Digest(remaining))
          << text << " by " << to.workers << " workers, " << to.ranks
          << " ranks: " << batches.size() << " batches of " << remaining.size();
      all += Digest(batches);
    }
    Items digests;
    for (const char c : all) digests.push_back({c, {}});
    std::cout << name << ", " << states.size() << " states, resumed by "
              << to.workers << " workers, " << to.ranks
              << " ranks: remaining batches " << Digest(digests) << "\n";
  }
}

TEST(LoaderResumeTest, StreamsOverWorkersAndRanks) {
  ResumeStreams<Streams>("streams", {13, 0, 7, 22, 5, 9, 16}, Topologies());
}

TEST(LoaderResumeTest, StreamsThatSkipOverWorkersAndRanks) {
  ResumeStreams<SkippingStreams>("streams that skip",
                                 {13, 0, 7, 22, 5, 9, 16, 3}, Topologies());
}

TEST(LoaderResumeTest, MixedAndShuffledStreams) {
  ResumeStreams<Mixed>("mixed", {9, 3, 14}, {{0, 1}, {2, 2}, {5, 3}});
}

// A rank that goes on alone, as after a restart of the same job.
TEST(LoaderResumeTest, ARankOfTheSameJobLoadsItsOwnState) {
  const std::vector<int64_t> sizes = {13, 0, 7, 22, 5};
  Loaders loaders = StreamLoaders<Streams>({1, 2}, sizes);
  for (auto& loader : loaders) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, kEpoch));
    EpochRange range = loader->Epoch(kEpoch);
    for (size_t i = 1; i < whole.size(); ++i) {
      NextOf(range);
      if (i != 2) continue;
      TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
      ASSERT_THAT(loader->Load(state), IsOk());
      EXPECT_THAT(RunEpoch(*loader, kEpoch),
                  IsOkAndHolds(::testing::ElementsAreArray(whole.begin() + 2,
                                                           whole.end())));
      break;
    }
  }
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState of_one, loaders[1]->State());
  EXPECT_THAT(loaders[0]->Load(of_one),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("rank 0: Loader::Load(): "),
                             HasSubstr("is of rank 1 of 2"),
                             HasSubstr("is rank 0 of 2"),
                             HasSubstr("LoaderState::Combine()"))));
}

// Samples that were received are not made again.
TEST(LoaderResumeTest, WhatWasReceivedIsNotLoadedAgain) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Numbers>({.batch_size = 4, .shuffle = true}, 100));
  EpochRange epoch = loader->Epoch(0);
  for (int i = 0; i < 20; ++i) NextOf(epoch);
  const LoaderState state = *loader->State();
  int64_t before = SamplesMade();
  ASSERT_THAT(loader->Load(state), IsOk());
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(5)));
  EXPECT_EQ(SamplesMade() - before, 20);

  TENON_ASSERT_OK_AND_ASSIGN(
      auto streams, Loader::Create<SkippingStreams>(
                        {.batch_size = 4}, std::vector<int64_t>{50, 30, 7}));
  EpochRange range = streams->Epoch(0);
  std::vector<Copy> batches;
  for (Copy batch = NextOf(range); batch.number >= 0; batch = NextOf(range)) {
    batches.push_back(batch);
  }
  EpochRange again = streams->Epoch(0);
  for (int i = 0; i < 20; ++i) NextOf(again);
  ASSERT_THAT(streams->Load(*streams->State()), IsOk());
  before = SamplesMade();
  int64_t left = 0;
  for (size_t i = 20; i < batches.size(); ++i) {
    left += std::ssize(batches[i].values);
  }
  EXPECT_THAT(RunEpoch(*streams, 0), IsOkAndHolds(SizeIs(batches.size() - 20)));
  // At the end of a shard its stream is asked once more.
  EXPECT_EQ(SamplesMade() - before, left);
}

TEST(LoaderResumeTest, TheStateHasTheSameSizeForAnyDataset) {
  std::vector<size_t> sizes;
  for (const int64_t items : {int64_t{10}, int64_t{10'000'000}}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create<Numbers>({.batch_size = 5, .shuffle = true}, items));
    EpochRange epoch = loader->Epoch(0);
    NextOf(epoch);
    TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
    EXPECT_THAT(state.contents().positions, ElementsAre(5));
    sizes.push_back(state.ToString().size());
    if (items == 10) continue;
    // In the middle of such an epoch, too.
    LoaderState::Contents middle = state.contents();
    middle.positions = {5'000'001};
    ASSERT_THAT(loader->Load(LoaderState(middle)), IsOk());
    EpochRange rest = loader->Epoch(0);
    EXPECT_EQ(NextOf(rest).number, 1'000'000);
    sizes.push_back(loader->State()->ToString().size());
  }
  EXPECT_LE(sizes[1], sizes[0] + 2 * 6);  // The digits of two numbers.
  EXPECT_LE(sizes[2], sizes[0] + 3 * 6);
  EXPECT_LT(sizes[2], 250u);
}

TEST(LoaderResumeTest, TheEndOfAnEpochIsTheBeginningOfTheNext) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Numbers>({.batch_size = 4, .shuffle = true}, 10));
  TENON_ASSERT_OK_AND_ASSIGN(LoaderState state, loader->State());
  EXPECT_EQ(state.epoch(), 0);
  EXPECT_THAT(state.contents().positions, ElementsAre(0));

  EpochRange epoch = loader->Epoch(7);
  EXPECT_EQ(loader->State()->epoch(), 7);
  for (int i = 0; i < 3; ++i) NextOf(epoch);
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState all, loader->State());
  EXPECT_EQ(all.epoch(), 7);
  EXPECT_THAT(all.contents().positions, ElementsAre(10));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(epoch.Next(), IsOkAndHolds(Eq(std::nullopt)));
    TENON_ASSERT_OK_AND_ASSIGN(state, loader->State());
    EXPECT_EQ(state.epoch(), 8);
    EXPECT_THAT(state.contents().positions, ElementsAre(0));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const auto next, RunEpoch(*loader, 8));

  // Nothing remains; then the next epoch.
  ASSERT_THAT(loader->Load(all), IsOk());
  EXPECT_THAT(loader->State(), IsOkAndHolds(all));
  EXPECT_THAT(RunEpoch(*loader, 7), IsOkAndHolds(IsEmpty()));
  ASSERT_THAT(loader->Load(state), IsOk());
  EXPECT_THAT(RunEpoch(*loader, 8), IsOkAndHolds(next));
}

TEST(LoaderResumeTest, ALoopSavesAfterEachBatchAndGoesOn) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Numbers>({.batch_size = 4,
                                            .shuffle = true,
                                            .drop_last = true,
                                            .workers = 2,
                                            .worker_kind = WorkerKind::kThread},
                                           30));
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, 0));
  ASSERT_THAT(whole, SizeIs(7));
  // Workers are ahead of the body of the loop; its batch has been received.
  size_t received = 0;
  std::vector<LoaderState> states;
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    EXPECT_EQ(CopyOf(*batch), whole[received++]);
    states.push_back(*loader->State());
  }
  for (size_t i = 0; i < states.size(); ++i) {
    ASSERT_THAT(loader->Load(states[i]), IsOk());
    EXPECT_THAT(
        RunEpoch(*loader, 0),
        IsOkAndHolds(::testing::ElementsAreArray(
            whole.begin() + static_cast<ptrdiff_t>(i) + 1, whole.end())));
  }
  // Without a state that was loaded it begins at its beginning.
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(whole));
  ASSERT_THAT(loader->Load(states[3]), IsOk());
  EXPECT_THAT(RunEpoch(*loader, 1), IsOkAndHolds(SizeIs(7)));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(whole));
}

// What workers have made ahead when a state is loaded is abandoned.
TEST(LoaderResumeTest, AStateMayBeLoadedIntoARunningLoader) {
  for (const int workers : {0, 3}) {
    LoaderOptions options = {.batch_size = 4,
                             .shuffle = true,
                             .workers = workers,
                             .worker_kind = WorkerKind::kThread};
    options.overlap_epochs = workers > 0;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(options, 50));
    TENON_ASSERT_OK_AND_ASSIGN(const auto first, RunEpoch(*loader, 3));
    TENON_ASSERT_OK_AND_ASSIGN(const auto second, RunEpoch(*loader, 4));
    EpochRange epoch = loader->Epoch(3);
    for (int i = 0; i < 5; ++i) NextOf(epoch);
    TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
    for (int i = 0; i < 6; ++i) NextOf(epoch);
    ASSERT_THAT(loader->Load(state), IsOk());
    EXPECT_THAT(epoch.Next(Watchdog()),
                StatusIs(StatusCode::kFailedPrecondition,
                         HasSubstr("a state was loaded by Loader::Load()")));
    EXPECT_THAT(RunEpoch(*loader, 3), IsOkAndHolds(::testing::ElementsAreArray(
                                          first.begin() + 5, first.end())));
    // With overlap_epochs: that which was begun ahead is complete.
    EXPECT_THAT(RunEpoch(*loader, 4), IsOkAndHolds(second));
    // A state of the epoch that was begun ahead.
    EpochRange of_second = loader->Epoch(4);
    for (int i = 0; i < 2; ++i) NextOf(of_second);
    TENON_ASSERT_OK_AND_ASSIGN(const LoaderState ahead, loader->State());
    EXPECT_THAT(RunEpoch(*loader, 3), IsOkAndHolds(first));
    ASSERT_THAT(loader->Load(ahead), IsOk());
    EXPECT_THAT(RunEpoch(*loader, 4), IsOkAndHolds(::testing::ElementsAreArray(
                                          second.begin() + 2, second.end())));
  }
}

TEST(LoaderResumeTest, WithWorkersChosenByTheLoader) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Numbers>({.batch_size = 4,
                                            .workers = kAuto,
                                            .worker_kind = WorkerKind::kThread},
                                           50));
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, 0));
  EpochRange epoch = loader->Epoch(0);
  for (int i = 0; i < 5; ++i) NextOf(epoch);
  ASSERT_THAT(loader->Load(*loader->State()), IsOk());
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(::testing::ElementsAreArray(
                                        whole.begin() + 5, whole.end())));
}

// As a text: the samples of a batch, those that it skipped, its error.
absl::StatusOr<std::vector<std::string>> Outcomes(
    Loader& loader, std::vector<LoaderState>* states = nullptr) {
  std::vector<std::string> outcomes;
  for (absl::StatusOr<Batch>& batch : loader.Epoch(0)) {
    std::string text;
    if (batch.ok()) {
      text = testing::PrintToString(CopyOf(*batch).values);
      for (const SkippedSample& sample : batch->skipped()) {
        absl::StrAppend(&text, " -", sample.position, " ", sample.index);
      }
    } else {
      text = batch.status().ToString();
    }
    outcomes.push_back(text);
    if (states == nullptr) continue;
    TENON_ASSIGN_OR_RETURN(LoaderState state, loader.State());
    states->push_back(std::move(state));
  }
  return outcomes;
}

TEST(LoaderResumeTest, SamplesThatFailCount) {
  for (const bool stream : {false, true}) {
    for (const auto on_error : {OnSampleError::kFail, OnSampleError::kSkip}) {
      const LoaderOptions options = {.batch_size = 4,
                                     .on_sample_error = on_error};
      TENON_ASSERT_OK_AND_ASSIGN(
          auto loader, stream
                           ? Loader::Create("BadStreams", options,
                                            std::vector<int64_t>{20, 0, 30, 6})
                           : Loader::Create("Bad", options));
      std::vector<LoaderState> states;
      TENON_ASSERT_OK_AND_ASSIGN(const auto whole, Outcomes(*loader, &states));
      for (size_t i = 0; i < states.size(); ++i) {
        ASSERT_THAT(loader->Load(states[i]), IsOk());
        EXPECT_THAT(
            Outcomes(*loader),
            IsOkAndHolds(::testing::ElementsAreArray(
                whole.begin() + static_cast<ptrdiff_t>(i) + 1, whole.end())))
            << states[i].ToString();
      }
    }
  }
}

// A run that stops because a worker is killed goes on from what it had.
TEST(LoaderResumeTest, TheStateOutlivesAFailureOfTheLoader) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Dies", {.batch_size = 10, .workers = 2}));
  EpochRange epoch = loader->Epoch(0);
  int64_t received = 0;
  for (;;) {
    const auto batch = epoch.Next(Watchdog());
    if (!batch.ok()) break;
    ASSERT_TRUE(batch->has_value());
    ++received;
  }
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
  EXPECT_THAT(state.contents().positions, ElementsAre(10 * received));
  EXPECT_THAT(loader->Load(state), StatusIs(StatusCode::kAborted));
  // The consumer survives item 42.
  TENON_ASSERT_OK_AND_ASSIGN(auto other,
                             Loader::Create("Dies", {.batch_size = 10}));
  ASSERT_THAT(other->Load(state), IsOk());
  EXPECT_THAT(RunEpoch(*other, 0),
              IsOkAndHolds(SizeIs(static_cast<size_t>(10 - received))));
}

// As a program does that is told to stop.
TEST(LoaderResumeTest, AnEpochThatWasDrainedGoesOn) {
  for (const int workers : {0, 2}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create<Numbers>({.batch_size = 4,
                                 .shuffle = true,
                                 .workers = workers,
                                 .worker_kind = WorkerKind::kThread},
                                100));
    TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, 0));
    EpochRange epoch = loader->Epoch(0);
    std::vector<Copy> batches;
    for (int i = 0; i < 3; ++i) batches.push_back(NextOf(epoch));
    loader->Drain();
    for (Copy batch = NextOf(epoch); batch.number >= 0; batch = NextOf(epoch)) {
      batches.push_back(std::move(batch));
    }
    EXPECT_LT(batches.size(), whole.size());
    TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
    EXPECT_EQ(state.epoch(), 0);
    ASSERT_THAT(loader->Load(state), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto rest, RunEpoch(*loader, 0));
    batches.insert(batches.end(), rest.begin(), rest.end());
    EXPECT_EQ(batches, whole);
  }
}

TEST(LoaderResumeTest, AStateOfAnotherOrderIsAnErrorThatNamesBoth) {
  LoaderOptions options = {.batch_size = 4, .shuffle = true, .seed = 7};
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 50));
  const LoaderState state = *loader->State();
  const auto expect = [&](absl::StatusOr<std::unique_ptr<Loader>> other,
                          const std::string& one, const std::string& two) {
    ASSERT_THAT(other, IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto before, RunEpoch(**other, 0));
    EpochRange epoch = (*other)->Epoch(0);
    NextOf(epoch);
    EXPECT_THAT(
        (*other)->Load(state),
        StatusIs(StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("Loader::Load(): the state is of " + one),
                       HasSubstr("this loader of " + two))));
    // Nothing has changed.
    EXPECT_EQ(NextOf(epoch), before[1]);
  };
  expect(Loader::Create("Bulk", options, int64_t{50}), "dataset Numbers",
         "dataset Bulk");
  expect(Loader::Create<Numbers>(options, 51), "items 50", "items 51");
  options.seed = 8;
  expect(Loader::Create<Numbers>(options, 50), "seed 7", "seed 8");
  options.seed = 7;
  options.shuffle = false;
  expect(Loader::Create<Numbers>(options, 50), "order ", "order ");
  options.sampler =
      *RandomSampler::Create({.dataset_size = 50, .samples = 60, .seed = 7});
  expect(Loader::Create<Numbers>(options, 50), "samples 50", "samples 60");
  options = {.batch_sampler = *FixedBatchSampler::Create(
                 std::make_unique<SequentialSampler>(50), 4),
             .seed = 7};
  expect(Loader::Create<Numbers>(options, 50), "samples 50", "batches 13");
  expect(Loader::Create<Streams>({.seed = 7}, std::vector<int64_t>{5, 5}),
         "dataset Numbers", "dataset Streams");
  // A sampler of the same order is the same.
  options = {.batch_size = 3, .seed = 7};
  options.sampler = *RandomSampler::Create({.dataset_size = 50, .seed = 7});
  TENON_ASSERT_OK_AND_ASSIGN(auto same, Loader::Create<Numbers>(options, 50));
  EXPECT_THAT(same->Load(state), IsOk());
}

TEST(LoaderResumeTest, AStreamOfOtherShardsOrBatchesIsAnError) {
  const std::vector<int64_t> sizes = {9, 9, 9};
  LoaderOptions options = {.batch_size = 4, .seed = 7};
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Streams>(options, sizes));
  const LoaderState state = *loader->State();
  const auto expect = [&](const std::vector<int64_t>& others,
                          const std::string& one, const std::string& two) {
    TENON_ASSERT_OK_AND_ASSIGN(auto other,
                               Loader::Create<Streams>(options, others));
    EXPECT_THAT(other->Load(state),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("the state is of " + one),
                               HasSubstr("this loader of " + two))));
  };
  expect({9, 9}, "shards 3", "shards 2");
  options.batch_size = 5;
  expect(sizes, "batch_size 4", "batch_size 5");
  options.batch_size = 4;
  options.drop_last = true;
  expect(sizes, "drop_last 0", "drop_last 1");
  options.drop_last = false;
  options.on_sample_error = OnSampleError::kSkip;
  expect(sizes, "on_sample_error fail", "on_sample_error skip");
}

TEST(LoaderResumeTest, AStreamDividedAmongWorkersNeedsTheSameNumber) {
  LoaderOptions options = {
      .batch_size = 4, .workers = 2, .worker_kind = WorkerKind::kThread};
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<PerWorker>(options));
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, 0));
  EpochRange epoch = loader->Epoch(0);
  for (int i = 0; i < 3; ++i) NextOf(epoch);
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
  TENON_ASSERT_OK_AND_ASSIGN(auto same, Loader::Create<PerWorker>(options));
  ASSERT_THAT(same->Load(state), IsOk());
  EXPECT_THAT(RunEpoch(*same, 0), IsOkAndHolds(::testing::ElementsAreArray(
                                      whole.begin() + 3, whole.end())));
  options.workers = 3;
  TENON_ASSERT_OK_AND_ASSIGN(auto other, Loader::Create<PerWorker>(options));
  EXPECT_THAT(other->Load(state),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the state is of shards 2"),
                             HasSubstr("this loader of shards 3"))));
}

// The state is the consumer's: it needs no word of the workers.
TEST(LoaderResumeTest, AStateBeforeWorkersHaveDelivered) {
  const std::vector<int64_t> sizes = {9, 8, 7, 6};
  const LoaderOptions options = {
      .batch_size = 2, .workers = 4, .worker_kind = WorkerKind::kThread};
  TENON_ASSERT_OK_AND_ASSIGN(auto map, Loader::Create<Numbers>(options, 30));
  TENON_ASSERT_OK_AND_ASSIGN(auto stream,
                             Loader::Create<Streams>(options, sizes));
  for (Loader* loader : {map.get(), stream.get()}) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, 0));
    EpochRange epoch = loader->Epoch(0);
    EXPECT_EQ(NextOf(epoch), whole[0]);
    TENON_ASSERT_OK_AND_ASSIGN(LoaderState state, loader->State());
    for (size_t i = 1; i < 4; ++i) {
      ASSERT_THAT(loader->Load(state), IsOk());
      EXPECT_THAT(loader->State(), IsOkAndHolds(state));
      EpochRange rest = loader->Epoch(0);
      EXPECT_THAT(loader->State(), IsOkAndHolds(state));
      EXPECT_EQ(NextOf(rest), whole[i]);
      TENON_ASSERT_OK_AND_ASSIGN(state, loader->State());
    }
    ASSERT_THAT(loader->Load(state), IsOk());
    EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(::testing::ElementsAreArray(
                                          whole.begin() + 4, whole.end())));
  }
}

// Contents that no loader of this order has made.
// Empty and tiny datasets, batches larger than these, with and without
// drop_last, resumed after each batch, and again after one more batch of
// another size.
TEST(LoaderResumeTest, TinyEpochs) {
  const auto loader_of = [](int64_t items, int64_t batch_size, bool drop_last,
                            bool weighted) {
    LoaderOptions options = {
        .batch_size = batch_size, .shuffle = !weighted, .drop_last = drop_last};
    if (weighted) {
      options.sampler = *WeightedSampler::Create(
          {.weights = std::vector<double>(static_cast<size_t>(items), 1.5),
           .samples = items + 2});
    }
    return *Loader::Create<Numbers>(options, items);
  };
  int resumed = 0;
  for (size_t i = 0; i < 5 * 3 * 3 * 4; ++i) {
    const int64_t items = std::vector<int64_t>{0, 1, 2, 5, 7}[i % 5];
    const int64_t batch_size = std::vector<int64_t>{1, 3, 8}[i / 5 % 3];
    const int64_t another = std::vector<int64_t>{1, 2, 8}[i / 15 % 3];
    const bool drop_last = i / 45 % 2 == 1;
    const bool weighted = i / 90 == 1;
    if (weighted && items == 0) continue;
    SCOPED_TRACE(absl::StrCat(items, " items, batches of ", batch_size, ", ",
                              another, drop_last ? ", drop_last" : "",
                              weighted ? ", weighted" : ""));
    Loaders of_whole, of_another;
    of_whole.push_back(loader_of(items, 1, false, weighted));
    const Items whole = RunJob(of_whole, SIZE_MAX);
    of_another.push_back(loader_of(items, another, drop_last, weighted));
    Loader& other = *of_another[0];
    const auto loader = loader_of(items, batch_size, drop_last, weighted);
    EpochRange range = loader->Epoch(kEpoch);
    for (size_t received = 0;;) {
      TENON_ASSERT_OK_AND_ASSIGN(LoaderState state, loader->State());
      if (state.epoch() != kEpoch) break;
      for (size_t position = received;;) {
        ASSERT_EQ(state.contents().positions[0],
                  static_cast<int64_t>(position));
        TENON_ASSERT_OK_AND_ASSIGN(state, LoaderState::Parse(state.ToString()));
        ASSERT_THAT(other.Load(state), IsOk());
        size_t left = whole.size() - position;
        if (drop_last) left -= left % static_cast<size_t>(another);
        const auto first = whole.begin() + static_cast<int64_t>(position);
        ASSERT_EQ(RunJob(of_another, SIZE_MAX),
                  Items(first, first + static_cast<int64_t>(left)));
        ++resumed;
        if (position > received || left == 0) break;
        ASSERT_THAT(other.Load(state), IsOk());
        EpochRange one = other.Epoch(kEpoch);
        position += NextOf(one).values.size();
        TENON_ASSERT_OK_AND_ASSIGN(state, other.State());
      }
      TENON_ASSERT_OK_AND_ASSIGN(const auto batch, range.Next(Watchdog()));
      if (batch) received += static_cast<size_t>(batch->size());
    }
  }
  EXPECT_GT(resumed, 500);
}

TEST(LoaderResumeTest, HostileStatesAreErrors) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Numbers>({.batch_size = 4, .shuffle = true}, 50));
  TENON_ASSERT_OK_AND_ASSIGN(
      auto streams,
      Loader::Create<Streams>({.batch_size = 4}, std::vector<int64_t>{9, 9}));
  const auto expect = [](Loader& of, const auto& change,
                         const std::string& why) {
    LoaderState::Contents contents = of.State()->contents();
    change(contents);
    EXPECT_THAT(of.Load(LoaderState(contents)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  for (Loader* of : {loader.get(), streams.get()}) {
    expect(
        *of, [](auto& c) { c.epoch = -1; }, "epoch -1");
    expect(
        *of, [](auto& c) { c.positions.clear(); }, "has 0 positions");
    expect(
        *of, [](auto& c) { c.positions = {-1}; }, "has position -1");
    expect(
        *of, [](auto& c) { c.positions = {INT64_MAX}; }, "has position 9223");
    expect(
        *of, [](auto& c) { c.order.pop_back(); }, "is of no more");
    expect(
        *of, [](auto& c) { c.order.clear(); }, "is of no more");
  }
  expect(
      *loader, [](auto& c) { c.positions = {51}; },
      "has position 51 in an order of 50");
  expect(
      *loader,
      [](auto& c) {
        c.positions = {4, 4};
      },
      "of lanes or ranks");
  expect(
      *loader, [](auto& c) { c.rank = 0; }, "of lanes or ranks");
  expect(
      *loader,
      [](auto& c) {
        c.positions = {8};
        c.missing = {{4, 9}};
      },
      "misses positions 4 to 9");
  expect(
      *loader,
      [](auto& c) {
        c.positions = {8};
        c.missing = {{-4, 4}};
      },
      "misses positions -4 to 4");
  expect(
      *streams,
      [](auto& c) {
        c.missing = {{0, 4}};
      },
      "missing batches");
  // Positions far beyond the end: nothing remains, at once.
  LoaderState::Contents far = streams->State()->contents();
  far.positions = {kMaxStatePosition, kMaxStatePosition - 7,
                   kMaxStatePosition / 3};
  ASSERT_THAT(streams->Load(LoaderState(far)), IsOk());
  EXPECT_THAT(RunEpoch(*streams, 0), IsOkAndHolds(IsEmpty()));
}

// A slice of its own: every second sample.
class EverySecond : public Sampler {
 public:
  int64_t size() const override { return 25; }
  void Fill(int64_t, int64_t first, absl::Span<int64_t> indices) override {
    for (int64_t& index : indices) index = GlobalPosition(first++);
  }
  int64_t GlobalPosition(int64_t position) const override {
    return 2 * position;
  }
};

// An order of the user's, which may throw.
class Backwards : public Sampler {
 public:
  explicit Backwards(bool throws = false) : throws_(throws) {}
  int64_t size() const override { return 50; }
  void Fill(int64_t, int64_t first, absl::Span<int64_t> indices) override {
    if (throws_) throw std::runtime_error("no order");
    for (int64_t& index : indices) index = 49 - first++;
  }

 private:
  bool throws_;
};

TEST(LoaderResumeTest, SamplersOfTheUser) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Numbers>(
          {.batch_size = 4, .sampler = std::make_shared<Backwards>()}, 50));
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, 0));
  EpochRange epoch = loader->Epoch(0);
  for (int i = 0; i < 5; ++i) NextOf(epoch);
  ASSERT_THAT(loader->Load(*loader->State()), IsOk());
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(::testing::ElementsAreArray(
                                        whole.begin() + 5, whole.end())));

  TENON_ASSERT_OK_AND_ASSIGN(
      auto slice, Loader::Create<Numbers>(
                      {.sampler = std::make_shared<EverySecond>()}, 50));
  EXPECT_THAT(slice->State(), StatusIs(StatusCode::kUnimplemented,
                                       AllOf(HasSubstr("Loader::State(): "),
                                             HasSubstr("its position 24 is 48"),
                                             HasSubstr("Sampler::Whole()"))));
  EXPECT_THAT(slice->Load(*loader->State()),
              StatusIs(StatusCode::kUnimplemented));

  TENON_ASSERT_OK_AND_ASSIGN(
      auto throws, Loader::Create<Numbers>(
                       {.sampler = std::make_shared<Backwards>(true)}, 50));
  EXPECT_THAT(throws->State(),
              StatusIs(StatusCode::kInternal, HasSubstr("no order")));

  // Batches of 2 from a slice in batches of 4.
  LoaderOptions halves = {.batch_size = 2};
  halves.sampler = *DistributedSampler::Create(
      std::make_unique<SequentialSampler>(50), {.rank = 0, .world_size = 2},
      {.batch_size = 4});
  TENON_ASSERT_OK_AND_ASSIGN(auto of_halves,
                             Loader::Create<Numbers>(halves, 50));
  EpochRange range = of_halves->Epoch(0);
  NextOf(range);
  EXPECT_THAT(of_halves->State(),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("after 1 batches of 2 samples")));
  NextOf(range);
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, of_halves->State());
  EXPECT_THAT(state.contents().positions, ElementsAre(8));
}

// Item 0, and with it its worker, waits: batches 0 and 2 of 10 are late.
TEST(LoaderResumeTest, BatchesThatAreLateAreInTheState) {
  const Tensor gate = *Tensor::CreateShared(kDtypeOf<int64_t>, {1});
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Gated>({.workers = 2,
                                          .worker_kind = WorkerKind::kThread,
                                          .in_order = false,
                                          .seed = 7},
                                         gate));
  EpochRange epoch = loader->Epoch(0);
  std::set<int64_t> received;
  std::vector<LoaderState> states;
  for (int i = 0; i < 8; ++i) {
    received.insert(NextOf(epoch).number);
    states.push_back(*loader->State());
  }
  EXPECT_THAT(received, ElementsAre(1, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(states[3].ToString(), HasSubstr("position=6 missing=0-1,2-3 "));
  EXPECT_THAT(states[7].ToString(), HasSubstr("position=10 missing=0-1,2-3 "));
  std::atomic_ref(gate.data<int64_t>()->front()).store(1);
  for (int i = 0; i < 2; ++i) received.insert(NextOf(epoch).number);
  EXPECT_THAT(received, SizeIs(10));
  EXPECT_THAT(loader->State()->ToString(),
              HasSubstr("position=10 missing=none"));
  TENON_ASSERT_OK_AND_ASSIGN(auto whole, RunEpoch(*loader, 0));
  std::map<int64_t, Items> by_value;
  for (const Copy& batch : whole) by_value[batch.values[0]] = ItemsOf(batch);

  // In order, as ready, and in other batches: what remains, once.
  for (const int64_t batch_size : {1, 3}) {
    for (const bool in_order : {true, false}) {
      TENON_ASSERT_OK_AND_ASSIGN(
          auto other, Loader::Create<Gated>({.batch_size = batch_size,
                                             .workers = 1,
                                             .worker_kind = WorkerKind::kThread,
                                             .in_order = in_order,
                                             .seed = 7},
                                            gate));
      ASSERT_THAT(other->Load(states[3]), IsOk());
      TENON_ASSERT_OK_AND_ASSIGN(const auto rest, RunEpoch(*other, 0));
      Items items;
      for (const Copy& batch : rest) Append(items, ItemsOf(batch));
      Items expected;
      for (const int64_t value : {0, 2, 6, 7, 8, 9}) {
        Append(expected, by_value[value]);
      }
      EXPECT_EQ(items, expected);
      // And from there again, after one batch.
      ASSERT_THAT(other->Load(states[3]), IsOk());
      EpochRange range = other->Epoch(0);
      NextOf(range);
      TENON_ASSERT_OK_AND_ASSIGN(const LoaderState again, other->State());
      EXPECT_THAT(again.ToString(), HasSubstr("position=6 missing=2-3 "));
    }
  }

  // Several ranks cannot divide it.
  LoaderOptions options = {.seed = 7};
  options.sampler = *DistributedSampler::Create(
      std::make_unique<SequentialSampler>(10), {.rank = 0, .world_size = 2});
  TENON_ASSERT_OK_AND_ASSIGN(auto ranks, Loader::Create<Gated>(options, gate));
  EXPECT_THAT(ranks->Load(states[3]),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("several ranks cannot load it")));
}

TEST(LoaderResumeTest, BatchesOfABatchSamplerThatAreLate) {
  const Tensor gate = *Tensor::CreateShared(kDtypeOf<int64_t>, {1});
  LoaderOptions options = {
      .workers = 2, .worker_kind = WorkerKind::kThread, .in_order = false};
  const auto set = [&] {
    options.batch_sampler =
        *FixedBatchSampler::Create(std::make_unique<SequentialSampler>(10), 1);
  };
  set();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Gated>(options, gate));
  EpochRange epoch = loader->Epoch(0);
  for (int i = 0; i < 4; ++i) NextOf(epoch);
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
  EXPECT_THAT(state.ToString(), HasSubstr("position=6 missing=0-1,2-3 "));
  std::atomic_ref(gate.data<int64_t>()->front()).store(1);
  options.workers = 0;
  set();
  TENON_ASSERT_OK_AND_ASSIGN(auto other, Loader::Create<Gated>(options, gate));
  ASSERT_THAT(other->Load(state), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto rest, RunEpoch(*other, 0));
  std::vector<int64_t> values;
  for (const Copy& batch : rest) values.push_back(batch.values[0]);
  EXPECT_THAT(values, ElementsAre(0, 2, 6, 7, 8, 9));
}

TEST(LoaderResumeTest, StreamsAsReady) {
  const std::vector<int64_t> sizes = {13, 0, 7, 22, 5, 9, 16};
  Loaders alone = StreamLoaders<Streams>({0, 1}, sizes);
  const Batches whole = BatchesOf(alone);
  LoaderOptions options = OptionsOf({3, 1}, 0);
  options.batch_size = kBatch;
  options.in_order = false;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Streams>(options, sizes));
  EpochRange range = loader->Epoch(kEpoch);
  Batches remaining = whole;
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
    EXPECT_LE(state.contents().positions.size(), 3u);
    ASSERT_THAT(alone[0]->Load(state), IsOk());
    EXPECT_EQ(BatchesOf(alone), remaining) << state.ToString();
    const int64_t number = NextOf(range).number;
    if (number < 0) break;
    EXPECT_EQ(remaining.erase(number), 1u);
  }
  EXPECT_THAT(remaining, IsEmpty());

  options.workers = kAuto;
  TENON_ASSERT_OK_AND_ASSIGN(auto tuned,
                             Loader::Create<Streams>(options, sizes));
  EpochRange of_tuned = tuned->Epoch(0);
  EXPECT_THAT(tuned->State(), IsOk());
  NextOf(of_tuned);
  EXPECT_THAT(tuned->State(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("kAuto")));
}

}  // namespace
}  // namespace tenon::loader
