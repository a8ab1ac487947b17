// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What only workers can do: die, be stopped, take too long.

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What only workers can do, by each strategy.
class LoaderWorkerTest : public LoaderTest {};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderWorkerTest,
    ::testing::Combine(::testing::Values(1, 2),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem)),
    LoaderCaseName);

TEST_P(LoaderWorkerTest, AWorkerThatKillsItself) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(Options("dies")));
  const Pids pids(*loader);
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr("worker"), HasSubstr("pid"),
                             HasSubstr("SIGKILL"))));
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderWorkerTest, TheWorkersShareASupervisor) {
  LoaderOptions options = Options("numbers", "10");
  options.workers = 4 * workers();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  std::set<pid_t> supervisors;
  for (const pid_t pid : loader->worker_pids()) {
    supervisors.insert(ParentPid(pid));
  }
  EXPECT_THAT(supervisors, SizeIs(1));
}

TEST_P(LoaderWorkerTest, AKilledSupervisorIsAnErrorAndLeavesNoWorker) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("sleeps", "1")));
  loader->StartEpoch(0);
  ASSERT_THAT(loader->Next(Watchdog()), IsOk());
  const Pids pids(*loader);
  kill(ParentPid(loader->worker_pids()[0]), SIGKILL);
  absl::StatusOr<std::optional<Batch>> batch = loader->Next(Watchdog());
  while (batch.ok() && batch->has_value()) batch = loader->Next(Watchdog());
  EXPECT_THAT(batch, StatusIs(StatusCode::kAborted,
                              HasSubstr("its supervisor was killed")));
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
