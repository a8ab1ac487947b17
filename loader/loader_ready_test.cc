// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Options of loaders with workers: batches as they are ready, worker_init, a
// quota of memory; and batch samplers.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/spin_budget.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/gated_testing.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/batch_sampler.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Two shards. Counts the samples that were begun of each.
class CountedStreams : public Streams {
 public:
  explicit CountedStreams(Tensor begun)
      : Streams({1000, 1000}), begun_(std::move(begun)) {}
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override {
    TENON_ASSIGN_OR_RETURN(auto stream, Streams::Open(shard, epoch));
    TENON_ASSIGN_OR_RETURN(const auto begun, begun_.data<int64_t>());
    return std::make_unique<Counted>(std::move(stream),
                                     &begun[static_cast<size_t>(shard)]);
  }

 private:
  class Counted : public SampleStream {
   public:
    Counted(std::unique_ptr<SampleStream> stream, int64_t* begun)
        : stream_(std::move(stream)), begun_(begun) {}
    absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
      std::atomic_ref(*begun_).fetch_add(1);
      return stream_->Next(random, sample);
    }

   private:
    std::unique_ptr<SampleStream> stream_;
    int64_t* begun_;
  };

  Tensor begun_;
};
TENON_LOADER_DATASET(CountedStreams(Tensor));

// Each item is what the worker's init has noted.
thread_local WorkerInfo noted;
class Noted : public Dataset {
 public:
  int64_t size() const override { return 10; }
  SampleSpec spec() const override {
    return SampleSpec()
        .Add<int64_t>("index")
        .Add<int64_t>("workers")
        .Add<uint64_t>("seed");
  }
  absl::Status Get(int64_t, SampleRandom&, Sample& sample) override {
    TENON_RETURN_IF_ERROR(sample.Set("index", int64_t{noted.index}));
    TENON_RETURN_IF_ERROR(sample.Set("workers", int64_t{noted.workers}));
    return sample.Set("seed", noted.seed);
  }
};
TENON_LOADER_DATASET(Noted());

absl::Status Note(const WorkerInfo& info) {
  noted = info;
  return absl::OkStatus();
}
TENON_LOADER_WORKER_INIT(Note);
absl::Status FailingInit(const WorkerInfo&) {
  return absl::NotFoundError("no device");
}
TENON_LOADER_WORKER_INIT(FailingInit);
absl::Status ThrowingInit(const WorkerInfo&) {
  throw std::runtime_error("on fire");
}
TENON_LOADER_WORKER_INIT(ThrowingInit);
absl::Status SecondFails(const WorkerInfo& info) {
  return info.index == 1 ? absl::NotFoundError("no device") : absl::OkStatus();
}
TENON_LOADER_WORKER_INIT(SecondFails);
absl::Status UnknownInit(const WorkerInfo&) { return absl::OkStatus(); }

class LoaderReadyTest : public LoaderTest {
 protected:
  // The numbers of the next `count` batches.
  static std::vector<int64_t> Numbered(EpochRange& epoch, int count) {
    std::vector<int64_t> numbers;
    for (int i = 0; i < count; ++i) {
      const auto batch = epoch.Next(Watchdog());
      EXPECT_THAT(batch, IsOkAndHolds(::testing::Ne(std::nullopt)));
      if (!batch.ok() || !batch->has_value()) break;
      numbers.push_back((*batch)->number());
    }
    return numbers;
  }
  static Tensor ClosedGate() {
    return *Tensor::CreateShared(kDtypeOf<int64_t>, {1});
  }
  static void Open(const Tensor& gate) {
    std::atomic_ref(gate.data<int64_t>()->front()).store(1);
  }
};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderReadyTest,
    ::testing::Combine(::testing::Values(2),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess,
                                         WorkerKind::kThread)),
    LoaderCaseName);

TEST_P(LoaderReadyTest, ASlowBatchDelaysOnlyThoseOfItsWorker) {
  const Tensor gate = ClosedGate();
  LoaderOptions options = Options();
  options.in_order = false;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Gated>(options, gate));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(Numbered(epoch, 8), ElementsAre(1, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(epoch.Next(Deadline::After(absl::Milliseconds(50))),
              StatusIs(StatusCode::kDeadlineExceeded));
  Open(gate);
  EXPECT_THAT(Numbered(epoch, 2), ElementsAre(0, 2));
  EXPECT_THAT(epoch.Next(), IsOkAndHolds(::testing::Eq(std::nullopt)));
}

TEST_P(LoaderReadyTest, InOrderAllWaitForASlowBatch) {
  const Tensor gate = ClosedGate();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Gated>(Options(), gate));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(epoch.Next(Deadline::After(absl::Milliseconds(50))),
              StatusIs(StatusCode::kDeadlineExceeded));
  Open(gate);
  EXPECT_THAT(Numbered(epoch, 4), ElementsAre(0, 1, 2, 3));
}

TEST_P(LoaderReadyTest, TheBatchesAreThoseOfTheFixedOrder) {
  LoaderOptions options = Options(4);
  const auto run = [&](auto make, bool in_order) {
    options.in_order = in_order;
    auto loader = *make();
    EXPECT_THAT(RunEpoch(*loader, 0), IsOk());
    EpochRange unread = loader->Epoch(1);
    EXPECT_THAT(unread.Next(Watchdog()), IsOk());
    auto batches = *RunEpoch(*loader, 2);
    std::sort(batches.begin(), batches.end(),
              [](const Copy& a, const Copy& b) { return a.number < b.number; });
    return batches;
  };
  const auto numbers = [&] { return Loader::Create<Numbers>(options, 103); };
  EXPECT_EQ(run(numbers, false), run(numbers, true));
  const auto streams = [&] {
    return Loader::Create<Streams>(options,
                                   std::vector<int64_t>{13, 0, 40, 7, 1});
  };
  EXPECT_EQ(run(streams, false), run(streams, true));
  EXPECT_THAT(run(streams, false), SizeIs(4 + 10 + 2 + 1));
}

// A sampler whose batch 3, of one sample, is out of range.
class Outside : public SequentialSampler {
 public:
  Outside() : SequentialSampler(10) {}
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> to) override {
    SequentialSampler::Fill(epoch, first, to);
    for (int64_t& index : to) index = index == 3 ? 77 : index;
  }
};

TEST_P(LoaderReadyTest, BadIndicesAreTheErrorOfTheirBatch) {
  LoaderOptions options = Options();
  options.in_order = false;
  options.sampler = std::make_shared<Outside>();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  std::vector<int64_t> numbers;
  int errors = 0;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    if (batch.ok()) {
      numbers.push_back(batch->number());
    } else {
      ++errors;
      EXPECT_THAT(batch,
                  StatusIs(StatusCode::kOutOfRange,
                           HasSubstr("batch 3: the sampler asks for item 77")));
    }
  }
  EXPECT_EQ(errors, 1);
  EXPECT_THAT(numbers, UnorderedElementsAre(0, 1, 2, 4, 5, 6, 7, 8, 9));
}

TEST_P(LoaderReadyTest, AFastWorkerDoesNotKeepTheOthersWaiting) {
  LoaderOptions options = Options();
  options.in_order = false;
  options.prefetch = 2;
  const Tensor begun = *Tensor::CreateShared(kDtypeOf<int64_t>, {2});
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<CountedStreams>(options, begun));
  EpochRange epoch = loader->Epoch(0);
  int64_t taken[2] = {};
  const auto take = [&] {
    const auto batch = epoch.Next(Watchdog());
    ASSERT_THAT(batch, IsOkAndHolds(::testing::Ne(std::nullopt)));
    ++taken[(*batch)->worker()];
  };
  take();  // Assigns the first ones.
  for (int64_t i = 0; i < 20; ++i) {
    // A worker that has begun its second batch has reported the first.
    const auto both_are_ready = [&] {
      const auto counts = *begun.data<int64_t>();
      return std::atomic_ref(counts[0]).load() >= taken[0] + 2 &&
             std::atomic_ref(counts[1]).load() >= taken[1] + 2;
    };
    ASSERT_TRUE(Becomes(both_are_ready));
    take();
    EXPECT_LE(std::abs(taken[0] - taken[1]), 2);
  }
}

TEST_P(LoaderReadyTest, AWorkerThatFailsEndsTheLoader) {
  LoaderOptions options = Options();
  options.in_order = false;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("NotInWorkers", options));
  const auto batches = RunEpoch(*loader, 0);
  if (options.worker_kind == WorkerKind::kProcess) {
    EXPECT_THAT(batches, StatusIs(StatusCode::kNotFound));
  } else {
    EXPECT_THAT(batches, IsOkAndHolds(SizeIs(10)));
  }
}

// The second worker never has a task.
TEST(LoaderReadyIdleTest, AnIdleWorkerThatFailsEndsTheLoader) {
  const Tensor gate = *Tensor::CreateShared(kDtypeOf<int64_t>, {1});
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Gated>({.batch_size = 10,
                                                    .workers = 2,
                                                    .in_order = false,
                                                    .worker_init = SecondFails},
                                                   gate));
  EXPECT_THAT(loader->Epoch(0).Next(Watchdog()),
              StatusIs(StatusCode::kNotFound,
                       ::testing::AllOf(HasSubstr("worker 1"),
                                        HasSubstr("no device"))));
}

TEST_P(LoaderReadyTest, AQuotaOfMemoryLowersPrefetch) {
  const Tensor gate = ClosedGate();
  LoaderOptions options = Options();
  options.in_order = false;
  options.prefetch = 8;
  options.memory_quota = 2 * 128 + 127;  // One batch each, two fields of 64.
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Gated>(options, gate));
  EXPECT_THAT(loader->warnings(),
              ::testing::Contains("memory_quota lowers prefetch (8) to 1"));
  EpochRange epoch = loader->Epoch(0);
  // With more than one batch assigned to it, the first worker had number 2.
  EXPECT_THAT(Numbered(epoch, 9), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  Open(gate);
  EXPECT_THAT(Numbered(epoch, 1), ElementsAre(0));
}

TEST_P(LoaderReadyTest, AQuotaHoldsABatchForEachWorker) {
  LoaderOptions options = Options();
  options.memory_quota = 255;
  EXPECT_THAT(
      Loader::Create<Numbers>(options, 10),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("memory_quota of 255 bytes does not hold a batch of "
                         "128 bytes for each of 2 workers")));
  options.workers = 0;
  EXPECT_THAT(Loader::Create<Numbers>(options, 10), IsOk());
  options.memory_quota = 127;
  EXPECT_THAT(Loader::Create<Numbers>(options, 10),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("128 bytes; raise it, or lower batch_size")));
}

// Batches that the consumer keeps are not part of the quota.
TEST_P(LoaderReadyTest, AQuotaDoesNotBoundWhatTheConsumerKeeps) {
  LoaderOptions options = Options();
  options.memory_quota = 2 * 128;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 50));
  std::vector<Batch> kept;
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    kept.push_back(*std::move(batch));
  }
  ASSERT_THAT(kept, SizeIs(50));
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(CopyOf(kept[static_cast<size_t>(i)]).values[0], i);
  }
}

// As ready, in each call and while idle.
TEST_P(LoaderReadyTest, AWorkerThatDiesIsNamed) {
  if (Options().worker_kind == WorkerKind::kThread) GTEST_SKIP();
  LoaderOptions options = Options();
  options.in_order = false;
  for (const char* dataset : {"Dies", "Exits"}) {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(dataset, options));
    const Pids pids(*loader);
    EXPECT_THAT(RunEpoch(*loader, 0),
                StatusIs(StatusCode::kAborted, HasSubstr("worker ")));
    EXPECT_TRUE(pids.AllEnded());
  }
  for (const bool in_open : {true, false}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader, Loader::Create("DyingStreams", options, in_open));
    const Pids pids(*loader);
    EXPECT_THAT(
        RunEpoch(*loader, 0),
        StatusIs(StatusCode::kAborted, ::testing::AllOf(HasSubstr("worker 1"),
                                                        HasSubstr("SIGKILL"))));
    EXPECT_TRUE(pids.AllEnded());
  }
}

TEST_P(LoaderReadyTest, AnIdleWorkerThatIsKilledEndsTheLoader) {
  if (Options().worker_kind == WorkerKind::kThread) GTEST_SKIP();
  const Tensor gate = ClosedGate();
  LoaderOptions options = Options(10);  // One batch: worker 1 has none.
  options.in_order = false;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Gated>(options, gate));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(epoch.Next(Deadline::After(absl::Milliseconds(50))),
              StatusIs(StatusCode::kDeadlineExceeded));
  kill(loader->worker_pids()[1], SIGKILL);
  EXPECT_THAT(epoch.Next(Watchdog()),
              StatusIs(StatusCode::kAborted, HasSubstr("worker 1")));
}

TEST_P(LoaderReadyTest, InitIsCalledInEachWorker) {
  LoaderOptions options = Options();
  options.worker_init = Note;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Noted>(options));
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    EXPECT_EQ(batch->data<int64_t>("index")->front(), batch->worker());
    EXPECT_EQ(batch->data<int64_t>("workers")->front(), 2);
    EXPECT_EQ(batch->data<uint64_t>("seed")->front(), 7u);
  }
}

TEST_P(LoaderReadyTest, AFailedInitIsTheErrorOfTheLoader) {
  LoaderOptions options = Options();
  options.worker_init = FailingInit;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Noted>(options));
  EXPECT_THAT(
      loader->Epoch(0).Next(Watchdog()),
      StatusIs(StatusCode::kNotFound, HasSubstr("worker_init: no device")));
  options.worker_init = ThrowingInit;
  TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create<Noted>(options));
  EXPECT_THAT(
      loader->Epoch(0).Next(Watchdog()),
      StatusIs(StatusCode::kInternal,
               ::testing::AllOf(HasSubstr("worker_init: "),
                                HasSubstr("ThrowingInit threw: on fire"))));
}

TEST_P(LoaderReadyTest, AnInitThatIsNotRegisteredIsRefused) {
  LoaderOptions options = Options();
  options.worker_init = UnknownInit;
  EXPECT_THAT(Loader::Create<Noted>(options),
              StatusIs(StatusCode::kNotFound,
                       HasSubstr("TENON_LOADER_WORKER_INIT(function)")));
}

TEST(LoaderWarningsTest, SaysWhatHasNoEffect) {
  LoaderOptions options = {.worker_kind = WorkerKind::kThread};
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 1));
  EXPECT_THAT(loader->warnings(), SizeIs(0));
  options.pin_memory = true;
  options.workers = UsableCores() + 1;
  TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create<Numbers>(options, 1));
  EXPECT_THAT(loader->warnings(),
              ElementsAre(HasSubstr("pin_memory has no effect"),
                          HasSubstr("exceed the cores")));
}

// A slice of the user's that names no order, with other positions in it.
class EveryOther : public Sampler {
 public:
  explicit EveryOther(int64_t size, int64_t step) : size_(size), step_(step) {}
  int64_t size() const override { return size_; }
  void Fill(int64_t, int64_t first, absl::Span<int64_t> indices) override {
    for (int64_t& index : indices) index = first++ * step_;
  }
  int64_t GlobalPosition(int64_t position) const override {
    return position * step_;
  }

 private:
  int64_t size_;
  int64_t step_;
};

TEST(LoaderWarningsTest, SaysThatARankHasTheWholeDataset) {
  const Rank rank = {.rank = 1, .world_size = 2};
  const auto warnings = [](const LoaderOptions& options) {
    const auto loader = Loader::Create<Numbers>(options, 10);
    EXPECT_THAT(loader, IsOk());
    return loader.ok() ? (*loader)->warnings() : std::vector<std::string>();
  };
  const auto is_the_advice = ElementsAre(::testing::MatchesRegex(
      "rank \\(1 of 2\\) does not divide the order: this rank has (8|10|12) "
      "samples in each epoch, of a dataset of 10; if the dataset is the same "
      "on each rank, set sampler to a DistributedSampler"));
  EXPECT_THAT(warnings({.rank = rank}), is_the_advice);
  EXPECT_THAT(warnings({.batch_size = 4, .drop_last = true, .rank = rank}),
              is_the_advice);
  EXPECT_THAT(warnings({.shuffle = true, .rank = rank}), is_the_advice);
  const std::shared_ptr<Sampler> random =
      *RandomSampler::Create({.dataset_size = 10, .samples = 12});
  EXPECT_THAT(warnings({.sampler = random, .rank = rank}), is_the_advice);
  // A part of the order, an only rank, and one without `rank`.
  const std::shared_ptr<Sampler> slice = *DistributedSampler::Create(
      std::make_unique<SequentialSampler>(30), rank);
  EXPECT_THAT(warnings({.sampler = slice, .rank = rank}), SizeIs(0));
  for (const auto& [size, step] : {std::pair(5, 1), std::pair(10, 2)}) {
    EXPECT_THAT(warnings({.sampler = std::make_shared<EveryOther>(size, step),
                          .rank = rank}),
                SizeIs(0));
  }
  EXPECT_THAT(warnings({.rank = Rank()}), SizeIs(0));
  EXPECT_THAT(warnings({}), SizeIs(0));
}

// --- Batch samplers, with any number of workers. ---

class LoaderBatchSamplerTest : public LoaderTest {};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderBatchSamplerTest,
    ::testing::Combine(::testing::Values(0, 2, 3),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);

// Batch n has 1 + n % 3 items: n and the following ones.
class Growing : public BatchSampler {
 public:
  explicit Growing(int64_t most = 3) : most_(most) {}
  int64_t size() const override { return 7; }
  int64_t max_batch_size() const override { return most_; }
  void Fill(int64_t, int64_t number, std::vector<int64_t>& indices) override {
    indices.clear();
    for (int64_t i = 0; i <= number % 3; ++i) indices.push_back(number + i);
  }

 private:
  int64_t most_;
};

TEST_P(LoaderBatchSamplerTest, BatchesOfAnySizes) {
  LoaderOptions options = Options();
  options.batch_sampler = std::make_shared<Growing>();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  EXPECT_EQ(loader->batches(), 7);
  EXPECT_EQ(loader->samples(), -1);
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(7));
  EXPECT_THAT(batches[0].values, ElementsAre(0));
  EXPECT_THAT(batches[1].values, ElementsAre(1, 2));
  EXPECT_THAT(batches[2].values, ElementsAre(2, 3, 4));
  EXPECT_THAT(batches[6].values, ElementsAre(6));
  options.workers = 0;
  TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create<Numbers>(options, 10));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(batches));
}

TEST_P(LoaderBatchSamplerTest, ABatchThatIsTooLargeIsAnError) {
  LoaderOptions options = Options();
  options.batch_sampler = std::make_shared<Growing>(0);
  EXPECT_THAT(
      Loader::Create<Numbers>(options, 10),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("max_batch_size() of the batch sampler is 0")));
  options.batch_sampler = std::make_shared<Growing>(2);
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  EXPECT_THAT(
      RunEpoch(*loader, 0),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("batch 2 of the batch sampler has 3 samples; want 1 "
                         "to its max_batch_size() (2)")));
}

// Batch 1 is empty.
class Empty : public BatchSampler {
 public:
  int64_t size() const override { return 3; }
  int64_t max_batch_size() const override { return 2; }
  void Fill(int64_t, int64_t number, std::vector<int64_t>& indices) override {
    indices.assign(number == 1 ? 0 : 1, number);
  }
};

// Throws for batch 2.
class Throwing : public Growing {
 public:
  void Fill(int64_t epoch, int64_t number,
            std::vector<int64_t>& indices) override {
    if (number == 2) throw std::runtime_error("on fire");
    Growing::Fill(epoch, number, indices);
  }
};

TEST_P(LoaderBatchSamplerTest, AnExceptionIsTheErrorOfItsBatch) {
  LoaderOptions options = Options();
  options.batch_sampler = std::make_shared<Throwing>();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  std::vector<int64_t> good;
  std::vector<absl::Status> errors;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    if (batch.ok()) good.push_back(batch->number());
    if (!batch.ok()) errors.push_back(batch.status());
  }
  EXPECT_THAT(good, ElementsAre(0, 1, 3, 4, 5, 6));
  EXPECT_THAT(errors,
              ElementsAre(StatusIs(
                  StatusCode::kInternal,
                  HasSubstr("batch 2: the batch sampler threw: on fire"))));
}

TEST_P(LoaderBatchSamplerTest, AnEmptyBatchIsAnErrorOfItsOwn) {
  LoaderOptions options = Options();
  options.batch_sampler = std::make_shared<Empty>();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  std::vector<absl::Status> statuses;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    statuses.push_back(batch.status());
  }
  EXPECT_THAT(statuses,
              ElementsAre(IsOk(),
                          StatusIs(StatusCode::kInvalidArgument,
                                   HasSubstr("has 0 samples; want 1 to")),
                          IsOk()));
}

TEST_P(LoaderBatchSamplerTest, AFixedSizeIsTheSameAsASampler) {
  LoaderOptions options = Options();
  const auto order = [] {
    return *RandomSampler::Create({.dataset_size = 22, .seed = 7});
  };
  options.batch_sampler = *FixedBatchSampler::Create(order(), 4);
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 22));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 5));
  options.batch_sampler = nullptr;
  options.batch_size = 4;
  options.sampler = order();
  TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create<Numbers>(options, 22));
  EXPECT_THAT(RunEpoch(*loader, 5), IsOkAndHolds(batches));
}

TEST_P(LoaderBatchSamplerTest, RanksTakeTheBatchesOfOneProcessInTurn) {
  LoaderOptions options = Options();
  options.batch_sampler = std::make_shared<Growing>();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, 0));
  for (int rank = 0; rank < 2; ++rank) {
    options.batch_sampler = *DistributedBatchSampler::Create(
        std::make_unique<Growing>(), {.rank = rank, .world_size = 2},
        Remainder::kDrop);
    TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create<Numbers>(options, 10));
    TENON_ASSERT_OK_AND_ASSIGN(const auto part, RunEpoch(*loader, 0));
    ASSERT_THAT(part, SizeIs(3));
    for (size_t i = 0; i < part.size(); ++i) {
      const Copy& same = whole[2 * i + static_cast<size_t>(rank)];
      EXPECT_EQ(part[i].values, same.values);
      EXPECT_EQ(part[i].noise, same.noise);
    }
  }
}

TEST_P(LoaderBatchSamplerTest, AnIndexOutOfRangeIsAnError) {
  LoaderOptions options = Options();
  options.batch_sampler = std::make_shared<Growing>();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 3));
  EXPECT_THAT(RunEpoch(*loader, 0), StatusIs(StatusCode::kOutOfRange));
}

}  // namespace
}  // namespace tenon::loader
