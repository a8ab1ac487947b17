// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/loader.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/batch.h"
#include "tenon/loader/random_sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/shm_name.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/spawn/init.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Ten times what anything here may take.
Deadline Watchdog() { return Deadline::After(absl::Seconds(60)); }

// What is compared between runs: number, values, noise.
struct Copy {
  int64_t number;
  std::vector<int64_t> values;
  std::vector<float> noise;
  friend bool operator==(const Copy&, const Copy&) = default;
};

template <typename T>
std::vector<T> ToVector(std::span<const T> from) {
  return {from.begin(), from.end()};
}

Copy CopyOf(const Batch& batch) {
  return {batch.number(), ToVector(batch.field<int64_t>("value")),
          ToVector(batch.field<float>("noise"))};
}

// All batches of one epoch, or the first error.
absl::StatusOr<std::vector<Copy>> RunEpoch(Loader& loader, int64_t epoch) {
  std::vector<Copy> batches;
  loader.StartEpoch(epoch);
  for (;;) {
    absl::StatusOr<std::optional<Batch>> batch = loader.Next(Watchdog());
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return batches;
    batches.push_back(CopyOf(**batch));
  }
}

int OpenFds() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

std::vector<std::string> NamesOfThisProcess() {
  return *ListShmNames(absl::StrCat("tenon-loader-", getpid(), "-"));
}

// Remembers the processes of a loader, to see them gone.
class Pids {
 public:
  explicit Pids(const Loader& loader) {
    for (const pid_t pid : loader.worker_pids()) {
      fds_.push_back(*PidFd::Open(pid));
    }
  }
  bool AllEnded() const {
    for (const PidFd& fd : fds_) {
      if (!fd.HasEnded()) return false;
    }
    return true;
  }

 private:
  std::vector<PidFd> fds_;
};

// Every test of a running loader: with these many workers, by this strategy.
class LoaderTest
    : public ::testing::TestWithParam<std::tuple<int, SharingStrategy>> {
 protected:
  int workers() const { return std::get<0>(GetParam()); }

  LoaderOptions Options(std::string dataset, std::string config = "") const {
    return {.dataset = std::move(dataset),
            .dataset_config = std::move(config),
            .workers = workers(),
            .seed = 7,
            .strategy = std::get<1>(GetParam())};
  }

  void SetUp() override { fds_before_ = OpenFds(); }

  // Nothing is left of any loader: it must be gone when the test ends.
  void TearDown() override {
    EXPECT_EQ(OpenFds(), fds_before_);
    EXPECT_THAT(NamesOfThisProcess(), IsEmpty());
  }

 private:
  int fds_before_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderTest,
    ::testing::Combine(::testing::Values(0, 1, 2, 5),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem)),
    [](const auto& test) {
      return absl::StrCat(
          "w", std::get<0>(test.param), "_",
          std::string(SharingStrategyName(std::get<1>(test.param))));
    });

TEST_P(LoaderTest, GivesAllBatchesInOrder) {
  LoaderOptions options = Options("numbers", "10");
  options.batch_size = 4;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  EXPECT_EQ(loader->samples(), 10);
  EXPECT_EQ(loader->batches(), 3);
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(3));
  EXPECT_THAT(batches[0].values, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batches[1].values, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(batches[2].values, ElementsAre(8, 9));
  EXPECT_THAT(batches[2].noise, SizeIs(2 * kNoiseSize));
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(batches[i].number, i);
  EXPECT_THAT(loader->Next(), IsOkAndHolds(::testing::Eq(std::nullopt)));
}

TEST_P(LoaderTest, DropLastLeavesOutTheShortBatch) {
  LoaderOptions options = Options("numbers", "10");
  options.batch_size = 4;
  options.drop_last = true;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  EXPECT_EQ(loader->samples(), 8);
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(2)));
}

TEST_P(LoaderTest, MoreWorkersThanBatches) {
  LoaderOptions options = Options("numbers", "2");
  options.batch_size = 2;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(1)));
}

TEST_P(LoaderTest, EmptyDataset) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("numbers", "0")));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(IsEmpty()));
}

TEST_P(LoaderTest, NothingBeforeTheFirstEpoch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("numbers", "10")));
  EXPECT_THAT(loader->Next(), IsOkAndHolds(::testing::Eq(std::nullopt)));
}

TEST_P(LoaderTest, BatchesDoNotDependOnTheWorkers) {
  const auto run = [&](int with_workers) {
    LoaderOptions options = Options("numbers", "103");
    options.batch_size = 8;
    options.workers = with_workers;
    auto sampler =
        RandomSampler::Create({.dataset_size = 103, .samples = 250, .seed = 3});
    auto loader = Loader::Create(options, *std::move(sampler));
    std::vector<std::vector<Copy>> epochs;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      epochs.push_back(*RunEpoch(**loader, epoch));
    }
    return epochs;
  };
  const auto with_none = run(0);
  EXPECT_EQ(run(workers()), with_none);
  EXPECT_NE(with_none[0], with_none[1]);
}

TEST_P(LoaderTest, BatchesMayBeKept) {
  LoaderOptions options = Options("numbers", "100");
  options.batch_size = 2;
  std::vector<Batch> kept;
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
    loader->StartEpoch(0);
    for (;;) {
      TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
      if (!batch) break;
      kept.push_back(*std::move(batch));
    }
  }  // They outlive the loader.
  ASSERT_THAT(kept, SizeIs(50));
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_THAT(kept[i].field<int64_t>(0), ElementsAre(2 * i, 2 * i + 1));
  }
}

TEST_P(LoaderTest, MemoryIsReused) {
  LoaderOptions options = Options("numbers", "1000");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  std::set<const void*> places;
  loader->StartEpoch(0);
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
    if (!batch) break;
    places.insert(batch->bytes(0).data());
  }
  // At most all batches of the window, and the one in hand, of each worker.
  EXPECT_LE(places.size(),
            static_cast<size_t>(std::max(workers() * (2 * workers() + 1), 1)));
}

TEST_P(LoaderTest, BatchesMayBeDestroyedInAnotherThread) {
  LoaderOptions options = Options("numbers", "200");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  loader->StartEpoch(0);
  std::vector<std::thread> threads;
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
    if (!batch) break;
    threads.emplace_back([kept = *std::move(batch)] { kept.bytes(0); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(LoaderTest, AnEpochMayBeAbandoned) {
  LoaderOptions options = Options("numbers", "100");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  loader->StartEpoch(0);
  ASSERT_THAT(loader->Next(Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 1));
  ASSERT_THAT(batches, SizeIs(100));
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(batches[i].values[0], i);
}

TEST_P(LoaderTest, ALoaderMayBeDroppedInMidEpoch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("numbers", "1000")));
  loader->StartEpoch(0);
  ASSERT_THAT(loader->Next(Watchdog()), IsOk());
  const Pids pids(*loader);
  loader.reset();
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderTest, SkipsBadSamplesAndSaysWhich) {
  LoaderOptions options = Options("bad");
  options.batch_size = 10;
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  loader->StartEpoch(0);
  for (int64_t i = 0; i < 10; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
    ASSERT_TRUE(batch.has_value());
    const int64_t b = 10 * i;
    EXPECT_THAT(
        batch->field<int64_t>("value"),
        ElementsAre(b, b + 1, b + 2, b + 4, b + 5, b + 6, b + 8, b + 9));
    ASSERT_THAT(batch->skipped(), SizeIs(2));
    EXPECT_EQ(batch->skipped()[0].index, b + 3);
    EXPECT_EQ(batch->skipped()[0].position, b + 3);
    EXPECT_THAT(batch->skipped()[0].status,
                StatusIs(StatusCode::kDataLoss, HasSubstr("is rotten")));
    EXPECT_THAT(batch->skipped()[1].status,
                StatusIs(StatusCode::kInternal, HasSubstr("item is on fire")));
  }
}

TEST_P(LoaderTest, AWholeBatchMayBeSkipped) {
  LoaderOptions options = Options("bad");
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(100));
  EXPECT_THAT(batches[2].values, SizeIs(1));
  EXPECT_THAT(batches[3].values, IsEmpty());
}

TEST_P(LoaderTest, ABadSampleEndsTheEpochIfAsked) {
  LoaderOptions options = Options("bad");
  options.batch_size = 5;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  const Pids pids(*loader);
  const auto epoch = RunEpoch(*loader, 0);
  EXPECT_THAT(epoch,
              StatusIs(StatusCode::kDataLoss,
                       HasSubstr("sample 3 (item 3): item 3 is rotten")));
  EXPECT_TRUE(pids.AllEnded());
  EXPECT_EQ(loader->Next().status(), epoch.status());  // And stays so.
}

TEST_P(LoaderTest, CancelBefore) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("numbers", "10")));
  loader->Cancel();
  EXPECT_THAT(RunEpoch(*loader, 0), StatusIs(StatusCode::kCancelled));
}

TEST_P(LoaderTest, CancelWhileWaiting) {
  LoaderOptions options = Options("sleeps", "50");
  options.batch_size = 1000;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  const Pids pids(*loader);
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(200));
    loader->Cancel();
  });
  EXPECT_THAT(RunEpoch(*loader, 0), StatusIs(StatusCode::kCancelled));
  other.join();
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderTest, SamplerOutOfRangeIsAnError) {
  class Wrong : public Sampler {
   public:
    int64_t size() const override { return 1; }
    void Fill(int64_t, int64_t, absl::Span<int64_t> to) override { to[0] = 10; }
  };
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create(Options("numbers", "10"), std::make_unique<Wrong>()));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kOutOfRange, HasSubstr("item 10")));
}

TEST_P(LoaderTest, RefusesBadOptions) {
  EXPECT_THAT(Loader::Create(Options("nonsense")),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("nonsense"), HasSubstr("numbers"))));
  EXPECT_THAT(Loader::Create(Options("no_factory")),
              StatusIs(StatusCode::kInvalidArgument, "no such thing"));
  EXPECT_THAT(Loader::Create(Options("throwing_factory")),
              StatusIs(StatusCode::kInternal, HasSubstr("on fire")));
  for (auto change : {+[](LoaderOptions& o) { o.batch_size = 0; },
                      +[](LoaderOptions& o) { o.workers = -1; },
                      +[](LoaderOptions& o) { o.prefetch = 0; }}) {
    LoaderOptions options = Options("numbers", "10");
    change(options);
    EXPECT_THAT(Loader::Create(options),
                StatusIs(StatusCode::kInvalidArgument));
  }
}

// What only workers can do, by each strategy.
class LoaderWorkerTest : public LoaderTest {};

INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderWorkerTest,
    ::testing::Combine(::testing::Values(1, 2),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem)),
    [](const auto& test) {
      return absl::StrCat(
          "w", std::get<0>(test.param), "_",
          std::string(SharingStrategyName(std::get<1>(test.param))));
    });

TEST_P(LoaderWorkerTest, AWorkerThatKillsItself) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(Options("dies")));
  const Pids pids(*loader);
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr("worker"), HasSubstr("pid"),
                             HasSubstr("SIGKILL"))));
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderWorkerTest, AWorkerThatExits) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(Options("exits")));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted, HasSubstr("exited with code 3")));
}

TEST_P(LoaderWorkerTest, AWorkerKilledFromOutsideAtAnyBatch) {
  for (int after = 0; after < 20; ++after) {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create(Options("sleeps", "1")));
    loader->StartEpoch(0);
    for (int i = 0; i < after; ++i) {
      ASSERT_THAT(loader->Next(Watchdog()), IsOk());
    }
    const Pids pids(*loader);
    const pid_t victim = loader->worker_pids()[after % workers()];
    kill(victim, SIGKILL);
    absl::StatusOr<std::optional<Batch>> batch = loader->Next(Watchdog());
    while (batch.ok() && batch->has_value()) batch = loader->Next(Watchdog());
    EXPECT_THAT(batch, StatusIs(StatusCode::kAborted,
                                AllOf(HasSubstr(absl::StrCat("pid ", victim)),
                                      HasSubstr("SIGKILL"))));
    EXPECT_TRUE(pids.AllEnded());
  }
}

TEST_P(LoaderWorkerTest, ADeadlineNamesWhatIsAwaitedAndNothingIsLost) {
  LoaderOptions options = Options("sleeps", "100");
  options.batch_size = 5;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  loader->StartEpoch(0);
  EXPECT_THAT(loader->Next(Deadline::After(absl::Milliseconds(50))),
              StatusIs(StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("no batch 0"), HasSubstr("worker 0"),
                             HasSubstr("pid"))));
  TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
  EXPECT_THAT(batch->field<int64_t>(0), ElementsAre(0, 1, 2, 3, 4));
}

TEST_P(LoaderWorkerTest, AWorkerThatWillNotStopIsKilled) {
  LoaderOptions options = Options("sleeps", "60000");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  loader->StartEpoch(0);
  EXPECT_THAT(loader->Next(Deadline::After(absl::Milliseconds(100))),
              StatusIs(StatusCode::kDeadlineExceeded));
  const Pids pids(*loader);
  const Deadline watchdog = Deadline::After(absl::Seconds(20));
  loader.reset();
  EXPECT_FALSE(watchdog.has_passed());
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderWorkerTest, AStoppedWorkerIsWaitedForAndThenGoesOn) {
  LoaderOptions options = Options("numbers", "50");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  for (const pid_t pid : loader->worker_pids()) kill(pid, SIGSTOP);
  loader->StartEpoch(0);
  EXPECT_THAT(loader->Next(Deadline::After(absl::Milliseconds(100))),
              StatusIs(StatusCode::kDeadlineExceeded));
  for (const pid_t pid : loader->worker_pids()) kill(pid, SIGCONT);
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(50)));
}

TEST_P(LoaderWorkerTest, FieldsMustBeTheSameInEachProcess) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("per_process")));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker"), HasSubstr("other fields"))));
}

}  // namespace
}  // namespace tenon::loader

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  tenon::loader::MarkAsConsumer();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
