// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The daemon of names and supervised processes: it outlives a first client that
// is a supervised worker of a supervised worker, and workers attach to it if
// their starter has.

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/attach_process.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_stats.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/process/start.h"
#include "tenon/tools/live/process_scan.h"
#include "tenon/tools/live/ps.h"

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

// Does not know of the daemon, to which its parent is attached.
absl::Status HaveNamedSegment(int, Tensor tensor) {
  TENON_ASSIGN_OR_RETURN(const int64_t* last, tensor.at<const int64_t>({15}));
  if (*last != 7) return absl::InternalError("another tensor");
  TENON_ASSIGN_OR_RETURN(const Segment segment, CreateIn("child"));
  TENON_RETURN_IF_ERROR(GetProcessAttachment().status);
  for (;;) pause();
}
TENON_SPAWN_FUNCTION(HaveNamedSegment);

// The role of one process in a table of `tenon ps`.
std::string RoleInPs(pid_t pid) {
  const auto scan = tools::ScanProcesses();
  EXPECT_THAT(scan, IsOk());
  for (const tools::PsRow& row : tools::PsRows(*scan, {})) {
    if (row.process.pid != pid) continue;
    const std::string text = tools::PsText({row}, {}, 200);
    for (const char* role : {"shm manager", "keeper", "supervisor"}) {
      if (absl::StrContains(text, role)) return role;
    }
    return text;
  }
  return "not shown";
}

TEST(SupervisedManagerTest, SpawnedChildrenInheritTheAttachment) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    ASSERT_THAT(
        AttachProcess({.path = folder.path(), .program = kProgram}, Soon()),
        IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(
        Tensor tensor,
        Tensor::CreateShared(
            kDtypeOf<int64_t>, {16},
            {.segment = {.strategy = SharingStrategy::kFileSystem,
                         .name_prefix = "argument"}}));
    ASSERT_THAT(tensor.Fill(int64_t{7}), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(auto workers,
                               spawn::Start(2, HaveNamedSegment, {}, tensor));
    // Its creator drops it while it is in flight.
    tensor = Tensor();
    ASSERT_TRUE(BecomesCount("child", 2));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient other, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                               other.QueryStats(Soon()));
    EXPECT_EQ(stats.clients, 4u);
    EXPECT_EQ(RoleInPs(other.daemon().pid), "shm manager");
    EXPECT_THAT(workers.Kill(SIGKILL), IsOk());
    EXPECT_FALSE(workers.Join().ok());
    EXPECT_TRUE(BecomesCount("child", 0));
    ASSERT_TRUE(other.daemon().pid_fd.has_value());
    EXPECT_THAT(other.daemon().pid_fd->SendSignal(SIGTERM), IsOk());
    EXPECT_THAT(other.daemon().pid_fd->WaitForEnd(Soon()), IsOk());
  }));
}

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
