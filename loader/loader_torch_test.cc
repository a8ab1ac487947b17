// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What torch's DataLoader promises and no other test here shows
// (docs/parity.md).

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/spin_budget.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Item i: calls = how many items this instance has made before; cpus = on how
// many this process or thread may run, and the first of them.
class Instance : public Dataset {
 public:
  int64_t size() const override { return 6; }
  SampleSpec spec() const override {
    return SampleSpec().Add<int64_t>("calls").Add<int64_t>("cpus").Add<int64_t>(
        "first_cpu");
  }
  absl::Status Get(int64_t, SampleRandom&, Sample& sample) override {
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
      return absl::InternalError("sched_getaffinity");
    }
    int64_t first = 0;
    while (!CPU_ISSET(static_cast<size_t>(first), &cpus)) ++first;
    TENON_RETURN_IF_ERROR(
        sample.Set("cpus", static_cast<int64_t>(CPU_COUNT(&cpus))));
    TENON_RETURN_IF_ERROR(sample.Set("first_cpu", first));
    return sample.Set("calls", calls_++);
  }

 private:
  int64_t calls_ = 0;
};
TENON_LOADER_DATASET(Instance());

int64_t LastCpu() {
  cpu_set_t cpus;
  EXPECT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
  int64_t last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &cpus)) last = cpu;
  }
  return last;
}
// Lets the worker run on the last of its CPUs alone.
absl::Status UseTheLastCpu(const WorkerInfo&) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<size_t>(LastCpu()), &cpus);
  if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0) return absl::OkStatus();
  return absl::InternalError("sched_setaffinity");
}
TENON_LOADER_WORKER_INIT(UseTheLastCpu);

// 0, 1, 2, ... without an end.
class Endless : public IterableDataset {
 public:
  SampleSpec spec() const override { return SampleSpec().Add<int64_t>("n"); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t,
                                                     int64_t) override {
    class Stream : public SampleStream {
     public:
      absl::StatusOr<bool> Next(SampleRandom&, Sample& sample) override {
        TENON_RETURN_IF_ERROR(sample.Set("n", next_));
        ++next_;
        return true;
      }

     private:
      int64_t next_ = 0;
    };
    return std::make_unique<Stream>();
  }
};
TENON_LOADER_DATASET(Endless());

// 4 shards; sample n of shard s is 1000 s + n, and takes a millisecond.
constexpr int64_t kSleepySamples = 20;
class SleepyShards : public IterableDataset {
 public:
  int64_t shards() const override { return 4; }
  SampleSpec spec() const override { return SampleSpec().Add<int64_t>("n"); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t) override {
    class Stream : public SampleStream {
     public:
      explicit Stream(int64_t shard) : shard_(shard) {}
      absl::StatusOr<bool> Next(SampleRandom&, Sample& sample) override {
        if (next_ == kSleepySamples) return false;
        absl::SleepFor(absl::Milliseconds(1));
        TENON_RETURN_IF_ERROR(sample.Set("n", 1000 * shard_ + next_));
        ++next_;
        return true;
      }

     private:
      int64_t shard_;
      int64_t next_ = 0;
    };
    return std::make_unique<Stream>(shard);
  }
};
TENON_LOADER_DATASET(SleepyShards());

// One item more each time that it is asked.
class GrowsWhenAsked : public Dataset {
 public:
  int64_t size() const override { return size_++; }
  SampleSpec spec() const override { return SampleSpec().Add<int64_t>("n"); }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    return sample.Set("n", index);
  }

 private:
  mutable int64_t size_ = 4;
};
TENON_LOADER_DATASET(GrowsWhenAsked());

class LoaderTorchTest : public LoaderTest {};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderTorchTest,
    ::testing::Combine(::testing::Values(0, 2),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);
INSTANTIATE_TEST_SUITE_P(
    Threads, LoaderTorchTest,
    ::testing::Combine(::testing::Values(2),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kThread)),
    LoaderCaseName);

TEST_P(LoaderTorchTest, EpochsUseTheSameDatasets) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Instance>(Options()));
  const int64_t instances = workers() == 0 ? 1 : workers();
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    for (const absl::StatusOr<Batch>& batch : loader->Epoch(epoch)) {
      ASSERT_THAT(batch, IsOk());
      EXPECT_THAT(batch->data<int64_t>("calls"),
                  IsOkAndHolds(ElementsAre(epoch * (6 / instances) +
                                           batch->number() / instances)));
    }
  }
}

TEST_P(LoaderTorchTest, AnAffinityThatInitSetsIsThatOfTheWorker) {
  if (workers() == 0) GTEST_SKIP() << "worker_init without workers";
  LoaderOptions options = Options();
  options.worker_init = UseTheLastCpu;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Instance>(options));
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    EXPECT_THAT(batch->data<int64_t>("cpus"), IsOkAndHolds(ElementsAre(1)));
    EXPECT_THAT(batch->data<int64_t>("first_cpu"),
                IsOkAndHolds(ElementsAre(LastCpu())));
  }
}

TEST_P(LoaderTorchTest, AnEndlessStreamIsReadAsFarAsWanted) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Endless>(Options(13)));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    EpochRange range = loader->Epoch(epoch);
    for (int64_t n = 0; n < 3; ++n) {
      TENON_ASSERT_OK_AND_ASSIGN(std::optional<Batch> batch,
                                 range.Next(Watchdog()));
      ASSERT_TRUE(batch.has_value());
      TENON_ASSERT_OK_AND_ASSIGN(const auto values, batch->data<int64_t>("n"));
      ASSERT_THAT(values, SizeIs(13));
      EXPECT_EQ(values.front(), 13 * n);
      EXPECT_EQ(values.back(), 13 * n + 12);
    }
  }
}

// Two batches of a shard: 17 and 3.
TEST_P(LoaderTorchTest, TheLastBatchHasTheRest) {
  for (const auto& [batch_size, sizes] :
       {std::pair(17, std::vector<int64_t>{17, 3}),
        std::pair(30, std::vector<int64_t>{20}),
        std::pair(20, std::vector<int64_t>{20})}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader, Loader::Create<Numbers>(Options(batch_size), 20));
    std::vector<int64_t> seen;
    for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
      ASSERT_THAT(batch, IsOk());
      seen.push_back(batch->size());
    }
    EXPECT_EQ(seen, sizes);
  }
}

TEST_P(LoaderTorchTest, ADatasetThatGrowsHasTheSizeOfTheStart) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<GrowsWhenAsked>(Options()));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(loader->batches(), 4);
    int64_t next = 0;
    for (const absl::StatusOr<Batch>& batch : loader->Epoch(epoch)) {
      ASSERT_THAT(batch, IsOk());
      EXPECT_THAT(batch->data<int64_t>("n"), IsOkAndHolds(ElementsAre(next)));
      ++next;
    }
    EXPECT_EQ(next, 4);
  }
}

// Options, and what they have, cannot be assigned later.
static_assert(std::is_same_v<decltype(std::declval<Loader&>().options()),
                             const LoaderOptions&>);

// 10 samples: 10, 10, 5, 5, 4, 3; 100: 34 batches of 3.
TEST_P(LoaderTorchTest, NumbersOfBatches) {
  const auto batches = [&](int64_t size, int64_t batch_size, bool drop_last) {
    LoaderOptions options = Options(batch_size);
    options.drop_last = drop_last;
    const auto loader = Loader::Create<Numbers>(options, size);
    EXPECT_THAT(loader, IsOk());
    int64_t count = 0;
    for (const absl::StatusOr<Batch>& batch : (*loader)->Epoch(0)) {
      EXPECT_THAT(batch, IsOk());
      ++count;
    }
    EXPECT_EQ((*loader)->batches(), count);
    return count;
  };
  EXPECT_EQ(batches(10, 1, false), 10);
  EXPECT_EQ(batches(10, 1, true), 10);
  EXPECT_EQ(batches(10, 2, false), 5);
  EXPECT_EQ(batches(10, 2, true), 5);
  EXPECT_EQ(batches(10, 3, false), 4);
  EXPECT_EQ(batches(10, 3, true), 3);
  EXPECT_EQ(batches(100, 3, false), 34);
}

// Batches are the same while the number of workers changes, and it changes if
// there is more than one core.
class LoaderTuningTest : public LoaderTest {};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderTuningTest,
    ::testing::Combine(::testing::Values(kAuto),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess,
                                         WorkerKind::kThread)),
    [](const auto& test) {
      return std::get<2>(test.param) == WorkerKind::kThread ? "threads"
                                                            : "processes";
    });

TEST_P(LoaderTuningTest, BatchesDoNotDependOnTheChanges) {
  for (const bool in_order : {true, false}) {
    LoaderOptions options = Options(4);
    options.shuffle = true;
    options.in_order = in_order;
    TENON_ASSERT_OK_AND_ASSIGN(auto tuned,
                               Loader::Create("Sleeps", options, int64_t{1}));
    EXPECT_EQ(
        std::ssize(tuned->worker_pids()),
        std::get<2>(GetParam()) == WorkerKind::kThread ? 0 : UsableCores());
    options.workers = 0;
    options.in_order = true;
    TENON_ASSERT_OK_AND_ASSIGN(auto local,
                               Loader::Create("Sleeps", options, int64_t{0}));
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*tuned, epoch));
      TENON_ASSERT_OK_AND_ASSIGN(const auto want, RunEpoch(*local, epoch));
      std::sort(
          batches.begin(), batches.end(),
          [](const Copy& a, const Copy& b) { return a.number < b.number; });
      EXPECT_EQ(batches, want);
    }
    // It waits for all of its time, as samples sleep: 2 are tried, and kept
    // unless this machine is too busy for them.
    if (UsableCores() > 1) {
      EXPECT_THAT(tuned->tuning(), Not(HasSubstr("to begin with")));
    }
    EXPECT_THAT(tuned->tuning(),
                StartsWith(absl::StrCat(tuned->workers(), " of at most ")));
    EXPECT_EQ(local->tuning(), "");
  }
}

TEST_P(LoaderTuningTest, AShardStaysWithItsWorker) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<SleepyShards>(Options()));
  EXPECT_EQ(loader->workers(), 1);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    EpochRange range = loader->Epoch(epoch);
    const int workers = loader->workers();
    // It waits for all of its time, as samples sleep.
    if (epoch == 1) {
      EXPECT_EQ(workers, std::min(2, UsableCores()));
    }
    for (int64_t k = 0; k < 4 * kSleepySamples; ++k) {
      TENON_ASSERT_OK_AND_ASSIGN(std::optional<Batch> batch,
                                 range.Next(Watchdog()));
      ASSERT_TRUE(batch.has_value());
      const int64_t shard = k % 4;
      EXPECT_EQ(batch->worker(), shard % workers);
      EXPECT_THAT(batch->data<int64_t>("n"),
                  IsOkAndHolds(ElementsAre(1000 * shard + k / 4)));
      EXPECT_EQ(loader->workers(), workers);
    }
    EXPECT_THAT(range.Next(Watchdog()),
                IsOkAndHolds(::testing::Eq(std::nullopt)));
  }
}

TEST_P(LoaderTuningTest, NoMoreWorkersThanShards) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Endless>(Options()));
  EXPECT_THAT(loader->tuning(), StartsWith("1 of at most 1"));
}

TEST_P(LoaderTuningTest, TheQuotaBoundsTheWorkers) {
  LoaderOptions options = Options(4);
  options.memory_quota = 1;  // Refused: not even one batch.
  EXPECT_THAT(Loader::Create<Numbers>(options, 100),
              StatusIs(absl::StatusCode::kInvalidArgument));
  options.memory_quota = 4 * (8 + 64) + 64;  // One batch.
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(options, 100));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(25)));
  EXPECT_EQ(loader->workers(), 1);
  EXPECT_THAT(loader->tuning(), StartsWith("1 of at most 1"));
}

}  // namespace
}  // namespace tenon::loader
