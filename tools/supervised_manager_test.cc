// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The first client of the daemon of names, which starts it, is a supervised
// worker of a supervised worker: the daemon outlives them.

#include <signal.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/process/start.h"

namespace tenon {
namespace {

constexpr char kProgram[] = "shm_manager/tenon_shm_manager";

absl::Status BeFirstClient(int, std::string path) {
  TENON_ASSIGN_OR_RETURN(
      const ManagerClient client,
      ManagerClient::Attach({.path = path, .program = kProgram}, Soon()));
  TENON_ASSIGN_OR_RETURN(const Segment segment, CreateIn("worker"));
  for (;;) pause();
}
TENON_SPAWN_FUNCTION(BeFirstClient);

absl::Status HaveFirstClient(int, std::string path) {
  TENON_ASSIGN_OR_RETURN(auto inner, spawn::Start(1, BeFirstClient, {}, path));
  return inner.Join();
}
TENON_SPAWN_FUNCTION(HaveFirstClient);

TEST(SupervisedManagerTest, OutlivesTheTreeOfItsStarter) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        auto workers, spawn::Start(1, HaveFirstClient, {}, folder.path()));
    ASSERT_TRUE(BecomesCount("worker", 1));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient other, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn("other"));
    EXPECT_THAT(workers.Kill(SIGKILL), IsOk());
    EXPECT_FALSE(workers.Join().ok());
    EXPECT_TRUE(BecomesCount("worker", 0));
    EXPECT_EQ(CountNames("other"), 1u);
    EXPECT_THAT(other.QueryStats(Soon()), IsOk());
    EXPECT_EQ(getsid(other.daemon().pid), other.daemon().pid);
    ASSERT_TRUE(other.daemon().pid_fd.has_value());
    EXPECT_THAT(other.daemon().pid_fd->SendSignal(SIGTERM), IsOk());
    EXPECT_THAT(other.daemon().pid_fd->WaitForEnd(Soon()), IsOk());
  }));
}

}  // namespace
}  // namespace tenon
