// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Process state that a child inherits, and state that it does not.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class ProcessInheritTest : public ChildTest {};

// ---- Standard streams ----

// Replaces `fd` by `replacement` (-1: closed) during its lifetime.
class Replaced {
 public:
  Replaced(int fd, int replacement)
      : fd_(fd), saved_(fcntl(fd, F_DUPFD_CLOEXEC, 100)) {
    if (replacement < 0) {
      close(fd);
    } else {
      dup2(replacement, fd);
    }
  }
  ~Replaced() {
    if (saved_.valid()) {
      dup2(saved_.get(), fd_);
    } else {
      close(fd_);
    }
  }

 private:
  const int fd_;
  const UniqueFd saved_;
};

std::string ContentOf(int fd) {
  char content[256];
  const ssize_t size = pread(fd, content, sizeof(content), 0);
  return size < 0 ? "pread fails" : std::string(content, size);
}

absl::Status CopyStreams(Child&) {
  char line[64] = {};
  if (std::fgets(line, sizeof(line), stdin) == nullptr) {
    return absl::DataLossError("nothing to read");
  }
  // Not flushed: an orderly exit must flush it.
  std::printf("out: %s", line);
  std::fprintf(stderr, "err: %s", line);
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("copy-streams", CopyStreams);

TEST_F(ProcessInheritTest, StandardStreams) {
  const UniqueFd in(memfd_create("in", MFD_CLOEXEC));
  const UniqueFd out(memfd_create("out", MFD_CLOEXEC));
  const UniqueFd err(memfd_create("err", MFD_CLOEXEC));
  ASSERT_EQ(write(in.get(), "line\n", 5), 5);
  ASSERT_EQ(lseek(in.get(), 0, SEEK_SET), 0);
  std::fflush(nullptr);
  absl::Status status;
  {
    const Replaced new_in(STDIN_FILENO, in.get());
    const Replaced new_out(STDOUT_FILENO, out.get());
    const Replaced new_err(STDERR_FILENO, err.get());
    absl::StatusOr<Process> process =
        Process::Start({.entry = "copy-streams", .inherit_stdin = true});
    status = process.ok() ? process->Join(Watchdog()) : process.status();
  }
  EXPECT_THAT(status, IsOk());
  EXPECT_EQ(ContentOf(out.get()), "out: line\n");
  EXPECT_EQ(ContentOf(err.get()), "err: line\n");
}

absl::Status TellStreams(Child& child) {
  std::vector<std::string> targets;
  for (int fd = 0; fd < 3; ++fd) {
    char target[64] = {};
    const std::string link = absl::StrCat("/proc/self/fd/", fd);
    if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) target[0] = '?';
    targets.push_back(target);
  }
  return Say(child, absl::StrJoin(targets, " "));
}
TENON_SPAWN_ENTRY("tell-streams", TellStreams);

// Otherwise the next descriptor that is opened would take stdout's number.
TEST_F(ProcessInheritTest, ClosedStandardStreamsAreNull) {
  std::fflush(nullptr);
  // The server has streams of its own.
  ASSERT_THAT(StartForkServer(), IsOk());
  for (const StartMethod method :
       {StartMethod::kSpawn, StartMethod::kForkServer}) {
    absl::StatusOr<std::string> answer;
    {
      const Replaced no_in(STDIN_FILENO, -1);
      const Replaced no_out(STDOUT_FILENO, -1);
      const Replaced no_err(STDERR_FILENO, -1);
      answer = AnswerOf({.entry = "tell-streams",
                         .argument = "argument",
                         .method = method,
                         .inherit_stdin = true});
    }
    EXPECT_THAT(answer, IsOkAndHolds("/dev/null /dev/null /dev/null"))
        << StartMethodName(method);
  }
  StopForkServer();
}

// ---- Environment and strategy ----

absl::Status TellEnvironment(Child& child) {
  const char* value = getenv("TENON_TEST_VALUE");
  return Say(child, value == nullptr ? "none" : value);
}
TENON_SPAWN_ENTRY("tell-environment", TellEnvironment);

TEST_F(ProcessInheritTest, Environment) {
  ASSERT_EQ(setenv("TENON_TEST_VALUE", "set after the start", 1), 0);
  EXPECT_THAT(AnswerOf({.entry = "tell-environment"}),
              IsOkAndHolds("set after the start"));
  ASSERT_EQ(unsetenv("TENON_TEST_VALUE"), 0);
  EXPECT_THAT(AnswerOf({.entry = "tell-environment"}), IsOkAndHolds("none"));
}

absl::Status TellStrategy(Child& child) {
  return Say(child, SharingStrategyName(GetSharingStrategy()));
}
TENON_SPAWN_ENTRY("tell-strategy", TellStrategy);

TEST_F(ProcessInheritTest, SharingStrategy) {
  for (const SharingStrategy strategy : AllSharingStrategies()) {
    SetSharingStrategy(strategy);
    EXPECT_THAT(AnswerOf({.entry = "tell-strategy", .argument = "argument"}),
                IsOkAndHolds(std::string(SharingStrategyName(strategy))));
  }
  SetSharingStrategy(SharingStrategy::kFileDescriptor);
}

// ---- Signals ----

constexpr int kSignals[] = {SIGHUP,  SIGINT,  SIGUSR1, SIGUSR2, SIGPIPE,
                            SIGALRM, SIGTERM, SIGCHLD, SIGCONT, SIGWINCH};

// The parent ignores every other signal of kSignals, and SIGCHLD is reset.
bool IsInherited(int number, const std::string& argument) {
  for (size_t i = 0; i < std::size(kSignals); i += 2) {
    if (kSignals[i] == number) return argument == "inherited";
  }
  return false;
}

absl::Status CheckSignals(Child& child) {
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (sigismember(&blocked, number) == 1) {
      return absl::InternalError(absl::StrCat("blocked: ", number));
    }
  }
  for (const int number : kSignals) {
    struct sigaction action;
    sigaction(number, nullptr, &action);
    const bool is_int = number == SIGINT && child.argument() == "ignore";
    const bool ignored = is_int || IsInherited(number, child.argument());
    if (action.sa_handler != (ignored ? SIG_IGN : SIG_DFL)) {
      return absl::InternalError(absl::StrCat("not default: ", number));
    }
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("check-signals", CheckSignals);

void DoNothing(int) {}

TEST_F(ProcessInheritTest, MaskAndHandlersAreResetAndIgnoredStaysIgnored) {
  struct sigaction before[std::size(kSignals)];
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action = {};
    action.sa_handler = i % 2 == 0 ? SIG_IGN : DoNothing;
    ASSERT_EQ(sigaction(kSignals[i], &action, &before[i]), 0);
  }
  sigset_t all, mask_before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &mask_before);
  absl::StatusOr<Process> process =
      Process::Start({.entry = "check-signals", .argument = "inherited"});
  const absl::Status status =
      process.ok() ? process->Join(Watchdog()) : process.status();
  sigprocmask(SIG_SETMASK, &mask_before, nullptr);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &before[i], nullptr);
  }
  EXPECT_THAT(status, IsOk());
}

TEST_F(ProcessInheritTest, InterruptEndsAChild) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  EXPECT_THAT(Ping(talker.channel), IsOk());
  EXPECT_THAT(talker.process.Signal(SIGINT), IsOk());
  EXPECT_THAT(talker.process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("(SIGINT)")));
}

// Ignored, not blocked: a descendant would inherit a mask.
TEST_F(ProcessInheritTest, InterruptIsNotLeftBlocked) {
  TENON_ASSERT_OK_AND_ASSIGN(Process process,
                             Process::Start({.entry = "check-signals",
                                             .argument = "ignore",
                                             .ignore_interrupt = true}));
  EXPECT_THAT(process.Join(Watchdog()), IsOk());
}

// From its first instruction on: the signal arrives at some point before the
// entry point.
TEST_F(ProcessInheritTest, InterruptCanBeIgnored) {
  for (int i = 0; i < 50; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Talker talker, StartTalker({.entry = kEcho, .ignore_interrupt = true}));
    for (int j = 0; j < i; ++j) sched_yield();
    EXPECT_THAT(talker.process.Signal(SIGINT), IsOk());
    EXPECT_THAT(Ping(talker.channel), IsOk());
    EXPECT_THAT(talker.process.Signal(SIGINT), IsOk());
    EXPECT_THAT(Ping(talker.channel), IsOk());
  }
}

// ---- The thread that starts a child ----

// PR_SET_PDEATHSIG would kill the child here.
TEST_F(ProcessInheritTest, ChildOutlivesTheThreadThatStartedIt) {
  absl::StatusOr<Talker> talker = absl::UnknownError("not started");
  std::thread([&] {
    talker =
        StartTalker({.entry = kEcho, .orphan_grace = absl::ZeroDuration()});
  }).join();
  ASSERT_THAT(talker, IsOk());
  EXPECT_THAT(Ping(talker->channel), IsOk());
  EXPECT_THAT(talker->process.Join(Deadline::After(absl::Milliseconds(50))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(Ping(talker->channel), IsOk());
}

}  // namespace
}  // namespace tenon::spawn
