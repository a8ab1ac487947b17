// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/process_testing.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/one_thread.h"

namespace tenon {
namespace {

constexpr absl::Duration kWatchdog = absl::Minutes(2);
constexpr int kFailedExpectation = 99;

int CountFailures() {
  const testing::TestResult* result =
      testing::UnitTest::GetInstance()->current_test_info()->result();
  int failures = 0;
  for (int i = 0; i < result->total_part_count(); ++i) {
    if (result->GetTestPartResult(i).failed()) ++failures;
  }
  return failures;
}

[[noreturn]] void RunAndExit(const std::function<void()>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // If the test is killed, so is this.
  const int failures_of_parent = CountFailures();
  body();
  std::fflush(nullptr);
  _exit(CountFailures() == failures_of_parent ? 0 : kFailedExpectation);
}

}  // namespace

size_t CountOpenFds() {
  const Deadline settled = Deadline::After(absl::Seconds(1));
  while (CountUnclosed() > 0 && !settled.has_passed()) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) {
    ADD_FAILURE() << "opendir(/proc/self/fd): " << strerror(errno);
    return 0;
  }
  size_t count = 0;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(dir);
  return count - 1;  // Without the descriptor of the directory being read.
}

std::string UniqueTestPrefix() { return UniqueShmPrefix(); }

bool CanBecomeAnotherUser() {
  const pid_t pid = fork();
  if (pid == 0) _exit(BecomeAnotherUser() ? 0 : 1);
  int status = -1;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

bool BecomeAnotherUser() {
  return setgroups(0, nullptr) == 0 &&
         setresgid(kNobody, kNobody, kNobody) == 0 &&
         setresuid(kNobody, kNobody, kNobody) == 0;
}

bool Becomes(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::After(absl::Minutes(1));
  while (!condition()) {
    if (deadline.has_passed()) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

testing::AssertionResult PassesInChild(const std::function<void()>& body,
                                       bool may_have_threads) {
  if (!may_have_threads) {
    const absl::Status one_thread = CheckOneThread();
    if (!one_thread.ok()) return testing::AssertionFailure() << one_thread;
  }
  std::fflush(nullptr);  // Otherwise the child would print it once more.
  const pid_t pid = fork();
  if (pid < 0) {
    return testing::AssertionFailure() << "fork: " << strerror(errno);
  }
  if (pid == 0) RunAndExit(body);
  absl::StatusOr<PidFd> child = PidFd::Open(pid);
  if (!child.ok()) return testing::AssertionFailure() << child.status();
  absl::StatusOr<ExitStatus> end = child->Reap(Deadline::After(kWatchdog));
  if (!end.ok()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return testing::AssertionFailure()
           << "child " << pid << ": " << end.status();
  }
  if (end->success()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "child " << pid << " " << end->ToString();
}

}  // namespace tenon
