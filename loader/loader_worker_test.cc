// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What only workers can do: die, be stopped, take too long.

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What only workers can do, by each strategy.
class LoaderWorkerTest : public LoaderTest {};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderWorkerTest,
    ::testing::Combine(::testing::Values(1, 2),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);

// What workers of either kind can do.
class LoaderAnyWorkerTest : public LoaderTest {};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderAnyWorkerTest,
    ::testing::Combine(::testing::Values(1, 2),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                       ::testing::Values(WorkerKind::kProcess,
                                         WorkerKind::kThread)),
    LoaderCaseName);

TEST_P(LoaderWorkerTest, AWorkerThatKillsItself) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Dies", Options()));
  const Pids pids(*loader);
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr("worker"), HasSubstr("pid"),
                             HasSubstr("SIGKILL"))));
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderWorkerTest, TheWorkersShareASupervisor) {
  LoaderOptions options = Options();
  options.workers = 4 * workers();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  std::set<pid_t> supervisors;
  for (const pid_t pid : loader->worker_pids()) {
    supervisors.insert(ParentPid(pid));
  }
  EXPECT_THAT(supervisors, SizeIs(1));
}

TEST_P(LoaderWorkerTest, AKilledSupervisorIsAnErrorAndLeavesNoWorker) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("Sleeps", Options(), int64_t{1}));
  EpochRange epoch = loader->Epoch(0);
  ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  const Pids pids(*loader);
  kill(ParentPid(loader->worker_pids()[0]), SIGKILL);
  absl::StatusOr<std::optional<Batch>> batch = epoch.Next(Watchdog());
  while (batch.ok() && batch->has_value()) batch = epoch.Next(Watchdog());
  EXPECT_THAT(batch, StatusIs(StatusCode::kAborted,
                              HasSubstr("its supervisor was killed")));
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderWorkerTest, ADeadWorkersErrorNamesTheRank) {
  LoaderOptions options = Options();
  options.rank = Rank{.rank = 1, .world_size = 2, .node = "node0"};
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Dies", options));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted,
                       ::testing::StartsWith("rank 1 on node0, worker ")));
  // Also later.
  EXPECT_THAT(RunEpoch(*loader, 1),
              StatusIs(StatusCode::kAborted,
                       ::testing::StartsWith("rank 1 on node0, worker ")));
}

TEST_P(LoaderWorkerTest, AWorkerThatExits) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Exits", Options()));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted, HasSubstr("exited with code 3")));
}

TEST_P(LoaderWorkerTest, AWorkerKilledFromOutsideAtAnyBatch) {
  for (int after = 0; after < 20; ++after) {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create("Sleeps", Options(), int64_t{1}));
    EpochRange epoch = loader->Epoch(0);
    for (int i = 0; i < after; ++i) {
      ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
    }
    const Pids pids(*loader);
    const pid_t victim = loader->worker_pids()[after % workers()];
    kill(victim, SIGKILL);
    absl::StatusOr<std::optional<Batch>> batch = epoch.Next(Watchdog());
    while (batch.ok() && batch->has_value()) batch = epoch.Next(Watchdog());
    EXPECT_THAT(batch, StatusIs(StatusCode::kAborted,
                                AllOf(HasSubstr(absl::StrCat("pid ", victim)),
                                      HasSubstr("SIGKILL"))));
    EXPECT_TRUE(pids.AllEnded());
  }
}

TEST_P(LoaderWorkerTest, ADeadlineNamesWhatIsAwaitedAndNothingIsLost) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Sleeps", Options(5), int64_t{100}));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(
      epoch.Next(Deadline::After(absl::Milliseconds(50))),
      StatusIs(StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("no batch 0"), HasSubstr("worker 0"),
                     HasSubstr("pid"),
                     ContainsRegex("it has been (making its dataset|"
                                   "loading samples) for [0-9.]+m?s"))));
  TENON_ASSERT_OK_AND_ASSIGN(auto batch, epoch.Next(Watchdog()));
  EXPECT_THAT(batch->data<int64_t>("value"),
              IsOkAndHolds(ElementsAre(0, 1, 2, 3, 4)));
}

// The eventfds of this process.
std::set<int> EventFds() {
  std::set<int> fds;
  for (int fd = 0; fd < 1000; ++fd) {
    char target[64] = {};
    const std::string link = absl::StrCat("/proc/self/fd/", fd);
    if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) continue;
    if (absl::string_view(target) == "anon_inode:[eventfd]") fds.insert(fd);
  }
  return fds;
}

// A worker may ring just as the loader stops waiting for it.
TEST_P(LoaderWorkerTest, AStaleBellOfAWorkerDoesNotKeepTheLoaderAwake) {
  const std::set<int> before = EventFds();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Sleeps", Options(), int64_t{60'000}));
  std::set<int> bells = EventFds();
  for (const int fd : before) bells.erase(fd);
  ASSERT_GT(bells.size(), 1u);
  bells.erase(bells.begin());  // The cancellation, which was made first.
  for (const int bell : bells) ASSERT_EQ(eventfd_write(bell, 1), 0);
  EpochRange epoch = loader->Epoch(0);
  const std::clock_t began = std::clock();
  EXPECT_THAT(epoch.Next(Deadline::After(absl::Milliseconds(500))),
              StatusIs(StatusCode::kDeadlineExceeded));
  const std::clock_t used = std::clock() - began;
  EXPECT_LT(used, CLOCKS_PER_SEC / 10);
}

TEST_P(LoaderWorkerTest, AWorkerThatWillNotStopIsKilled) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Sleeps", Options(), int64_t{60'000}));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(epoch.Next(Deadline::After(absl::Milliseconds(100))),
              StatusIs(StatusCode::kDeadlineExceeded));
  const Pids pids(*loader);
  const Deadline watchdog = Deadline::After(absl::Seconds(20));
  loader.reset();
  EXPECT_FALSE(watchdog.has_passed());
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderWorkerTest, AStoppedWorkerIsWaitedForAndThenGoesOn) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), 50));
  for (const pid_t pid : loader->worker_pids()) kill(pid, SIGSTOP);
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(epoch.Next(Deadline::After(absl::Milliseconds(100))),
              StatusIs(StatusCode::kDeadlineExceeded));
  for (const pid_t pid : loader->worker_pids()) kill(pid, SIGCONT);
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(50)));
}

// Keeps the batches of an epoch; returns the first error.
absl::Status Keep(Loader& loader, int64_t epoch, std::vector<Batch>& kept) {
  EpochRange range = loader.Epoch(epoch);
  for (;;) {
    absl::StatusOr<std::optional<Batch>> batch = range.Next(Watchdog());
    if (!batch.ok() || !batch->has_value()) return batch.status();
    kept.push_back(**std::move(batch));
  }
}

// So that UBSan, which needs descriptors for a type that it has not seen, has
// seen those of a loader and of its end.
void UseTheTypes(const LoaderOptions& options) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto loader, Loader::Create("Bad", options));
  std::vector<Batch> kept;
  EXPECT_THAT(Keep(*loader, 0, kept), StatusIs(StatusCode::kDataLoss));
}

TEST_P(LoaderAnyWorkerTest, AShortageOfMemoryIsTheErrorOfABatch) {
  UseTheTypes(Options());
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(100), 4000));
  const Pids pids(*loader);
  std::vector<Batch> kept;
  ASSERT_THAT(Keep(*loader, 0, kept), IsOk());
  ASSERT_THAT(kept, SizeIs(40));
  absl::Status shortage;
  {
    // Between two epochs no worker has a task, and no descriptor is in flight.
    // Threads share the limit with the test.
    const FewFds few;
    for (const pid_t pid : loader->worker_pids()) {
      const rlimit standard_streams = {.rlim_cur = 3, .rlim_max = 3};
      EXPECT_EQ(prlimit(pid, RLIMIT_NOFILE, &standard_streams, nullptr), 0);
    }
    for (int64_t epoch = 1; shortage.ok() && epoch < 100; ++epoch) {
      shortage = Keep(*loader, epoch, kept);
    }
    loader.reset();
  }
  EXPECT_THAT(shortage,
              StatusIs(StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("worker"), HasSubstr("no free block"))));
  EXPECT_TRUE(pids.AllEnded());
  EXPECT_THAT(kept[0].data<int64_t>("value"), IsOkAndHolds(SizeIs(100)));
}

TEST_P(LoaderAnyWorkerTest, TooFewDescriptorsForAllWorkers) {
  LoaderOptions options = Options();
  options.workers = 16;
  for (const rlim_t room : {5, 20, 40, 60}) {
    absl::Status status;
    {
      const FewFds few(room);
      status = Loader::Create<Numbers>(options, 10).status();
    }
    EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted)) << room;
  }
}

TEST_P(LoaderAnyWorkerTest, AForkedChildLeavesTheWorkersAlone) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), 100));
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
  for (int64_t i = 1; i < 100; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->number(), i);
  }
}

TEST_P(LoaderWorkerTest, FieldsMustBeTheSameInEachProcess) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("PerProcess", Options()));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker"), HasSubstr("other fields"))));
}

TEST_P(LoaderWorkerTest, ShardsMustBeTheSameInEachProcess) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("OtherShards", Options()));
  EXPECT_THAT(
      RunEpoch(*loader, 0),
      StatusIs(StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("worker"),
                     HasSubstr("another number of shards in this "
                               "worker (3) than in the consumer (2)"))));
}

TEST_P(LoaderWorkerTest, AWorkerThatCannotMakeItsDatasetSaysWhy) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("NotInWorkers", Options()));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("worker"),
                             HasSubstr("cannot make dataset 'NotInWorkers': "
                                       "not in a worker"))));
}

TEST_P(LoaderWorkerTest, AWorkerThatFailsAsACallMightHasEnded) {
  for (const StatusCode code :
       {StatusCode::kDeadlineExceeded, StatusCode::kCancelled}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create("WorkerFailsWith", Options(), static_cast<int>(code)));
    EXPECT_THAT(RunEpoch(*loader, 0),
                StatusIs(StatusCode::kAborted,
                         AllOf(HasSubstr(absl::StatusCodeToString(code)),
                               HasSubstr("not in a worker"))));
  }
}

TEST(LoaderLingersTest, AWorkerWhoseEndIsNotKnownYetHasFailed) {
  absl::Status status;
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create("Lingers", {.workers = 1}));
    status = RunEpoch(*loader, 0).status();
  }
  EXPECT_THAT(status, StatusIs(StatusCode::kAborted,
                               AllOf(HasSubstr("worker"), HasSubstr("pid"))));
}

TEST_P(LoaderWorkerTest, ADatasetThatThrowsInAWorkerIsAnError) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("SpecThrows", Options(), true));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kInternal,
                       AllOf(HasSubstr("worker"),
                             HasSubstr("Dataset::spec() threw: no spec"))));
  TENON_ASSERT_OK_AND_ASSIGN(loader,
                             Loader::Create("SizeThrows", Options(), true));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kInternal,
                       AllOf(HasSubstr("worker"),
                             HasSubstr("Dataset::size() threw: no size"))));
}

TEST_P(LoaderWorkerTest, AnErrorOfTheLoaderIsTheLastElementAndStays) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Dies", Options()));
  absl::Status last;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(last, IsOk());
    last = batch.status();
  }
  EXPECT_THAT(last, StatusIs(StatusCode::kAborted));
  EpochRange epoch = loader->Epoch(1);
  EXPECT_EQ(epoch.Next().status(), last);
}

TEST_P(LoaderWorkerTest, TheTimeoutOptionBoundsTheWaitForABatch) {
  LoaderOptions options = Options();
  options.timeout = absl::Milliseconds(50);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Sleeps", options, int64_t{60'000}));
  int elements = 0;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    EXPECT_THAT(batch, StatusIs(StatusCode::kDeadlineExceeded,
                                HasSubstr("is making batch 0")));
    ++elements;
  }
  EXPECT_EQ(elements, 1);
}

TEST_P(LoaderWorkerTest, BatchesDoNotDependOnTheStartMethod) {
  LoaderOptions options = Options(8);
  const auto run = [&] {
    auto loader = Loader::Create<Numbers>(options, 100);
    return *RunEpoch(**loader, 3);
  };
  options.workers = 0;
  const auto expected = run();
  options.workers = workers();
  options.start_method = spawn::StartMethod::kForkServer;
  run();
  NoteFds();  // Those of the fork server, which stays.
  for (const spawn::StartMethod method : spawn::AllStartMethods()) {
    options.start_method = method;
    EXPECT_EQ(run(), expected) << spawn::StartMethodName(method);
  }
}

TEST(LoaderPrefetchTest, ABatchThatCannotBeAssignedIsNotTheEnd) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  GTEST_SKIP() << "the worker has no descriptor for UBSan's check of types";
#endif
  for (const bool in_order : {true, false}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create("CannotSleep",
                       {.workers = 1, .prefetch = 1, .in_order = in_order}));
    const Pids pids(*loader);
    EpochRange epoch = loader->Epoch(0);
    for (int i = 0; i < 3; ++i) ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
    EXPECT_TRUE(Becomes([&] { return pids.AllEnded(); }));
    absl::StatusOr<std::optional<Batch>> batch = epoch.Next(Watchdog());
    EXPECT_THAT(batch, IsOkAndHolds(::testing::Ne(std::nullopt)));
    EXPECT_THAT(epoch.Next(Watchdog()),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("worker 0"), HasSubstr("poll"))));
  }
}

TEST(LoaderPrefetchTest, BoundsTheBatchesAhead) {
  for (const int workers : {1, 2}) {
    const LoaderOptions options = {
        .workers = workers, .worker_kind = WorkerKind::kThread, .prefetch = 3};
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(options, 1000));
    const int64_t before = SamplesMade();
    EpochRange epoch = loader->Epoch(0);
    ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
    const int64_t ahead = 3 * workers;
    EXPECT_TRUE(Becomes([&] { return SamplesMade() - before >= 1 + ahead; }));
    absl::SleepFor(absl::Milliseconds(50));
    EXPECT_EQ(SamplesMade() - before, 1 + ahead);
  }
}

}  // namespace
}  // namespace tenon::loader
