// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Workers that die, hang or are recycled, and others that take their places.

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
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
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_state.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/process_info.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

enum How : int { kSigkill, kSegfault, kExit3, kExit0, kHang, kStop };

void EndBy(int how) {
  switch (how) {
    case kSigkill:
      raise(SIGKILL);
      break;
    case kSegfault:
      raise(SIGSEGV);
      break;
    case kExit3:
      _exit(3);
    case kExit0:
      _exit(0);
    case kHang:
      for (;;) absl::SleepFor(absl::Seconds(60));
    default:
      raise(SIGSTOP);
  }
}

// Whether item `index` ends a worker now: each time, or with a `folder`, where
// that is noted, the first time only.
bool IsDue(const std::string& folder, int64_t index) {
  if (folder.empty()) return true;
  const std::string mark = absl::StrCat(folder, "/", index);
  const int fd = open(mark.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  close(fd);
  return true;
}

// In a worker, some of its items end it, or hang: each time, or with a
// `folder`, where that is noted, the first time only.
class Deadly : public Numbers {
 public:
  Deadly(const std::string& folder, std::vector<int64_t> items, int how,
         bool in_bulk)
      : Numbers(100),
        folder_(folder),
        items_(std::move(items)),
        how_(how),
        in_bulk_(in_bulk) {}

  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    if (GetWorkerInfo() &&
        std::find(items_.begin(), items_.end(), index) != items_.end() &&
        IsDue(folder_, index)) {
      EndBy(how_);
    }
    return Numbers::Get(index, random, sample);
  }
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override {
    if (!in_bulk_) return Numbers::GetBatch(indices, samples);
    for (int64_t i = 0; i < samples.size(); ++i) {
      SampleRandom random = samples.random(i);
      Sample sample = samples.sample(i);
      const absl::Status got =
          Get(indices[static_cast<size_t>(i)], random, sample);
      if (!got.ok()) return got;
    }
    return absl::OkStatus();
  }

 private:
  std::string folder_;
  std::vector<int64_t> items_;
  int how_;
  bool in_bulk_;
};
TENON_LOADER_DATASET(Deadly(std::string, std::vector<int64_t>, int, bool));

class DiesAtStart : public Numbers {
 public:
  DiesAtStart() : Numbers(10) {
    if (GetWorkerInfo()) raise(SIGKILL);
  }
};
TENON_LOADER_DATASET(DiesAtStart());

// In a worker, Collate() kills it, or takes `milliseconds`.
class Collates : public Dataset {
 public:
  Collates(bool kills, int milliseconds)
      : kills_(kills), milliseconds_(milliseconds) {}
  int64_t size() const override { return 20; }
  SampleSpec spec() const override {
    return SampleSpec().AddInput<int64_t>("items").AddOutput<int64_t>("sum");
  }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    TENON_ASSIGN_OR_RETURN(const auto items,
                           sample.Allocate<int64_t>("items", {1}));
    items[0] = index;
    return absl::OkStatus();
  }
  absl::Status Collate(Collation& batch) override {
    if (GetWorkerInfo()) {
      if (kills_) raise(SIGKILL);
      absl::SleepFor(absl::Milliseconds(milliseconds_));
    }
    TENON_ASSIGN_OR_RETURN(const auto samples, batch.samples("items"));
    int64_t sum = 0;
    for (const Tensor& items : samples) sum += items.data<int64_t>()->front();
    TENON_ASSIGN_OR_RETURN(const Tensor to, batch.Create("sum", {1}));
    return to.Fill(sum);
  }

 private:
  bool kills_;
  int milliseconds_;
};
TENON_LOADER_DATASET(Collates(bool, int));

// Keeps a MiB of each sample.
class Grows : public Numbers {
 public:
  Grows() : Numbers(100) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    if (GetWorkerInfo()) kept_.emplace_back(1 << 20, 'x');
    return Numbers::Get(index, random, sample);
  }

 private:
  std::vector<std::string> kept_;
};
TENON_LOADER_DATASET(Grows());

// In a worker it takes a second to make, and 32 MiB; batch 2 of 8 samples
// takes most of a second, too.
class Heavy : public Numbers {
 public:
  Heavy() : Numbers(100) {
    if (!GetWorkerInfo()) return;
    absl::SleepFor(absl::Seconds(1));
    memory_.assign(32 << 20, 'x');
  }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    if (GetWorkerInfo() && index == 16) absl::SleepFor(absl::Milliseconds(700));
    return Numbers::Get(index, random, sample);
  }

 private:
  std::string memory_;
};
TENON_LOADER_DATASET(Heavy());

class LoaderDeathTest : public LoaderTest {
 protected:
  LoaderOptions Options(OnWorkerDeath on_death) const {
    LoaderOptions options = LoaderTest::Options(8);
    options.shuffle = true;
    options.on_worker_death = on_death;
    return options;
  }
  // A new folder for marks.
  static std::string Folder() {
    std::string path = absl::StrCat(::testing::TempDir(), "/marks-XXXXXX");
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    return path;
  }
};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderDeathTest,
    ::testing::Combine(::testing::Values(1, 3),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);

// The epoch as it is where no sample dies.
std::vector<Copy> Reference(LoaderOptions options, int64_t epoch) {
  options.workers = 0;
  options.on_worker_death = OnWorkerDeath::kFail;
  options.sample_timeout = absl::InfiniteDuration();
  options.recycle_after_samples.reset();
  options.recycle_after_bytes.reset();
  options.overlap_epochs = false;
  auto loader = Loader::Create<Numbers>(options, 100);
  EXPECT_THAT(loader, IsOk());
  auto batches = RunEpoch(**loader, epoch);
  EXPECT_THAT(batches, IsOk());
  return *batches;
}

// `batches` without these items.
std::vector<Copy> Without(std::vector<Copy> batches,
                          const std::set<int64_t>& items) {
  for (Copy& batch : batches) {
    Copy rest = {batch.number, {}, {}};
    for (size_t i = 0; i < batch.values.size(); ++i) {
      if (items.contains(batch.values[i])) continue;
      rest.values.push_back(batch.values[i]);
      const auto noise =
          batch.noise.begin() + static_cast<int64_t>(i) * kNoiseSize;
      rest.noise.insert(rest.noise.end(), noise, noise + kNoiseSize);
    }
    batch = rest;
  }
  return batches;
}

std::string Texts(const std::vector<absl::Status>& statuses) {
  std::string text;
  for (const absl::Status& status : statuses) {
    absl::StrAppend(&text, status.ToString(), "\n");
  }
  return text;
}

TEST_P(LoaderDeathTest, BatchesOfADeadWorkerAreMadeAgain) {
  const std::vector<std::pair<How, const char*>> ends = {
      {kSigkill, "SIGKILL"},
      {kSegfault, "SIGSEGV"},
      {kExit3, "exited with code 3"},
      {kExit0, "ended before its work was done"}};
  for (const auto& [how, text] : ends) {
    const LoaderOptions options = Options(OnWorkerDeath::kRestart);
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create<Deadly>(options, Folder(),
                               std::vector<int64_t>{3, 42, 99}, how, false));
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_THAT(RunEpoch(*loader, epoch),
                  IsOkAndHolds(Reference(options, epoch)))
          << text;
    }
    EXPECT_EQ(loader->replaced_workers(), 3);
    const std::vector<absl::Status> incidents = loader->incidents();
    ASSERT_THAT(incidents, SizeIs(3));
    for (const absl::Status& incident : incidents) {
      EXPECT_THAT(incident,
                  StatusIs(StatusCode::kAborted,
                           AllOf(HasSubstr("worker "), HasSubstr("pid"),
                                 HasSubstr(text),
                                 HasSubstr(", while it loaded sample "))));
    }
    EXPECT_THAT(Texts(incidents),
                AllOf(HasSubstr("(item 3)"), HasSubstr("(item 42)"),
                      HasSubstr("(item 99)")));
    if (how == kSegfault) {
      EXPECT_THAT(Texts(incidents), HasSubstr("\n#0 0x"));
    }
  }
}

TEST_P(LoaderDeathTest, ASampleThatAlwaysKillsExceedsTheRestarts) {
  for (const int restarts : {0, 2}) {
    LoaderOptions options = Options(OnWorkerDeath::kRestart);
    options.max_restarts = restarts;
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create<Deadly>(options, "", std::vector<int64_t>{42}, kSigkill,
                               false));
    const Pids pids(*loader);
    EXPECT_THAT(
        RunEpoch(*loader, 0),
        StatusIs(StatusCode::kAborted,
                 AllOf(HasSubstr("SIGKILL"), HasSubstr("(item 42)"),
                       HasSubstr(absl::StrCat("death number ", restarts + 1,
                                              " in a row of worker ")),
                       HasSubstr(absl::StrCat("max_restarts is ", restarts)))));
    EXPECT_TRUE(pids.AllEnded());
    // They are known where they are wanted most.
    EXPECT_EQ(loader->replaced_workers(), restarts);
    EXPECT_THAT(
        loader->incidents(),
        AllOf(SizeIs(restarts + 1),
              Each(StatusIs(StatusCode::kAborted, HasSubstr("(item 42)")))));
  }
}

TEST_P(LoaderDeathTest, AWorkerThatDiesAtItsStartExceedsTheRestarts) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<DiesAtStart>(Options(OnWorkerDeath::kSkipSample)));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted, HasSubstr("max_restarts is 3")));
}

TEST_P(LoaderDeathTest, AnErrorOfAWorkerIsNoDeath) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create("NotInWorkers", Options(OnWorkerDeath::kRestart)));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kNotFound, HasSubstr("not in a worker")));
}

// Items 1, 2, 42 and 43 may be in one batch, and in the first.
TEST_P(LoaderDeathTest, SamplesThatKillAreLeftOut) {
  const std::vector<int64_t> items = {1, 2, 42, 43, 99};
  for (const bool shuffle : {false, true}) {
    for (const bool in_bulk : {false, true}) {
      LoaderOptions options = Options(OnWorkerDeath::kSkipSample);
      options.shuffle = shuffle;
      TENON_ASSERT_OK_AND_ASSIGN(
          auto loader,
          Loader::Create<Deadly>(options, "", items, kSigkill, in_bulk));
      EXPECT_THAT(RunEpoch(*loader, 0),
                  IsOkAndHolds(Without(Reference(options, 0),
                                       {items.begin(), items.end()})));
      EXPECT_GE(loader->replaced_workers(), 5);
    }
  }
}

TEST_P(LoaderDeathTest, ASampleThatKillsIsNamedAndReplaced) {
  LoaderOptions options = Options(OnWorkerDeath::kSkipSample);
  options.on_sample_error = OnSampleError::kReplace;
  options.failure_budget = 1;
  options.shuffle = false;
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Deadly>(options, "", std::vector<int64_t>{42},
                                          kSegfault, true));
  int failed = 0;
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    EXPECT_EQ(batch->size(), batch->number() == 12 ? 4 : 8);
    for (const SkippedSample& sample : batch->skipped()) {
      ++failed;
      EXPECT_EQ(sample.position, 42);
      EXPECT_EQ(sample.index, 42);
      EXPECT_EQ(sample.replaced_by, 43);
      EXPECT_THAT(sample.status,
                  StatusIs(StatusCode::kAborted,
                           AllOf(HasSubstr("SIGSEGV"),
                                 HasSubstr("sample 42 (item 42)"))));
      EXPECT_THAT(batch->data<int64_t>("value"),
                  IsOkAndHolds(ElementsAre(40, 41, 43, 43, 44, 45, 46, 47)));
    }
  }
  EXPECT_EQ(failed, 1);
}

// Items that are tried in the place of a sample may kill, too.
TEST_P(LoaderDeathTest, AnItemThatKillsReplacesNoSample) {
  const std::vector<int64_t> items = {0, 42, 43, 44, 45, 46, 99};
  LoaderOptions options = Options(OnWorkerDeath::kSkipSample);
  options.on_sample_error = OnSampleError::kReplace;
  options.failure_budget = 7;
  options.shuffle = false;
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Deadly>(options, "", items, kSigkill, false));
  std::vector<int64_t> values;
  std::vector<int64_t> skipped;
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    const auto part = *batch->data<int64_t>("value");
    values.insert(values.end(), part.begin(), part.end());
    for (const SkippedSample& sample : batch->skipped()) {
      EXPECT_EQ(sample.position, sample.index);
      EXPECT_EQ(sample.replaced_by, sample.index % 99 == 0 ? 1 : 47);
      EXPECT_THAT(sample.status.message(),
                  HasSubstr(absl::StrCat("(item ", sample.index, ")")));
      skipped.push_back(sample.index);
    }
  }
  std::vector<int64_t> expected(100);
  for (int64_t i = 0; i < 100; ++i) {
    expected[static_cast<size_t>(i)] = i % 99 == 0          ? 1
                                       : i >= 42 && i <= 46 ? 47
                                                            : i;
  }
  EXPECT_EQ(values, expected);
  EXPECT_EQ(skipped, items);
}

TEST_P(LoaderDeathTest, NoItemIsLeftToReplaceASample) {
  LoaderOptions options = Options(OnWorkerDeath::kSkipSample);
  options.on_sample_error = OnSampleError::kReplace;
  std::vector<int64_t> items;
  for (int64_t i = 40; i < 60; ++i) items.push_back(i);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Deadly>(options, "", items, kSigkill, false));
  EXPECT_THAT(
      RunEpoch(*loader, 0),
      StatusIs(StatusCode::kAborted,
               AllOf(HasSubstr("SIGKILL"), HasSubstr("max_restarts is 3"))));
}

TEST_P(LoaderDeathTest, AsReadyEachSampleComesOnce) {
  const std::vector<int64_t> items = {1, 42, 99};
  LoaderOptions options = Options(OnWorkerDeath::kSkipSample);
  options.in_order = false;
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Deadly>(options, "", items, kExit3, false));
  TENON_ASSERT_OK_AND_ASSIGN(std::vector<Copy> batches, RunEpoch(*loader, 0));
  std::sort(batches.begin(), batches.end(),
            [](const Copy& a, const Copy& b) { return a.number < b.number; });
  EXPECT_EQ(batches,
            Without(Reference(options, 0), {items.begin(), items.end()}));
}

// Kills a worker after each batch, the one that made it or another.
TEST_P(LoaderDeathTest, WorkersKilledFromOutsideAfterEachBatch) {
  LoaderOptions options = Options(OnWorkerDeath::kRestart);
  options.overlap_epochs = true;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(options, 100));
  size_t fds = 0;
  std::vector<Batch> kept;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<Copy> batches;
    EpochRange range = loader->Epoch(epoch);
    for (;;) {
      TENON_ASSERT_OK_AND_ASSIGN(auto batch, range.Next(Watchdog()));
      if (!batch) break;
      batches.push_back(CopyOf(*batch));
      if (epoch == 0 && batches.size() < 3) kept.push_back(*batch);
      const auto victim = batches.size() % static_cast<size_t>(workers());
      kill(loader->worker_pids()[victim], SIGKILL);
    }
    EXPECT_EQ(batches, Reference(options, epoch));
    if (epoch == 0) fds = CountOpenFds();
  }
  // Nothing is kept for those that have ended, but one at most.
  EXPECT_NEAR(CountOpenFds(), fds, 12);
  EXPECT_THAT(loader->replaced_workers(), Ge(13));
  loader.reset();
  ASSERT_THAT(kept, SizeIs(2));
  for (const Batch& batch : kept) {
    EXPECT_EQ(CopyOf(batch),
              Reference(options, 0)[static_cast<size_t>(batch.number())]);
  }
}

TEST_P(LoaderDeathTest, WithoutAPolicyTheErrorNamesTheSample) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Deadly>(Options(OnWorkerDeath::kFail), "",
                             std::vector<int64_t>{42}, kSigkill, false));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr("SIGKILL"), HasSubstr("(item 42)"))));
  EXPECT_THAT(loader->incidents(), IsEmpty());
}

TEST_P(LoaderDeathTest, AWorkerThatHangsIsNamedWithItsStackAndReplaced) {
  LoaderOptions options = Options(OnWorkerDeath::kSkipSample);
  options.sample_timeout = absl::Seconds(1);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Deadly>(options, "", std::vector<int64_t>{42},
                                          kHang, false));
  std::vector<Copy> batches;
  absl::Status skipped;
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    batches.push_back(CopyOf(*batch));
    if (!batch->skipped().empty()) skipped = batch->skipped()[0].status;
  }
  EXPECT_EQ(batches, Without(Reference(options, 0), {42}));
  EXPECT_THAT(
      skipped,
      StatusIs(StatusCode::kAborted,
               AllOf(HasSubstr(" was ended: sample "), HasSubstr("(item 42)"),
                     HasSubstr("takes longer than sample_timeout (1s)"),
                     HasSubstr("\n#0 0x"), HasSubstr("nanosleep"))));
  EXPECT_EQ(loader->replaced_workers(), 1);
}

TEST_P(LoaderDeathTest, WithoutAPolicyAWorkerThatHangsIsAnError) {
  LoaderOptions options = Options(OnWorkerDeath::kFail);
  options.sample_timeout = absl::Seconds(1);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Deadly>(options, "", std::vector<int64_t>{42},
                                          kHang, true));
  const Pids pids(*loader);
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr(" was ended: samples "),
                             HasSubstr("takes longer"), HasSubstr("\n#0 0x"))));
  EXPECT_TRUE(pids.AllEnded());
}

// The samples of the batch have been loaded by then.
TEST_P(LoaderDeathTest, ASampleHasNotFailedWhereCollateKills) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Collates>(Options(OnWorkerDeath::kSkipSample), true, 0));
  EXPECT_THAT(loader->Epoch(0).Next(Watchdog()),
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr("SIGKILL"), Not(HasSubstr("sample ")),
                             HasSubstr("max_restarts is 3"))));
}

TEST_P(LoaderDeathTest, TheTimeOfASampleIsNotThatOfCollate) {
  LoaderOptions options = Options(OnWorkerDeath::kFail);
  options.shuffle = false;
  options.sample_timeout = absl::Milliseconds(500);
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Collates>(options, false, 800));
  EpochRange epoch = loader->Epoch(0);
  for (const int64_t sum : {28, 92, 70}) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
    ASSERT_TRUE(batch.has_value());
    EXPECT_THAT(batch->data<int64_t>("sum"), IsOkAndHolds(ElementsAre(sum)));
  }
}

// The worker that is stopped, or 0.
pid_t StoppedWorker(const Loader& loader) {
  for (const pid_t pid : loader.worker_pids()) {
    if (StateOf(pid) == "stopped") return pid;
  }
  return 0;
}

TEST_P(LoaderDeathTest, AStoppedWorkerIsNotHung) {
  LoaderOptions options = Options(OnWorkerDeath::kSkipSample);
  options.sample_timeout = absl::Seconds(1);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Deadly>(options, Folder(), std::vector<int64_t>{42}, kStop,
                             false));
  std::vector<Copy> batches;
  bool was_stopped = false;
  EpochRange epoch = loader->Epoch(0);
  for (;;) {
    auto batch = epoch.Next(Deadline::After(absl::Seconds(2)));
    if (batch.ok() && !batch->has_value()) break;
    if (batch.ok()) {
      batches.push_back(CopyOf(**batch));
      continue;
    }
    ASSERT_THAT(batch, StatusIs(StatusCode::kDeadlineExceeded));
    const pid_t stopped = StoppedWorker(*loader);
    if (stopped == 0) continue;  // On a busy machine it is not there yet.
    EXPECT_THAT(batch.status().message(), HasSubstr("(item 42)"));
    was_stopped = true;
    kill(stopped, SIGCONT);
  }
  EXPECT_TRUE(was_stopped);
  EXPECT_EQ(batches, Reference(options, 0));
  EXPECT_EQ(loader->replaced_workers(), 0);
}

TEST_P(LoaderDeathTest, ATracedWorkerIsNotHung) {
  LoaderOptions options = Options(OnWorkerDeath::kSkipSample);
  options.sample_timeout = absl::Seconds(1);
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(options, 100));
  EpochRange epoch = loader->Epoch(0);
  std::vector<Copy> batches;
  TENON_ASSERT_OK_AND_ASSIGN(auto first, epoch.Next(Watchdog()));
  batches.push_back(CopyOf(*first));
  for (const pid_t pid : loader->worker_pids()) {
    if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) {
      GTEST_SKIP() << "this process may not trace its descendants";
    }
    ASSERT_EQ(ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(pid, nullptr, __WALL), pid);
  }
  for (;;) {
    auto batch = epoch.Next(Deadline::After(absl::Seconds(2)));
    if (!batch.ok()) {
      EXPECT_THAT(batch, StatusIs(StatusCode::kDeadlineExceeded));
      break;
    }
    ASSERT_TRUE(batch->has_value());
    batches.push_back(CopyOf(**batch));
  }
  for (const pid_t pid : loader->worker_pids()) {
    ASSERT_EQ(ptrace(PTRACE_DETACH, pid, nullptr, nullptr), 0);
  }
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, epoch.Next(Watchdog()));
    if (!batch) break;
    batches.push_back(CopyOf(*batch));
  }
  EXPECT_EQ(batches, Reference(options, 0));
  EXPECT_EQ(loader->replaced_workers(), 0);
}

TEST_P(LoaderDeathTest, AWorkerIsRecycledAfterSomeSamples) {
  for (const bool in_order : {true, false}) {
    LoaderOptions options = Options(OnWorkerDeath::kFail);
    options.in_order = in_order;
    options.recycle_after_samples = 16;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(options, 100));
    const std::vector<pid_t> before = loader->worker_pids();
    const Pids pids(*loader);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      TENON_ASSERT_OK_AND_ASSIGN(std::vector<Copy> batches,
                                 RunEpoch(*loader, epoch));
      std::sort(
          batches.begin(), batches.end(),
          [](const Copy& a, const Copy& b) { return a.number < b.number; });
      EXPECT_EQ(batches, Reference(options, epoch));
    }
    EXPECT_THAT(loader->replaced_workers(), Ge(300 / 40));
    for (const pid_t pid : loader->worker_pids()) {
      EXPECT_THAT(before, Not(::testing::Contains(pid)));
    }
    loader.reset();
    EXPECT_TRUE(pids.AllEnded());
  }
}

TEST_P(LoaderDeathTest, ARecycledWorkerThatCannotBeReplacedIsAnError) {
  LoaderOptions options = Options(OnWorkerDeath::kFail);
  options.recycle_after_samples = 32;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(options, 400));
  EpochRange epoch = loader->Epoch(0);
  // By now each worker has sent its segment.
  for (int i = 0; i < 2 * workers(); ++i) {
    ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  }
  const FewFds none;
  absl::StatusOr<std::optional<Batch>> batch = epoch.Next(Watchdog());
  while (batch.ok() && batch->has_value()) batch = epoch.Next(Watchdog());
  EXPECT_THAT(batch, StatusIs(StatusCode::kResourceExhausted,
                              HasSubstr("cannot be started again")));
}

TEST_P(LoaderDeathTest, AWorkerIsRecycledAsItsMemoryGrows) {
  LoaderOptions options = Options(OnWorkerDeath::kFail);
  options.recycle_after_bytes = 16 << 20;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Grows>(options));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(RunEpoch(*loader, epoch),
                IsOkAndHolds(Reference(options, epoch)));
  }
  EXPECT_THAT(loader->replaced_workers(), Ge(2));
  EXPECT_LE(loader->replaced_workers(), 200 / 8);
}

// Memory that a worker has from its constructor is no growth, also if results
// of the process before it are taken meanwhile.
TEST_P(LoaderDeathTest, TheMemoryOfADatasetIsNoReasonToRecycle) {
  if (workers() == 1) GTEST_SKIP() << "it dies while another one is awaited";
  LoaderOptions options = Options(OnWorkerDeath::kRestart);
  options.shuffle = false;
  options.workers = 2;
  options.recycle_after_bytes = 16 << 20;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Heavy>(options));
  EpochRange epoch = loader->Epoch(0);
  std::vector<Copy> batches;
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
    if (!batch) break;
    batches.push_back(CopyOf(*batch));
    if (batches.size() == 2) {
      absl::SleepFor(absl::Milliseconds(200));  // It makes batch 3.
      kill(loader->worker_pids()[1], SIGKILL);
    }
  }
  EXPECT_EQ(batches, Reference(options, 0));
  EXPECT_EQ(loader->replaced_workers(), 1);
}

// Streams, of which these samples (by value) end a worker once, as noted in
// `folder`. With `skips` samples are passed over without being made.
class DeadlyStreams : public Streams {
 public:
  DeadlyStreams(const std::string& folder, std::vector<int64_t> sizes,
                std::vector<int64_t> values, bool skips)
      : Streams(sizes),
        folder_(folder),
        sizes_(std::move(sizes)),
        values_(std::move(values)),
        skips_(skips) {}
  // Two lanes, one shard after the other.
  int64_t open_shards() const override { return 2; }

  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override {
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<SampleStream> samples,
                           Streams::Open(shard, epoch));
    return std::make_unique<Stream>(this, shard, std::move(samples));
  }

 private:
  class Stream : public SampleStream {
   public:
    Stream(DeadlyStreams* dataset, int64_t shard,
           std::unique_ptr<SampleStream> samples)
        : dataset_(*dataset), shard_(shard), samples_(std::move(samples)) {}

    absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
      const int64_t value = 1000 * shard_ + next_++;
      const bool is_deadly =
          std::find(dataset_.values_.begin(), dataset_.values_.end(), value) !=
          dataset_.values_.end();
      if (GetWorkerInfo() && is_deadly && IsDue(dataset_.folder_, value)) {
        raise(SIGKILL);
      }
      TENON_ASSIGN_OR_RETURN(const bool more, samples_->Next(random, sample));
      if (!more || skipped_ == 0) return more;
      TENON_RETURN_IF_ERROR(sample.Set("value", value));
      return next_ <= dataset_.sizes_[static_cast<size_t>(shard_)];
    }
    absl::StatusOr<int64_t> Skip(int64_t samples) override {
      if (!dataset_.skips_) return 0;
      const int64_t left = dataset_.sizes_[static_cast<size_t>(shard_)] - next_;
      samples = std::min(samples, left);
      next_ += samples;
      skipped_ += samples;
      return samples;
    }

   private:
    DeadlyStreams& dataset_;
    int64_t shard_;
    std::unique_ptr<SampleStream> samples_;
    int64_t next_ = 0;
    int64_t skipped_ = 0;
  };

  std::string folder_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> values_;
  bool skips_;
};
TENON_LOADER_DATASET(DeadlyStreams(std::string, std::vector<int64_t>,
                                   std::vector<int64_t>, bool));

// Shards are of any length, so deaths are in first and last batches, and in
// the second shard of a lane.
const std::vector<int64_t> kSizes = {13, 4, 0, 22, 7, 1};
const std::vector<int64_t> kDeadlyValues = {0, 6, 12, 1003, 3000, 3021, 4005};

std::vector<Copy> StreamReference(LoaderOptions options, int64_t epoch) {
  options.workers = 0;
  options.overlap_epochs = false;
  options.on_worker_death = OnWorkerDeath::kFail;
  options.recycle_after_samples.reset();
  auto loader = Loader::Create<DeadlyStreams>(options, "", kSizes,
                                              std::vector<int64_t>{}, false);
  EXPECT_THAT(loader, IsOk());
  auto batches = RunEpoch(**loader, epoch);
  EXPECT_THAT(batches, IsOk());
  return *batches;
}

// In the order of their numbers.
absl::StatusOr<std::vector<Copy>> RunSorted(Loader& loader, int64_t epoch) {
  absl::StatusOr<std::vector<Copy>> batches = RunEpoch(loader, epoch);
  if (!batches.ok()) return batches;
  std::sort(batches->begin(), batches->end(),
            [](const Copy& a, const Copy& b) { return a.number < b.number; });
  return batches;
}

TEST_P(LoaderDeathTest, ADeadStreamGoesOnWhereItWas) {
  for (const bool skips : {false, true}) {
    for (const bool in_order : {true, false}) {
      LoaderOptions options = LoaderTest::Options(4);
      options.on_worker_death = OnWorkerDeath::kRestart;
      options.in_order = in_order;
      options.drop_last = skips;
      options.overlap_epochs = !skips;
      TENON_ASSERT_OK_AND_ASSIGN(
          auto loader, Loader::Create<DeadlyStreams>(options, Folder(), kSizes,
                                                     kDeadlyValues, skips));
      for (int64_t epoch = 0; epoch < 2; ++epoch) {
        EXPECT_THAT(RunSorted(*loader, epoch),
                    IsOkAndHolds(StreamReference(options, epoch)))
            << "skips " << skips << ", in order " << in_order;
      }
      EXPECT_EQ(loader->replaced_workers(), std::ssize(kDeadlyValues));
      EXPECT_THAT(Texts(loader->incidents()),
                  HasSubstr("(SIGKILL), while it loaded sample "));
    }
  }
}

// What a resumed epoch has passed over is passed over again.
TEST_P(LoaderDeathTest, ADeadStreamOfAResumedEpochGoesOnWhereItWas) {
  LoaderOptions options = LoaderTest::Options(4);
  options.on_worker_death = OnWorkerDeath::kRestart;
  const std::vector<Copy> whole = StreamReference(options, 0);
  for (size_t taken = 1; taken < whole.size(); taken += 2) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto first, Loader::Create<DeadlyStreams>(
                        options, "", kSizes, std::vector<int64_t>{}, true));
    EpochRange epoch = first->Epoch(0);
    for (size_t i = 0; i < taken; ++i) {
      ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
    }
    TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, first->State());
    const std::string deaths = Folder();
    TENON_ASSERT_OK_AND_ASSIGN(
        auto second, Loader::Create<DeadlyStreams>(options, deaths, kSizes,
                                                   kDeadlyValues, true));
    ASSERT_THAT(second->Load(state), IsOk());
    EXPECT_THAT(
        RunEpoch(*second, 0),
        IsOkAndHolds(ElementsAreArray(
            whole.begin() + static_cast<ptrdiff_t>(taken), whole.end())))
        << "after " << taken;
    // A worker was replaced for each death among the samples that are left.
    const auto died =
        std::distance(std::filesystem::directory_iterator(deaths), {});
    EXPECT_EQ(second->replaced_workers(), died) << "after " << taken;
    if (taken == 1) {
      EXPECT_GE(died, 1);
    }
  }
}

TEST_P(LoaderDeathTest, AWorkerOfAStreamIsRecycled) {
  LoaderOptions options = LoaderTest::Options(4);
  options.recycle_after_samples = 8;
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<DeadlyStreams>(options, "", kSizes,
                                                 std::vector<int64_t>{}, true));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(RunEpoch(*loader, epoch),
                IsOkAndHolds(StreamReference(options, epoch)));
  }
  EXPECT_THAT(loader->replaced_workers(), Ge(2));
}

TEST_P(LoaderDeathTest, AStreamCannotLeaveOutASample) {
  LoaderOptions options = LoaderTest::Options();
  options.on_worker_death = OnWorkerDeath::kSkipSample;
  EXPECT_THAT(
      Loader::Create<Streams>(options, std::vector<int64_t>{5}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("use kRestart")));
}

}  // namespace
}  // namespace tenon::loader
