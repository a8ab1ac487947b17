// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The lowest layer of a start: no entry points, no reports.

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/handover.h"
#include "tenon/spawn/supervisor/program.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

constexpr int kExitCode = 42;

// Not by a report, which a supervisor does not read.
absl::Status ExitWithCode(Child&) { _exit(kExitCode); }
TENON_SPAWN_ENTRY("exit-with-code", ExitWithCode);

class StartSupervisedTest : public ChildTest {};

// `parent` is the other end of `control_fd`.
absl::StatusOr<ExitStatus> StartAndReap(Channel& parent, int control_fd,
                                        bool hold_interrupt) {
  TENON_RETURN_IF_ERROR(SendFirst(parent, {.entry = "exit-with-code"},
                                  *SharedArgument::Create(""), {}));
  const ChildFds fds = {.control = control_fd};
  TENON_ASSIGN_OR_RETURN(SupervisedChildren started,
                         StartSupervised({.children = {&fds, 1},
                                          .hold_interrupt = hold_interrupt}));
  SupervisedChild& child = started.children[0];
  TENON_RETURN_IF_ERROR(SendRest(parent, child.pid_fd, {}));
  return child.child_exit.TakeStatus(Watchdog());
}

TEST_F(StartSupervisedTest, RunsThisProgramAsAChild) {
  for (const bool hold_interrupt : {false, true}) {
    TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
    TENON_ASSERT_OK_AND_ASSIGN(
        const ExitStatus how,
        StartAndReap(ends.first, ends.second.fd(), hold_interrupt));
    EXPECT_EQ(how.exit_code, kExitCode) << how.ToString();
  }
}

// dup2() of a descriptor onto itself would leave it close-on-exec.
TEST_F(StartSupervisedTest, ControlChannelMayHaveItsNumberAlready) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  // Puts the child's end there, and afterwards restores the previous
  // descriptor.
  const UniqueFd end(fcntl(ends.second.fd(), F_DUPFD_CLOEXEC, 10));
  ends.second.Release().Reset();
  UniqueFd moved(fcntl(ends.first.fd(), F_DUPFD_CLOEXEC, 10));
  ends.first.Release().Reset();
  TENON_ASSERT_OK_AND_ASSIGN(Channel parent, Channel::Adopt(std::move(moved)));
  const UniqueFd saved(fcntl(kControlFd, F_DUPFD_CLOEXEC, 10));
  ASSERT_EQ(dup3(end.get(), kControlFd, O_CLOEXEC), kControlFd);
  const absl::StatusOr<ExitStatus> how =
      StartAndReap(parent, kControlFd, false);
  if (saved.valid()) {
    dup3(saved.get(), kControlFd, O_CLOEXEC);
  } else {
    close(kControlFd);
  }
  ASSERT_THAT(how, IsOk());
  EXPECT_EQ(how->exit_code, kExitCode) << how->ToString();
}

TEST_F(StartSupervisedTest, DescriptorThatIsNotOpenIsAnError) {
  const ChildFds fds = {.control = 1 << 20};
  EXPECT_THAT(StartSupervised({.children = {&fds, 1}}), ::testing::Not(IsOk()));
}

TEST_F(StartSupervisedTest, CountsTheThreadsOfThisProcess) {
  const int before = CountThreads();
  EXPECT_GE(before, 1);
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> threads;
  for (int i = 1; i <= 3; ++i) {
    threads.emplace_back([ended] { ended.wait(); });
    EXPECT_EQ(CountThreads(), before + i);
  }
  end.set_value();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Becomes([&] { return CountThreads() == before; }));
}

}  // namespace
}  // namespace tenon::spawn
