// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderOptions::threads_per_worker: several threads make the samples of one
// batch, in the consumer, in worker threads and in worker processes.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/spin_budget.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Items that take different times: they are not ready in their order.
class Shared : public Numbers {
 public:
  using Numbers::Numbers;
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    absl::SleepFor(absl::Microseconds(index % 4 * 100));
    return Numbers::Get(index, random, sample);
  }
};
TENON_LOADER_DATASET(Shared(int64_t));

// The same, of an instance that one thread may use at a time.
class NotShared : public Numbers {
 public:
  using Numbers::Numbers;
  bool thread_safe() const override { return false; }
};
TENON_LOADER_DATASET(NotShared(int64_t));

class NotSharedInWorkers : public Numbers {
 public:
  using Numbers::Numbers;
  bool thread_safe() const override { return !GetWorkerInfo().has_value(); }
};
TENON_LOADER_DATASET(NotSharedInWorkers(int64_t));

// A sample is made once `threads` of them have begun, in one instance.
class Together : public Numbers {
 public:
  explicit Together(int threads) : Numbers(100), threads_(threads) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    const Deadline watchdog = Watchdog();
    ++begun_;
    while (begun_ < threads_) {
      if (watchdog.has_passed()) return absl::DeadlineExceededError("alone");
      absl::SleepFor(absl::Microseconds(100));
    }
    return Numbers::Get(index, random, sample);
  }

 private:
  const int threads_;
  std::atomic<int> begun_ = 0;
};
TENON_LOADER_DATASET(Together(int));

// Texts and lists of all lengths, and a sum by Collate().
class OfAnyShape : public Dataset {
 public:
  int64_t size() const override { return 50; }
  SampleSpec spec() const override {
    return SampleSpec()
        .Add<int64_t>("i")
        .AddText("text")
        .AddPadded<int64_t>("ids", -1)
        .AddInput<double>("random")
        .AddOutput<double>("sum");
  }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    absl::SleepFor(absl::Microseconds(index % 3 * 100));
    TENON_RETURN_IF_ERROR(sample.Set("i", index));
    TENON_RETURN_IF_ERROR(sample.SetText(
        "text", std::string(static_cast<size_t>(index % 7), 'x')));
    TENON_ASSIGN_OR_RETURN(const auto ids,
                           sample.Allocate<int64_t>("ids", {index % 5}));
    for (int64_t& id : ids) id = index;
    TENON_ASSIGN_OR_RETURN(const auto numbers,
                           sample.Allocate<double>("random", {1}));
    numbers[0] = random.Uniform();
    if (index % 10 == 4) return absl::DataLossError("rotten");
    return absl::OkStatus();
  }
  absl::Status Collate(Collation& batch) override {
    double sum = 0;
    TENON_ASSIGN_OR_RETURN(const auto samples, batch.samples("random"));
    for (const Tensor& numbers : samples) {
      sum = sum / 2 + numbers.data<double>()->front();
    }
    TENON_ASSIGN_OR_RETURN(const Tensor to, batch.Create("sum", {1}));
    return to.Fill(sum);
  }
  bool thread_safe() const override { return true; }
};
TENON_LOADER_DATASET(OfAnyShape());

std::atomic<int> inits = 0;
absl::Status CountInits(const WorkerInfo&) {
  ++inits;
  return absl::OkStatus();
}
TENON_LOADER_WORKER_INIT(CountInits);

// The worker that the thread of each sample is of, -1 for none, and how often
// its worker_init was called.
class WhoAmI : public Numbers {
 public:
  WhoAmI() : Numbers(40), inits_(inits) {}
  SampleSpec spec() const override {
    return SampleSpec().Add<int64_t>("worker").Add<int64_t>("inits");
  }
  absl::Status Get(int64_t, SampleRandom&, Sample& sample) override {
    absl::SleepFor(absl::Microseconds(200));
    const std::optional<WorkerInfo> info = GetWorkerInfo();
    TENON_RETURN_IF_ERROR(
        sample.Set("worker", int64_t{info ? info->index : -1}));
    return sample.Set("inits", int64_t{inits_});
  }

 private:
  int inits_;
};
TENON_LOADER_DATASET(WhoAmI());

class LoaderThreadsTest : public LoaderTest {
 protected:
  LoaderOptions OptionsOf(int threads, int64_t batch_size = 8) const {
    LoaderOptions options = Options(batch_size);
    options.threads_per_worker = threads;
    return options;
  }
  // As one thread without workers does it.
  LoaderOptions Plain(int64_t batch_size = 8) const {
    return {.batch_size = batch_size, .seed = 7};
  }
  bool is_process() const {
    return workers() > 0 && std::get<2>(GetParam()) == WorkerKind::kProcess;
  }
};
INSTANTIATE_TEST_SUITE_P(
    Consumer, LoaderThreadsTest,
    ::testing::Combine(::testing::Values(0),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderThreadsTest,
    ::testing::Combine(::testing::Values(1, 2),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess,
                                         WorkerKind::kThread)),
    LoaderCaseName);

TEST_P(LoaderThreadsTest, BatchesDoNotDependOnTheThreads) {
  LoaderOptions options = Plain();
  options.shuffle = true;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Shared>(options, 75));
  std::vector<std::vector<Copy>> expected;
  for (const int64_t epoch : {0, 3}) {
    TENON_ASSERT_OK_AND_ASSIGN(expected.emplace_back(),
                               RunEpoch(*loader, epoch));
  }
  for (const int threads : {1, 2, 3}) {
    options = OptionsOf(threads);
    options.shuffle = true;
    TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create<Shared>(options, 75));
    EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(expected[0])) << threads;
    EXPECT_THAT(RunEpoch(*loader, 3), IsOkAndHolds(expected[1])) << threads;
  }
}

TEST_P(LoaderThreadsTest, GetBatchIsCalledForAPartInEachThread) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(Plain(), 50));
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, RunEpoch(*loader, 1));
  for (const int threads : {1, 2, 3}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        loader, Loader::Create("Bulk", OptionsOf(threads), int64_t{50}));
    EXPECT_THAT(RunEpoch(*loader, 1), IsOkAndHolds(expected)) << threads;
  }
}

TEST_P(LoaderThreadsTest, SamplesOfABatchAreMadeAtTheSameTime) {
  for (const int threads : {2, 3}) {
    // Of the first batch each worker makes a part.
    const int64_t batch_size = threads * std::max(workers(), 1);
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create<Together>(OptionsOf(threads, batch_size), threads));
    EXPECT_THAT(loader->Epoch(0).Next(Watchdog()), IsOk());
  }
}

// Each batch in words.
std::vector<std::string> InWords(Loader& loader) {
  std::vector<std::string> all;
  for (const absl::StatusOr<Batch>& batch : loader.Epoch(0)) {
    if (!batch.ok()) {
      const std::string message(batch.status().message());
      all.push_back(message.substr(message.find("sample")));
      continue;
    }
    std::string& words = all.emplace_back();
    for (const char* name : {"i", "text.offsets", "ids", "ids.lengths"}) {
      const auto values = *batch->data<int64_t>(name);
      for (const int64_t value : values) {
        absl::StrAppend(&words, value, " ");
      }
    }
    absl::StrAppend(&words, batch->data<double>("sum")->front());
    for (const SkippedSample& skipped : batch->skipped()) {
      absl::StrAppend(&words, " ", skipped.position, " ",
                      skipped.status.ToString());
    }
  }
  return all;
}

TEST_P(LoaderThreadsTest, FieldsOfAnyShapeAndErrorsAreThoseOfOneThread) {
  for (const OnSampleError on_error :
       {OnSampleError::kFail, OnSampleError::kSkip}) {
    LoaderOptions options = Plain(6);
    options.on_sample_error = on_error;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<OfAnyShape>(options));
    const std::vector<std::string> expected = InWords(*loader);
    ASSERT_THAT(expected, SizeIs(9));
    EXPECT_THAT(expected[0], HasSubstr("rotten"));
    for (const int threads : {2, 3}) {
      options = OptionsOf(threads, 6);
      options.on_sample_error = on_error;
      TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create<OfAnyShape>(options));
      EXPECT_EQ(InWords(*loader), expected) << threads;
    }
  }
}

TEST_P(LoaderThreadsTest, AnExceptionIsTheErrorOfItsBatch) {
  LoaderOptions options = OptionsOf(3, 4);
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(epoch.Next(Watchdog()),
              StatusIs(StatusCode::kDataLoss,
                       HasSubstr("sample 3 (item 3): item 3 is rotten")));
  EXPECT_THAT(
      epoch.Next(Watchdog()),
      StatusIs(StatusCode::kInternal,
               HasSubstr("sample 7 (item 7): Dataset::Get() threw: item is")));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
  ASSERT_TRUE(batch);
  EXPECT_THAT(batch->data<int64_t>("value"),
              IsOkAndHolds(ElementsAre(8, 9, 10, 11)));
}

TEST_P(LoaderThreadsTest, AnEpochAbandonedInMidBatch) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Sleeps", OptionsOf(3, 30), int64_t{5}));
  LoaderOptions plain = Plain(30);
  TENON_ASSERT_OK_AND_ASSIGN(auto other, Loader::Create<Numbers>(plain, 1000));
  EpochRange want = other->Epoch(1);
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, want.Next(Watchdog()));
  for (int i = 0; i < 3; ++i) {
    EpochRange epoch = loader->Epoch(0);
    EXPECT_THAT(epoch.Next(Deadline::After(absl::Milliseconds(15))).status(),
                AnyOf(IsOk(), StatusIs(StatusCode::kDeadlineExceeded)));
    EpochRange next = loader->Epoch(1);
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, next.Next(Watchdog()));
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(CopyOf(*batch), CopyOf(*expected));
  }
}

TEST_P(LoaderThreadsTest, CancelsBetweenSamples) {
  const int64_t before = SamplesMade();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Sleeps", OptionsOf(3, 1000), int64_t{50}));
  const Pids pids(*loader);
  std::thread canceller([&] {
    absl::SleepFor(absl::Milliseconds(200));
    loader->Cancel();
  });
  EXPECT_THAT(RunEpoch(*loader, 0), StatusIs(StatusCode::kCancelled));
  canceller.join();
  loader.reset();
  EXPECT_TRUE(pids.AllEnded());
  EXPECT_LT(SamplesMade() - before, 1000);  // 0, if made in processes.
}

TEST_P(LoaderThreadsTest, AllThreadsAreOfTheirWorkerAndInitIsCalledOnce) {
  inits = 0;
  LoaderOptions options = OptionsOf(3);
  if (workers() > 0) options.worker_init = CountInits;
  options.strategy = SharingStrategy::kFileDescriptor;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<WhoAmI>(options));
  EpochRange epoch = loader->Epoch(0);
  if (workers() > 0) {  // It is in parts.
    ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  }
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
    if (!batch) break;
    EXPECT_THAT(batch->data<int64_t>("worker"),
                IsOkAndHolds(Each(batch->worker())));
    if (is_process()) {
      EXPECT_THAT(batch->data<int64_t>("inits"), IsOkAndHolds(Each(1)));
    }
  }
}

TEST_P(LoaderThreadsTest, TheThreadsAreThereOnceAndEndWithTheLoader) {
  const int before = CountThreads();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Shared>(OptionsOf(4), 100));
  for (const int64_t epoch : {0, 1})
    ASSERT_THAT(RunEpoch(*loader, epoch), IsOk());
  const int here = workers() == 0 ? 3 : is_process() ? 0 : 4 * workers();
  EXPECT_EQ(CountThreads(), before + here);
  loader.reset();
  // A thread that has been joined may be counted for a moment.
  EXPECT_TRUE(Becomes([&] { return CountThreads() == before; }));
}

TEST_P(LoaderThreadsTest, AForkedChildLeavesThemAlone) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Shared>(OptionsOf(3), 100));
  EpochRange epoch = loader->Epoch(0);
  ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  const pid_t child = fork();
  if (child == 0) {
    loader.reset();
    _exit(0);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(epoch.Next(Watchdog()), IsOk());
}

TEST_P(LoaderThreadsTest, ADatasetThatIsNotThreadSafeIsRefused) {
  EXPECT_THAT(Loader::Create<NotShared>(OptionsOf(2), 100),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("threads_per_worker is 2, but dataset "
                                       "'NotShared' is not thread-safe"),
                             HasSubstr("thread_safe()"))));
  EXPECT_THAT(Loader::Create<NotShared>(OptionsOf(1), 100), IsOk());
  EXPECT_THAT(
      Loader::Create<Streams>(OptionsOf(2), std::vector<int64_t>{3, 4}),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("dataset 'Streams' is iterable, and the samples of a "
                         "shard follow one another")));
  if (workers() == 0) return;
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<NotSharedInWorkers>(OptionsOf(2), 100));
  EXPECT_THAT(loader->Epoch(0).Next(Watchdog()),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("thread-safe in the consumer and not in")));
}

TEST_P(LoaderThreadsTest, ASampleThatEndsAWorkerIsFoundAndLeftOut) {
  if (!is_process()) GTEST_SKIP() << "no process to replace";
  LoaderOptions options = OptionsOf(3, 10);
  options.on_worker_death = OnWorkerDeath::kSkipSample;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Dies", options));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(10));
  EXPECT_THAT(batches[3].values, SizeIs(10));
  EXPECT_THAT(batches[4].values,
              ElementsAre(40, 41, 43, 44, 45, 46, 47, 48, 49));
}

TEST_P(LoaderThreadsTest, WithAnyStartMethodAndOutOfOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(auto plain, Loader::Create<Shared>(Plain(), 60));
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, RunEpoch(*plain, 2));
  plain.reset();
  std::vector<std::optional<spawn::StartMethod>> methods = {std::nullopt};
  if (is_process()) {
    for (const spawn::StartMethod method : spawn::AllStartMethods()) {
      methods.push_back(method);
    }
  }
  for (const auto& method : methods) {
    LoaderOptions options = OptionsOf(2);
    options.start_method = method;
    options.in_order = workers() != 1;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Shared>(options, 60));
    EXPECT_THAT(RunEpoch(*loader, 2), IsOkAndHolds(expected));
    loader.reset();
    if (method == spawn::StartMethod::kForkServer) NoteFds();  // It stays.
  }
}

TEST(LoaderThreadsOptionsTest, KAutoStartsAsManyWorkersAsHaveCores) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Shared>({.batch_size = 8,
                                           .workers = kAuto,
                                           .worker_kind = WorkerKind::kThread,
                                           .threads_per_worker = UsableCores()},
                                          100));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOk());
  EXPECT_EQ(loader->workers(), 1);
  EXPECT_THAT(loader->tuning(), HasSubstr("of at most 1"));
}

TEST(LoaderThreadsOptionsTest, WarningsSayWhatHasNoEffect) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Shared>({.threads_per_worker = UsableCores() + 1}, 100));
  EXPECT_THAT(
      loader->warnings(),
      ElementsAre(AllOf(HasSubstr("threads_per_worker ("),
                        HasSubstr("has no effect: a batch has one sample")),
                  AllOf(HasSubstr("workers (1) of threads_per_worker ("),
                        HasSubstr("exceed the cores"))));
}

TEST(LoaderThreadsOptionsTest, AWorkerProgramSaysWhetherItsDatasetIsSafe) {
  LoaderOptions options = {
      .batch_size = 8,
      .workers = 1,
      .threads_per_worker = 2,
      .worker_program =
          WorkerProgram{.program = "loader/tenon_loader_worker",
                        .plugin = "loader/testing/libtest_datasets_plugin.so"},
      .seed = 7};
  TENON_ASSERT_OK_AND_ASSIGN(
      auto own, Loader::Create<Numbers>({.batch_size = 8, .seed = 7}, 50));
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, RunEpoch(*own, 0));
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("Numbers", options, int64_t{50}));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(expected));
  EXPECT_THAT(Loader::Create("OneThread", options),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("dataset 'OneThread' is not thread-safe")));
}

}  // namespace
}  // namespace tenon::loader
