// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Queries of a program about its processes, and the end of handles and threads.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_hazard.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/current_process.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/active_children.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/settings/processors.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProcessFactsTest : public ChildTest {
 protected:
  void TearDown() override {
    StopForkServer();
    ChildTest::TearDown();
  }
};

// ---- The child about itself ----

std::string DescribeSelf() {
  const std::optional<CurrentProcess> self = CurrentProcess::Get();
  if (!self) return "nobody's child";
  return absl::StrCat(self->entry, " ", self->index, " of ", self->parent_pid);
}

absl::Status TellSelf(Child& child) { return Say(child, DescribeSelf()); }
TENON_SPAWN_ENTRY("tell-self", TellSelf);

TEST_F(ProcessFactsTest, ChildKnowsWhatItIs) {
  EXPECT_EQ(DescribeSelf(), "nobody's child");
  for (const StartMethod method : AllStartMethods()) {
    EXPECT_THAT(AnswerOf({.entry = "tell-self", .index = 3, .method = method}),
                IsOkAndHolds(absl::StrCat("tell-self 3 of ", getpid())))
        << StartMethodName(method);
  }
}

// A grandchild is its parent's child; a plain fork is not a child.
absl::Status TellOfOthers(Child& child) {
  TENON_ASSIGN_OR_RETURN(const std::string started,
                         AnswerOf({.entry = "tell-self",
                                   .index = 1,
                                   .method = StartMethod::kFork,
                                   .fork_with_threads = true}));
  const std::string wanted = absl::StrCat("tell-self 1 of ", getpid());
  const pid_t pid = fork();
  if (pid == 0) _exit(CurrentProcess::Get() ? 1 : 0);
  int status = -1;
  waitpid(pid, &status, 0);
  return Say(child, absl::StrCat(started == wanted, " ", status, " ",
                                 CurrentProcess::Get()->index));
}
TENON_SPAWN_ENTRY("tell-of-others", TellOfOthers);

TEST_F(ProcessFactsTest, GrandchildrenAndForksKnowToo) {
  EXPECT_THAT(AnswerOf({.entry = "tell-of-others", .index = 5}),
              IsOkAndHolds("1 0 5"));
}

// A process that has loaded a driver which no fork survives, as CUDA's.
absl::Status ForkWithADriver(Child& child) {
  NoteForkHazard("a driver has been initialized");
  std::string answers;
  for (const StartMethod method : {StartMethod::kFork, StartMethod::kSpawn}) {
    const absl::StatusOr<std::string> answer =
        AnswerOf({.entry = "tell-self",
                  .method = method,
                  .fork_with_threads = method == StartMethod::kFork});
    absl::StrAppend(&answers,
                    answer.ok() ? "started" : answer.status().message(), "; ");
  }
  return Say(child, answers);
}
TENON_SPAWN_ENTRY("fork-with-a-driver", ForkWithADriver);

TEST_F(ProcessFactsTest, AProcessWithADriverThatNoForkSurvivesIsNotForked) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string answers,
                             AnswerOf({.entry = "fork-with-a-driver"}));
  EXPECT_THAT(answers,
              AllOf(HasSubstr("a driver has been initialized in this process, "
                              "and cannot be used in a child that is forked "
                              "from it; use StartMethod::kSpawn"),
                    EndsWith("; started; ")));
}

// ---- Active children ----

std::string Active() {
  std::vector<std::string> all;
  for (const ActiveChild& child : ActiveChildren()) {
    all.push_back(absl::StrCat(child.entry, " ", child.index));
  }
  return absl::StrJoin(all, ", ");
}

TEST_F(ProcessFactsTest, ActiveChildrenAreThoseThatLive) {
  EXPECT_EQ(Active(), "");
  {
    TENON_ASSERT_OK_AND_ASSIGN(Talker first,
                               StartTalker({.entry = kEcho, .index = 1}));
    TENON_ASSERT_OK_AND_ASSIGN(Talker second,
                               StartTalker({.entry = kEcho, .index = 2}));
    ASSERT_EQ(Active(), "echo 1, echo 2");
    EXPECT_EQ(ActiveChildren()[1].pid, second.process.pid());
    const Process moved = std::move(first.process);
    EXPECT_EQ(Active(), "echo 1, echo 2");
    // Visible before any join; and the query reaps nothing.
    EXPECT_THAT(moved.Kill(), IsOk());
    EXPECT_TRUE(Becomes([] { return Active() == "echo 2"; }));
    second.process.Kill().IgnoreError();
    second.process.Join(Watchdog()).IgnoreError();
    EXPECT_EQ(Active(), "");
    EXPECT_EQ(second.process.exit_status()->signal, SIGKILL);
  }
  EXPECT_THAT(ActiveChildren(), IsEmpty());
}

TEST_F(ProcessFactsTest, ActiveChildrenOfAGroup) {
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Processes group,
                               Processes::Start(3, {.entry = "wait-for-ever"}));
    EXPECT_EQ(Active(), "wait-for-ever 0, wait-for-ever 1, wait-for-ever 2");
  }
  EXPECT_EQ(Active(), "");
}

absl::Status WaitForEver(Child&) {
  for (;;) pause();
}
TENON_SPAWN_ENTRY("wait-for-ever", WaitForEver);

// A parent's children are not its own, nor, in a fork, those started before.
absl::Status TellActive(Child& child) {
  const std::string before = Active();
  TENON_ASSIGN_OR_RETURN(
      const Process own,
      Process::Start({.entry = "wait-for-ever", .index = 8}));
  const std::string between = Active();
  const pid_t pid = fork();
  if (pid == 0) _exit(ActiveChildren().empty() ? 0 : 1);
  int status = -1;
  waitpid(pid, &status, 0);
  return Say(child, absl::StrCat("[", before, "] [", between, "] ", status));
}
TENON_SPAWN_ENTRY("tell-active", TellActive);

TEST_F(ProcessFactsTest, ActiveChildrenAreOnesOwn) {
  TENON_ASSERT_OK_AND_ASSIGN(const Process other,
                             Process::Start({.entry = "wait-for-ever"}));
  for (const StartMethod method : {StartMethod::kSpawn, StartMethod::kFork}) {
    EXPECT_THAT(AnswerOf({.entry = "tell-active", .method = method}),
                IsOkAndHolds("[] [wait-for-ever 8] 0"))
        << StartMethodName(method);
  }
}

// ---- Closing a handle ----

TEST_F(ProcessFactsTest, ProcessThatRunsCannotBeClosed) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker one, StartTalker({.entry = kEcho}));
  EXPECT_THAT(
      one.process.Close(),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("still runs")));
  EXPECT_THAT(Ping(one.channel), IsOk());
  EXPECT_TRUE(one.process.IsAlive());
  EXPECT_THAT(one.process.Kill(), IsOk());
  one.process.Join(Watchdog()).IgnoreError();
  EXPECT_THAT(one.process.Close(), IsOk());
}

TEST_F(ProcessFactsTest, ClosedProcessIsOfNoUseAndMayBeClosedAgain) {
  const size_t fds = CountOpenFds();
  TENON_ASSERT_OK_AND_ASSIGN(Process one, Process::Start({.entry = "leave"}));
  // Not joined before: Close() reaps it.
  EXPECT_TRUE(Becomes([&] { return !one.IsAlive(); }));
  EXPECT_TRUE(Becomes([&] { return one.Close().ok(); }));
  EXPECT_FALSE(HasChildren());
  EXPECT_EQ(CountOpenFds(), fds);
  EXPECT_FALSE(one.IsAlive());
  EXPECT_EQ(one.pid(), -1);
  EXPECT_THAT(one.Kill(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(one.Join(Watchdog()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(one.Close(), IsOk());
}

absl::Status Leave(Child&) { return absl::OkStatus(); }
TENON_SPAWN_ENTRY("leave", Leave);

// ---- Threads that an entry point leaves running ----

// Joined by a static destructor: as in any main(), the process waits for it.
struct Joined {
  ~Joined() {
    if (thread.joinable()) thread.join();
  }
  std::thread thread;
};

absl::Status LeaveThreads(Child& child) {
  std::thread([] {
    for (;;) pause();
  }).detach();
  if (child.argument() == "detached") return absl::OkStatus();
  static Joined joined;
  const int out = child.TakeFd(0).Release();
  joined.thread = std::thread([out] {
    absl::SleepFor(absl::Milliseconds(100));
    [[maybe_unused]] const auto written = write(out, "done", 4);
  });
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("leave-threads", LeaveThreads);

TEST_F(ProcessFactsTest, ThreadThatIsLeftRunningEndsWithItsProcess) {
  for (const StartMethod method : AllStartMethods()) {
    TENON_ASSERT_OK_AND_ASSIGN(Process one,
                               Process::Start({.entry = "leave-threads",
                                               .argument = "detached",
                                               .method = method}));
    EXPECT_THAT(one.Join(Watchdog()), IsOk()) << StartMethodName(method);
  }
}

TEST_F(ProcessFactsTest, ThreadThatIsJoinedAtExitIsWaitedFor) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]);
  ProcessOptions options = {.entry = "leave-threads"};
  options.fds.emplace_back(ends[1]);
  TENON_ASSERT_OK_AND_ASSIGN(Process one, Process::Start(std::move(options)));
  EXPECT_THAT(one.Join(Watchdog()), IsOk());
  char said[5] = {};
  EXPECT_EQ(read(out.get(), said, 4), 4);
  EXPECT_STREQ(said, "done");
}

// ---- Processors, start methods ----

absl::Status TellProcessors(Child& child) {
  return Say(child, absl::StrCat(UsableProcessors()));
}
TENON_SPAWN_ENTRY("tell-processors", TellProcessors);

TEST_F(ProcessFactsTest, ProcessorsThatMayBeUsed) {
  const int here = UsableProcessors();
  EXPECT_GE(here, 1);
  EXPECT_LE(here, sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_THAT(AnswerOf({.entry = "tell-processors"}),
              IsOkAndHolds(absl::StrCat(here)));
  EXPECT_THAT(AnswerOf({.entry = "tell-processors",
                        .settings = {.cpus = {sched_getcpu()}}}),
              IsOkAndHolds("1"));
}

TEST_F(ProcessFactsTest, StartMethodsAndTheirNames) {
  std::vector<std::string> names;
  for (const StartMethod method : AllStartMethods()) {
    names.emplace_back(StartMethodName(method));
    EXPECT_THAT(ParseStartMethod(StartMethodName(method)),
                IsOkAndHolds(method));
  }
  EXPECT_THAT(names, ElementsAre("spawn", "fork", "forkserver"));
  EXPECT_EQ(ProcessOptions().method, AllStartMethods().front());
  EXPECT_THAT(ParseStartMethod("exec"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("spawn, fork, forkserver")));
}

// ---- Settings of libraries that read them from the environment ----

absl::Status TellVariable(Child& child) {
  const char* const value = getenv(child.argument().c_str());
  return Say(child, value == nullptr ? "none" : value);
}
TENON_SPAWN_ENTRY("tell-variable", TellVariable);

// glog reads GLOG_... when it is loaded or initialised, in each process.
TEST_F(ProcessFactsTest, VariablesOfALogLibraryTravelHoweverLateTheyAreSet) {
  for (const StartMethod method : AllStartMethods()) {
    ASSERT_EQ(setenv("GLOG_minloglevel", "2", 1), 0);
    EXPECT_THAT(AnswerOf({.entry = "tell-variable",
                          .argument = "GLOG_minloglevel",
                          .method = method}),
                IsOkAndHolds("2"))
        << StartMethodName(method);
    // After a fork server has been started, too.
    ASSERT_EQ(setenv("GLOG_minloglevel", "1", 1), 0);
    EXPECT_THAT(AnswerOf({.entry = "tell-variable",
                          .argument = "GLOG_minloglevel",
                          .method = method}),
                IsOkAndHolds("1"))
        << StartMethodName(method);
    EXPECT_THAT(AnswerOf({.entry = "tell-variable",
                          .argument = "GLOG_minloglevel",
                          .method = method,
                          .environment = {{"GLOG_minloglevel", "3"}}}),
                IsOkAndHolds("3"))
        << StartMethodName(method);
    ASSERT_EQ(unsetenv("GLOG_minloglevel"), 0);
    EXPECT_THAT(AnswerOf({.entry = "tell-variable",
                          .argument = "GLOG_minloglevel",
                          .method = method}),
                IsOkAndHolds("none"))
        << StartMethodName(method);
  }
}

}  // namespace
}  // namespace tenon::spawn
