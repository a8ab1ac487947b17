// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Workers of each start method whose names in /dev/shm a daemon keeps.

#include <signal.h>
#include <unistd.h>

#include <memory>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/attach_process.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {
namespace {

constexpr char kNames[] = "tenon-loader-";

// An attached process runs a loader of workers of `method`.
void RunUnderTheDaemon(ManagerClient& daemon, spawn::StartMethod method) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto own, Loader::Create<Numbers>({.batch_size = 8, .seed = 7}, 100));
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, RunEpoch(*own, 1));
  own.reset();
  TENON_ASSERT_OK_AND_ASSIGN(const auto before, daemon.QueryStats(Soon()));
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Numbers>({.batch_size = 8,
                               .workers = 2,
                               .start_method = method,
                               .seed = 7,
                               .strategy = SharingStrategy::kFileSystem},
                              100));
  EXPECT_THAT(RunEpoch(*loader, 1), IsOkAndHolds(expected));
  EXPECT_GE(CountNames(kNames), 2u);
  // Each worker attached itself before its first name.
  TENON_ASSERT_OK_AND_ASSIGN(const auto with, daemon.QueryStats(Soon()));
  EXPECT_GE(with.clients, before.clients + 2);

  ASSERT_EQ(kill(loader->worker_pids()[0], SIGKILL), 0);
  EXPECT_THAT(RunEpoch(*loader, 2), StatusIs(absl::StatusCode::kAborted));
  loader.reset();
  EXPECT_TRUE(BecomesCount(kNames, 0));
}

TEST(LoaderNamesTest, WorkersOfEachStartMethodAreAttachedToTheDaemon) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  for (const spawn::StartMethod method : spawn::AllStartMethods()) {
    EXPECT_TRUE(InOwnShm([&] {
      const ManagerFolder folder;
      TENON_ASSERT_OK_AND_ASSIGN(ForkedChild process,
                                 StartDaemon(folder.path()));
      TENON_ASSERT_OK_AND_ASSIGN(ManagerClient daemon, AttachTo(folder.path()));
      ASSERT_THAT(AttachProcess({.path = folder.path()}, Soon()), IsOk());
      RunUnderTheDaemon(daemon, method);
      DetachProcess();
      process.Kill();
    })) << spawn::StartMethodName(method);
  }
}

// No worker and no destructor removes the names of a loader that is killed.
TEST(LoaderNamesTest, AKilledConsumerLeavesNoName) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild process, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerClient daemon,
                               AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild consumer,
        ForkedChild::Fork({.name = "consumer"}, [&](const Reporter&) {
          ASSERT_THAT(AttachProcess({.path = folder.path()}, Soon()), IsOk());
          TENON_ASSERT_OK_AND_ASSIGN(
              auto loader, Loader::Create<Numbers>(
                               {.batch_size = 8,
                                .workers = 2,
                                .strategy = SharingStrategy::kFileSystem},
                               100));
          EXPECT_THAT(RunEpoch(*loader, 0), IsOk());
          for (;;) pause();
        }));
    EXPECT_TRUE(Becomes([] { return CountNames(kNames) >= 2; }));
    consumer.Kill();
    EXPECT_TRUE(BecomesCount(kNames, 0));
    process.Kill();
  }));
}

}  // namespace
}  // namespace tenon::loader
