// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The ways in which a child can end, by itself and by other processes.

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// It catches SIGSEGV, prints, and exits or aborts as its options say.
constexpr bool kSanitizerCatchesSegv = true;
#else
constexpr bool kSanitizerCatchesSegv = false;
#endif

class ProcessEndTest : public ChildTest {};

// Ends in the way given by the argument, without a report.
absl::Status EndAbruptly(Child& child) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (child.argument() == "exit 0") std::exit(0);
  if (child.argument() == "exit 3") std::exit(3);
  if (child.argument() == "_exit 4") _exit(4);
  if (child.argument() == "abort") std::abort();
  if (child.argument() == "segv") {
    // Not by a null pointer, which the compiler could see.
    *reinterpret_cast<volatile int*>(static_cast<uintptr_t>(child.index())) = 0;
  }
  return absl::UnimplementedError(child.argument());
}
TENON_SPAWN_ENTRY("end-abruptly", EndAbruptly);

absl::Status EndedBy(const std::string& way) {
  absl::StatusOr<Process> process =
      Process::Start({.entry = "end-abruptly", .index = 16, .argument = way});
  TENON_RETURN_IF_ERROR(process.status());
  const std::string who = process->Describe();
  const absl::Status status = process->Join(Watchdog());
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(who));
  return status;
}

TEST_F(ProcessEndTest, ExitOfItsOwn) {
  EXPECT_THAT(EndedBy("exit 3"), StatusIs(absl::StatusCode::kAborted,
                                          HasSubstr(") exited with code 3")));
  EXPECT_THAT(EndedBy("_exit 4"), StatusIs(absl::StatusCode::kAborted,
                                           HasSubstr(") exited with code 4")));
}

absl::Status Succeed(Child& child) {
  if (child.argument() == "exit") std::exit(0);
  if (child.argument() == "_exit") _exit(0);
  execl("/bin/sh", "sh", "-c", child.argument().c_str(), nullptr);
  return absl::InternalError("execl");
}
TENON_SPAWN_ENTRY("succeed", Succeed);

TEST_F(ProcessEndTest, ExitWithZeroIsSuccess) {
  for (const char* way : {"exit", "_exit", "exit 0"}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Process process, Process::Start({.entry = "succeed", .argument = way}));
    EXPECT_THAT(process.Join(Watchdog()), IsOk()) << way;
    EXPECT_TRUE(process.exit_status()->success()) << way;
  }
  TENON_ASSERT_OK_AND_ASSIGN(
      Process process,
      Process::Start({.entry = "succeed", .argument = "exit 5"}));
  EXPECT_THAT(
      process.Join(Watchdog()),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("exited with code 5")));
}

absl::Status ThrowText(Child& child) {
  if (child.index() == 0) throw "text of a literal";
  throw std::string("text of a string");
}
TENON_SPAWN_ENTRY("throw-text", ThrowText);

TEST_F(ProcessEndTest, TextThatIsThrownIsKept) {
  for (const int index : {0, 1}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Process process,
        Process::Start({.entry = "throw-text", .index = index}));
    EXPECT_THAT(process.Join(Watchdog()),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr(index == 0 ? ": text of a literal"
                                              : ": text of a string")));
  }
}

TEST_F(ProcessEndTest, Abort) {
  EXPECT_THAT(EndedBy("abort"),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr(") was killed by signal 6 (SIGABRT)")));
}

TEST_F(ProcessEndTest, SegmentationFault) {
  const absl::Status status = EndedBy("segv");
  if (kSanitizerCatchesSegv) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted,
                                 AnyOf(HasSubstr("exited with code"),
                                       HasSubstr("SIGABRT"))));
  } else {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kAborted,
                         HasSubstr(") was killed by signal 11 (SIGSEGV)")));
  }
}

TEST_F(ProcessEndTest, KilledFromOutside) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  EXPECT_THAT(Ping(talker.channel), IsOk());
  EXPECT_THAT(talker.process.Signal(SIGKILL), IsOk());
  EXPECT_THAT(talker.process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr(") was killed by signal 9 (SIGKILL)")));
  EXPECT_EQ(talker.process.exit_status()->signal, SIGKILL);
}

// A killed child has no time to report anything, whenever the kill arrives.
TEST_F(ProcessEndTest, KilledAtOnce) {
  for (int i = 0; i < 20; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
    EXPECT_THAT(talker.process.Signal(SIGKILL), IsOk());
    EXPECT_THAT(talker.process.Join(Watchdog()),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("(SIGKILL)")));
  }
}

absl::Status AbortAtExit(Child&) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::atexit([] { std::abort(); });
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("abort-at-exit", AbortAtExit);

TEST_F(ProcessEndTest, CrashAfterOkIsNotOk) {
  TENON_ASSERT_OK_AND_ASSIGN(Process process,
                             Process::Start({.entry = "abort-at-exit"}));
  EXPECT_THAT(process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("(SIGABRT), after its entry point had "
                                 "returned OK")));
}

// ---- Join and Signal ----

TEST_F(ProcessEndTest, JoinGivesUpAtItsDeadlineAndCanBeRepeated) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  for (const Deadline deadline :
       {Deadline::Passed(), Deadline::After(absl::Milliseconds(20))}) {
    EXPECT_THAT(talker.process.Join(deadline),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr(talker.process.Describe())));
    EXPECT_FALSE(talker.process.exit_status().has_value());
  }
  EXPECT_THAT(Ping(talker.channel), IsOk());
  talker.channel.Release().Reset();
  EXPECT_THAT(talker.process.Join(Watchdog()), IsOk());
}

TEST_F(ProcessEndTest, EndIsSeenByPoll) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  pollfd end = {.fd = talker.process.end_fd(), .events = POLLIN, .revents = 0};
  EXPECT_THAT(PollUntil({&end, 1}, Deadline::Passed()), IsOkAndHolds(0));
  talker.channel.Release().Reset();
  EXPECT_THAT(PollUntil({&end, 1}, Watchdog()), IsOkAndHolds(1));
  EXPECT_THAT(talker.process.Join(Deadline::Passed()), IsOk());
}

TEST_F(ProcessEndTest, SignalAfterJoinIsNotFound) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  EXPECT_THAT(talker.process.Signal(0), IsOk());
  talker.channel.Release().Reset();
  EXPECT_THAT(talker.process.Join(Watchdog()), IsOk());
  EXPECT_THAT(talker.process.Signal(SIGTERM),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr(talker.process.Describe())));
}

TEST_F(ProcessEndTest, SignalRunsBesideJoin) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  std::thread joiner([&] {
    EXPECT_THAT(talker.process.Join(Watchdog()),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGTERM")));
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(talker.process.Signal(SIGCONT), IsOk());
  }
  EXPECT_THAT(talker.process.Signal(SIGTERM), IsOk());
  joiner.join();
}

// ---- The destructor, assignment, Stop ----

TEST_F(ProcessEndTest, DestructorKillsAndReaps) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  absl::StatusOr<PidFd> end = absl::UnknownError("");
  {
    TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
    TENON_ASSERT_OK_AND_ASSIGN(end, PidFd::Open(talker.process.pid()));
    EXPECT_THAT(Ping(talker.channel), IsOk());
    EXPECT_FALSE(end->HasEnded());
    // Then only the destructor of the process can end the child.
    std::swap(talker.channel, ends.first);
  }
  EXPECT_TRUE(end->HasEnded());
  EXPECT_FALSE(HasChildren());
}

TEST_F(ProcessEndTest, MovedProcessIsTheSame) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  Process moved = std::move(talker.process);
  EXPECT_THAT(talker.process.Join(Deadline::Passed()),  // NOLINT: moved from.
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(talker.process.Signal(SIGKILL),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  talker.process.Stop(absl::ZeroDuration());
  EXPECT_THAT(Ping(talker.channel), IsOk());
  talker.process = std::move(moved);
  EXPECT_THAT(Ping(talker.channel), IsOk());
}

TEST_F(ProcessEndTest, AssignmentEndsTheOldChild) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker old, StartTalker({.entry = kEcho}));
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd end, PidFd::Open(old.process.pid()));
  EXPECT_THAT(Ping(old.channel), IsOk());
  old.process = std::move(talker.process);
  EXPECT_TRUE(end.HasEnded());
  EXPECT_THAT(Ping(talker.channel), IsOk());
}

TEST_F(ProcessEndTest, StopIsPoliteFirst) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  EXPECT_THAT(Ping(talker.channel), IsOk());
  talker.process.Stop(absl::InfiniteDuration());
  EXPECT_THAT(talker.process.Join(Deadline::Passed()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("(SIGTERM)")));
}

absl::Status Resist(Child& child) {
  signal(SIGTERM, SIG_IGN);
  TENON_ASSIGN_OR_RETURN(Channel channel, TakeChannel(child));
  TENON_RETURN_IF_ERROR(channel.Send("ready", {}, Watchdog()));
  return channel.Receive(Deadline::Never()).status();
}
TENON_SPAWN_ENTRY("resist", Resist);

TEST_F(ProcessEndTest, StopKillsAChildThatIgnoresSigterm) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = "resist"}));
  EXPECT_THAT(talker.channel.Receive(Watchdog()), IsOk());
  talker.process.Stop(absl::Milliseconds(50));
  EXPECT_THAT(talker.process.Join(Deadline::Passed()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("(SIGKILL)")));
}

TEST_F(ProcessEndTest, StopKillsAChildThatIsStopped) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = "resist"}));
  EXPECT_THAT(talker.channel.Receive(Watchdog()), IsOk());
  EXPECT_THAT(talker.process.Signal(SIGSTOP), IsOk());
  talker.process.Stop(absl::Milliseconds(50));
  EXPECT_THAT(talker.process.Join(Deadline::Passed()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("(SIGKILL)")));
}

TEST_F(ProcessEndTest, StopLeavesAChildThatHasEndedAsItIs) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd end,
                             PidFd::Open(talker.process.pid()));
  talker.channel.Release().Reset();
  EXPECT_THAT(end.WaitForEnd(Watchdog()), IsOk());
  talker.process.Stop(absl::ZeroDuration());
  EXPECT_THAT(talker.process.Join(Deadline::Passed()), IsOk());
  talker.process.Stop(absl::ZeroDuration());
  EXPECT_THAT(talker.process.Join(Deadline::Passed()), IsOk());
}

}  // namespace
}  // namespace tenon::spawn
