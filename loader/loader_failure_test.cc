// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Samples that fail, and epochs that end early.

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// With every number of workers.
class LoaderFailureTest : public LoaderTest {
 protected:
  LoaderOptions Options(int64_t batch_size, OnSampleError on_error) const {
    LoaderOptions options = LoaderTest::Options(batch_size);
    options.shuffle = true;
    options.on_sample_error = on_error;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderFailureTest,
    ::testing::Combine(::testing::Values(1, 3),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);

// A batch, and which of its samples failed.
struct Outcome {
  Copy copy;
  std::vector<std::vector<int64_t>> failed;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// The batches before the first error, and that error.
struct Epoch {
  std::vector<Outcome> batches;
  std::string error;
};

Epoch RunToError(Loader& loader) {
  Epoch epoch;
  EpochRange range = loader.Epoch(0);
  for (;;) {
    absl::StatusOr<std::optional<Batch>> batch = range.Next(Watchdog());
    if (!batch.ok()) {
      // Without the stack of a throw.
      const std::string error = batch.status().ToString();
      epoch.error = error.substr(0, error.find('\n'));
    }
    if (!batch.ok() || !batch->has_value()) return epoch;
    Outcome outcome = {CopyOf(**batch), {}};
    for (const SkippedSample& sample : (*batch)->skipped()) {
      outcome.failed.push_back(
          {sample.position, sample.index, sample.replaced_by});
    }
    epoch.batches.push_back(std::move(outcome));
  }
}

Epoch WithoutWorkers(LoaderOptions options) {
  options.workers = 0;
  auto loader = Loader::Create("Bad", options);
  EXPECT_THAT(loader, IsOk());
  return loader.ok() ? RunToError(**loader) : Epoch();
}

// Of "Bad", items that end in 3 or 7 fail.
TEST_P(LoaderFailureTest, ReplacedSamplesAreTheSameForAnyNumberOfWorkers) {
  const LoaderOptions options = Options(8, OnSampleError::kReplace);
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
  const Epoch epoch = RunToError(*loader);
  EXPECT_EQ(epoch.error, "");
  ASSERT_THAT(epoch.batches, SizeIs(13));
  int failed = 0;
  for (size_t b = 0; b < epoch.batches.size(); ++b) {
    EXPECT_THAT(epoch.batches[b].copy.values, SizeIs(b < 12 ? 8 : 4));
    for (const auto& sample : epoch.batches[b].failed) {
      ++failed;
      EXPECT_EQ(sample[2], sample[1] + 1);
      const auto place = static_cast<size_t>(sample[0]) - b * 8;
      EXPECT_EQ(epoch.batches[b].copy.values[place], sample[2]);
    }
  }
  EXPECT_EQ(failed, 20);
  EXPECT_EQ(epoch.batches, WithoutWorkers(options).batches);
}

TEST_P(LoaderFailureTest, TheBudgetIsExceededAtTheSameBatch) {
  for (const OnSampleError on_error :
       {OnSampleError::kSkip, OnSampleError::kReplace}) {
    LoaderOptions options = Options(8, on_error);
    options.failure_budget = 5;
    const Epoch alone = WithoutWorkers(options);
    EXPECT_THAT(alone.batches.size(),
                AllOf(::testing::Ge(1), ::testing::Le(9)));
    TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
    const Pids pids(*loader);
    const Epoch epoch = RunToError(*loader);
    EXPECT_EQ(epoch.batches, alone.batches);
    EXPECT_EQ(epoch.error, alone.error);
    EXPECT_THAT(epoch.error,
                AllOf(HasSubstr("RESOURCE_EXHAUSTED"),
                      HasSubstr("failure_budget of 5 samples exceeded"),
                      HasSubstr(" failed in epoch 0 up to batch "),
                      HasSubstr("the last one is sample ")));
    // It is final.
    EXPECT_TRUE(pids.AllEnded());
    EXPECT_EQ(RunToError(*loader).error, epoch.error);
  }
}

TEST_P(LoaderFailureTest, TheBudgetIsOfEachEpoch) {
  LoaderOptions options = Options(8, OnSampleError::kSkip);
  options.failure_budget = 20;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(RunToError(*loader).error, "");
}

TEST_P(LoaderFailureTest, AStreamHasNothingToPutInAPlace) {
  LoaderOptions options = LoaderTest::Options(4);
  options.on_sample_error = OnSampleError::kReplace;
  EXPECT_THAT(Loader::Create<Streams>(options, std::vector<int64_t>{5}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("use kSkip")));
}

TEST_P(LoaderFailureTest, TheBudgetOfAStreamNamesShardAndSample) {
  for (const int workers : {0, this->workers()}) {
    LoaderOptions options = LoaderTest::Options(4);
    options.workers = workers;
    options.on_sample_error = OnSampleError::kSkip;
    options.failure_budget = 1;
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create("BadStreams", options, std::vector<int64_t>{20}));
    EXPECT_THAT(RunToError(*loader).error,
                HasSubstr("shard 0, sample 7: SampleStream::Next() threw"));
  }
}

TEST_P(LoaderFailureTest, AnExceptionHasTheStackOfItsThrow) {
  for (const int workers : {0, this->workers()}) {
    LoaderOptions options = LoaderTest::Options(10);
    options.workers = workers;
    options.on_sample_error = OnSampleError::kSkip;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
    EpochRange epoch = loader->Epoch(0);
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
    ASSERT_THAT(batch->skipped(), SizeIs(2));
    EXPECT_THAT(batch->skipped()[1].status,
                StatusIs(StatusCode::kInternal,
                         AllOf(HasSubstr("threw: item is on fire\n#0 0x"),
                               HasSubstr("\n#1 0x"))));
  }
}

// The numbers of the batches until the end.
std::vector<int64_t> Rest(EpochRange& epoch) {
  std::vector<int64_t> numbers;
  for (;;) {
    const absl::StatusOr<std::optional<Batch>> batch = epoch.Next(Watchdog());
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok() || !batch->has_value()) return numbers;
    numbers.push_back((*batch)->number());
  }
}

std::vector<int64_t> CountTo(int64_t end, int64_t first = 0) {
  std::vector<int64_t> numbers;
  for (int64_t i = first; i < end; ++i) numbers.push_back(i);
  return numbers;
}

TEST_P(LoaderFailureTest, DrainGivesWhatIsBegunAndNoMore) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Numbers>(LoaderTest::Options(), 100));
  EpochRange epoch = loader->Epoch(0);
  for (int64_t i = 0; i < 10; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
    EXPECT_EQ(batch->number(), i);
  }
  loader->Drain();
  // 2 of each worker have been assigned.
  EXPECT_EQ(Rest(epoch), CountTo(10 + 2 * workers(), 10));
  EXPECT_THAT(Rest(epoch), IsEmpty());
  EpochRange next = loader->Epoch(1);
  EXPECT_EQ(Rest(next), CountTo(100));
}

TEST_P(LoaderFailureTest, DrainAsBatchesAreReadyLosesNone) {
  LoaderOptions options = LoaderTest::Options();
  options.in_order = false;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(options, 100));
  EpochRange epoch = loader->Epoch(0);
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < 10; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
    numbers.push_back(batch->number());
  }
  loader->Drain();
  for (const int64_t number : Rest(epoch)) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, CountTo(10 + 2 * workers()));
}

TEST_P(LoaderFailureTest, DrainOfAStream) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Streams>(LoaderTest::Options(),
                                           std::vector<int64_t>{50, 50}));
  EpochRange epoch = loader->Epoch(0);
  ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  loader->Drain();
  EXPECT_THAT(Rest(epoch).size(), ::testing::Lt(10u));
  EpochRange next = loader->Epoch(1);
  EXPECT_THAT(Rest(next), SizeIs(100));
}

TEST_P(LoaderFailureTest, DrainKeepsTheBatchesOfTheNextEpoch) {
  LoaderOptions options = LoaderTest::Options();
  options.overlap_epochs = true;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  EpochRange epoch = loader->Epoch(0);
  for (int i = 0; i < 10; ++i) ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  loader->Drain();
  EXPECT_THAT(Rest(epoch), IsEmpty());
  EpochRange next = loader->Epoch(1);
  EXPECT_EQ(Rest(next), CountTo(10));
}

TEST_P(LoaderFailureTest, DrainBetweenEpochsIsOfTheNextOne) {
  for (const int workers : {0, this->workers()}) {
    LoaderOptions options = LoaderTest::Options();
    options.workers = workers;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(options, 10));
    loader->Drain();
    EpochRange none = loader->Epoch(0);
    EXPECT_THAT(Rest(none), IsEmpty());
    EpochRange all = loader->Epoch(0);
    EXPECT_EQ(Rest(all), CountTo(10));
  }
}

Loader* drained = nullptr;

TEST_P(LoaderFailureTest, ASignalHandlerMayDrain) {
  for (const int workers : {0, this->workers()}) {
    LoaderOptions options = LoaderTest::Options();
    options.workers = workers;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(options, 100));
    drained = loader.get();
    struct sigaction action = {};
    action.sa_handler = [](int) { drained->Drain(); };
    struct sigaction before;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    EpochRange epoch = loader->Epoch(0);
    ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
    raise(SIGUSR1);
    EXPECT_EQ(Rest(epoch), CountTo(1 + 2 * workers, 1));
    ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  }
}

}  // namespace
}  // namespace tenon::loader
