// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/process_stop.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/process/process_info.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

TEST(DescribeStopTest, NamesTheSignalsOfAStoppedProcess) {
  EXPECT_EQ(DescribeStop(getpid()), "");
  TENON_ASSERT_OK_AND_ASSIGN(ForkedChild child,
                             ForkedChild::Fork({}, [](const Reporter&) {
                               for (;;) pause();
                             }));
  EXPECT_EQ(DescribeStop(child.pid()), "");
  ASSERT_EQ(kill(child.pid(), SIGSTOP), 0);
  ASSERT_TRUE(Becomes([&] { return StateOf(child.pid()) == "stopped"; }));
  EXPECT_THAT(DescribeStop(child.pid()), HasSubstr("SIGSTOP"));
}

// As if the process ended after its file was opened.
TEST(DescribeStopTest, SaysNothingOfAProcessThatEndsMeanwhile) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  FaultScenario scenario;
  scenario.name = "describe a stop";
  scenario.body = [] {
    return DescribeStop(getpid()).empty() ? absl::OkStatus()
                                          : absl::AbortedError("stopped");
  };
  scenario.check = [](const SyscallFault&, const absl::Status& outcome) {
    return outcome;
  };
  scenario.faults = {{.call = "openat", .error = ENOENT},
                     {.call = "read", .error = ESRCH}};
  TENON_ASSERT_OK_AND_ASSIGN(FaultReport report, FailSystemCalls(scenario));
  EXPECT_TRUE(report.ok()) << report.ToString();
}

}  // namespace
}  // namespace tenon::spawn
