// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The same death 200 times: nothing may be left behind, neither process nor
// zombie nor descriptor; the fixture checks that.

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

constexpr int kRounds = 200;

class ProcessKillTest : public ChildTest {};

[[noreturn]] void StayForEver() {
  for (;;) pause();
}

// Worker 0 ends as given by the argument; the others stay.
absl::Status EndAsTold(Child& child) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (child.index() != 0) StayForEver();
  const std::string& way = child.argument();
  // Not by a fault: sanitizers handle that differently.
  if (way == "SIGSEGV") {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  if (way == "SIGABRT") {
    signal(SIGABRT, SIG_DFL);
    abort();
  }
  if (way == "exit 6") exit(6);
  if (way == "error") return absl::NotFoundError("worker 0 fails");
  StayForEver();
}
TENON_SPAWN_ENTRY("end-as-told", EndAsTold);

absl::StatusOr<Processes> StartTwo(const char* way) {
  return Processes::Start(2, {.entry = "end-as-told", .argument = way});
}

void ExpectEnd(Processes& two, absl::string_view signal_name) {
  const auto exited = GetProcessExited(two.Join(Watchdog()));
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->index, 0);
  EXPECT_EQ(exited->signal_name, signal_name);
  EXPECT_EQ(two[1].exit_status()->signal, SIGTERM);
}

TEST_F(ProcessKillTest, KilledAtAnyMoment) {
  std::mt19937 random(20260601);
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Processes two, StartTwo("stay"));
    absl::SleepFor(absl::Microseconds(random() % 5000));
    ASSERT_THAT(two[0].Kill(), IsOk());
    ASSERT_NO_FATAL_FAILURE(ExpectEnd(two, "SIGKILL"));
  }
}

TEST_F(ProcessKillTest, SegmentationFault) {
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Processes two, StartTwo("SIGSEGV"));
    ASSERT_NO_FATAL_FAILURE(ExpectEnd(two, "SIGSEGV"));
  }
}

TEST_F(ProcessKillTest, Abort) {
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Processes two, StartTwo("SIGABRT"));
    ASSERT_NO_FATAL_FAILURE(ExpectEnd(two, "SIGABRT"));
  }
}

TEST_F(ProcessKillTest, ExitWithoutFinishing) {
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Processes two, StartTwo("exit 6"));
    ASSERT_NO_FATAL_FAILURE(ExpectEnd(two, ""));
  }
}

// A stopped sibling does not handle SIGTERM; finally it is killed.
TEST_F(ProcessKillTest, StoppedSiblingWithAGracePeriod) {
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Processes two, StartTwo("error"));
    ASSERT_THAT(two[1].Signal(SIGSTOP), IsOk());
    ASSERT_TRUE(Becomes([&] { return ProcessState(two[1].pid()) == 'T'; }));
    ASSERT_THAT(two.Join(Deadline::Never(), absl::Milliseconds(1)),
                StatusIs(absl::StatusCode::kNotFound));
    ASSERT_EQ(two[1].exit_status()->signal, SIGKILL);
  }
}

// ---- The parent is killed ----

// Starts groups of children, one after another, until it is killed.
absl::Status StartForEver(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  TENON_RETURN_IF_ERROR(test.Send("", {}, Watchdog()));
  for (;;) {
    TENON_ASSIGN_OR_RETURN(
        const Processes three,
        Processes::Start(3, {.entry = "end-as-told",
                             .argument = "stay",
                             .orphan_grace = absl::ZeroDuration()}));
  }
}
TENON_SPAWN_ENTRY("start-for-ever", StartForEver);

TEST_F(ProcessKillTest, ParentIsKilledAtAnyMomentOfAStart) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  std::mt19937 random(20260602);
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Talker parent,
                               StartTalker({.entry = "start-for-ever"}));
    ASSERT_THAT(parent.channel.Receive(Watchdog()), IsOk());
    absl::SleepFor(absl::Microseconds(random() % 10'000));
    ASSERT_THAT(parent.process.Kill(), IsOk());
    EXPECT_TRUE(GetProcessExited(parent.process.Join(Watchdog())));
    // Its children are reparented to this process, and end by themselves.
    ASSERT_TRUE(Becomes([] {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      return !HasChildren();
    })) << "round "
        << i;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace tenon::spawn
