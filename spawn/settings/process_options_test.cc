// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Options of a child's start.

#include "tenon/spawn/settings/process_options.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/settings/child_settings.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class ProcessOptionsTest : public ChildTest {};

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Answers the question in the argument.
absl::Status Tell(Child& child) {
  const std::string& what = child.argument();
  if (what == "name") return Say(child, FirstLine("/proc/self/comm"));
  if (what == "group") {
    return Say(child, getpgrp() == getpid() ? "own" : "parent's");
  }
  if (what == "files") {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    return Say(child, absl::StrCat(limit.rlim_cur, "/", limit.rlim_max));
  }
  if (what == "cpus") {
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    return Say(child, absl::StrCat(CPU_COUNT(&set), " ", CPU_ISSET(0, &set)));
  }
  const char* value = getenv(what.c_str());
  return Say(child, value == nullptr ? "(none)" : value);
}
TENON_SPAWN_ENTRY("tell", Tell);

absl::StatusOr<std::string> Ask(const std::string& what,
                                ProcessOptions options) {
  options.entry = "tell";
  options.argument = what;
  return AnswerOf(std::move(options));
}

TEST_F(ProcessOptionsTest, NameIsShownByTheSystem) {
  EXPECT_THAT(Ask("name", {.settings = {.name = "decoder-7"}}),
              IsOkAndHolds("decoder-7"));
  EXPECT_THAT(Ask("name", {.settings = {.name = "longer than fifteen"}}),
              IsOkAndHolds("longer than fif"));
  EXPECT_THAT(Ask("name", {}), IsOkAndHolds(HasSubstr("process_options")));
}

TEST_F(ProcessOptionsTest, ResourceLimits) {
  EXPECT_THAT(Ask("files", {.settings = {.limits = {{RLIMIT_NOFILE, 77, 99}}}}),
              IsOkAndHolds("77/99"));
}

TEST_F(ProcessOptionsTest, Processors) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  if (!CPU_ISSET(0, &set)) GTEST_SKIP() << "processor 0 may not be used here";
  EXPECT_THAT(Ask("cpus", {.settings = {.cpus = {0}}}), IsOkAndHolds("1 1"));
}

TEST_F(ProcessOptionsTest, BadSettingsAreToldAtTheStart) {
  EXPECT_THAT(Ask("cpus", {.settings = {.cpus = {-1}}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Ask("files", {.settings = {.limits = {{1000, 1, 1}}}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Ask("files", {.settings = {.limits = {{RLIMIT_NOFILE, 2, 1}}}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Ask("x", {.environment = {{"A=B", "c"}}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// The kernel's refusal becomes the child's error.
TEST_F(ProcessOptionsTest, SettingsThatTheKernelRefuses) {
  EXPECT_THAT(Ask("cpus", {.settings = {.cpus = {1023}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sched_setaffinity")));
}

TEST_F(ProcessOptionsTest, EnvironmentIsAddedToAndReplaced) {
  ASSERT_EQ(setenv("TENON_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(setenv("TENON_TEST_REPLACED", "before", 1), 0);
  const auto options = [] {
    return ProcessOptions{.environment = {{"TENON_TEST_REPLACED", "after"},
                                          {"TENON_TEST_ADDED", ""}}};
  };
  EXPECT_THAT(Ask("TENON_TEST_KEPT", options()), IsOkAndHolds("kept"));
  EXPECT_THAT(Ask("TENON_TEST_REPLACED", options()), IsOkAndHolds("after"));
  EXPECT_THAT(Ask("TENON_TEST_ADDED", options()), IsOkAndHolds(""));
  EXPECT_THAT(Ask("TENON_TEST_OTHER", options()), IsOkAndHolds("(none)"));
  EXPECT_STREQ(getenv("TENON_TEST_REPLACED"), "before");
}

TEST_F(ProcessOptionsTest, GroupOfItsOwnOrItsParents) {
  EXPECT_THAT(Ask("group", {}), IsOkAndHolds("own"));
  EXPECT_THAT(Ask("group", {.own_group = false}), IsOkAndHolds("parent's"));
}

TEST_F(ProcessOptionsTest, AliveUntilItEnds) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  EXPECT_TRUE(talker.process.IsAlive());
  EXPECT_FALSE(talker.process.exit_status().has_value());
  EXPECT_THAT(Ping(talker.channel), IsOk());
  EXPECT_THAT(talker.process.Terminate(), IsOk());
  EXPECT_THAT(talker.process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGTERM")));
  EXPECT_FALSE(talker.process.IsAlive());
  EXPECT_EQ(talker.process.exit_status()->signal, SIGTERM);
  EXPECT_GT(talker.process.exit_status()->peak_rss_bytes, 0);
  const Process moved = std::move(talker.process);
  // NOLINTNEXTLINE(bugprone-use-after-move): the question.
  EXPECT_FALSE(talker.process.IsAlive());
}

// ---- fork ----

int inherited = 0;

absl::Status TellInherited(Child& child) {
  return Say(child, absl::StrCat(child.index(), " ", inherited, " ",
                                 child.argument()));
}
TENON_SPAWN_ENTRY("tell-inherited", TellInherited);

bool HasOtherThreads() {
#if defined(__SANITIZE_THREAD__)
  return true;  // In its own memory.
#else
  return false;
#endif
}

TEST_F(ProcessOptionsTest, ForkedChildHasTheMemoryOfItsParent) {
  if (HasOtherThreads()) GTEST_SKIP() << "ThreadSanitizer has a thread";
  inherited = 42;
  EXPECT_THAT(AnswerOf({.entry = "tell-inherited",
                        .index = 3,
                        .argument = "x",
                        .method = StartMethod::kFork}),
              IsOkAndHolds("3 42 x"));
  EXPECT_THAT(AnswerOf({.entry = "tell-inherited"}), IsOkAndHolds("0 0 "));
  inherited = 0;
}

TEST_F(ProcessOptionsTest, ForkIsRefusedWithThreadsUnlessForced) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a fork of several threads";
#endif
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  std::thread thread(
      [&] { EXPECT_THAT(ends.first.Receive(Watchdog()), IsOk()); });
  EXPECT_THAT(
      Process::Start({.entry = "tell-inherited", .method = StartMethod::kFork}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("locks of the others would stay locked")));
  EXPECT_THAT(AnswerOf({.entry = "tell-inherited",
                        .method = StartMethod::kFork,
                        .fork_with_threads = true}),
              IsOkAndHolds("0 0 "));
  EXPECT_THAT(ends.second.Send("", {}, Watchdog()), IsOk());
  thread.join();
}

absl::Status FailForked(Child&) { return absl::NotFoundError("no image"); }
TENON_SPAWN_ENTRY("fail-forked", FailForked);

TEST_F(ProcessOptionsTest, ForkedChildReportsAndRunsNoHandlersOfItsParent) {
  if (HasOtherThreads()) GTEST_SKIP() << "ThreadSanitizer has a thread";
  // A forked child must not run this process's exit handlers.
  static bool must_not_run = false;
  atexit([] {
    if (must_not_run) _exit(99);
  });
  must_not_run = true;
  TENON_ASSERT_OK_AND_ASSIGN(
      Process child,
      Process::Start({.entry = "fail-forked", .method = StartMethod::kFork}));
  EXPECT_THAT(child.Join(Watchdog()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no image")));
  must_not_run = false;
  EXPECT_EQ(child.exit_status()->exit_code, 1);
}

absl::Status CountOwnFds(Child& child) {
  for (int fd = 100; fd < 200; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) return absl::InternalError("inherited");
  }
  return Say(child, "none");
}
TENON_SPAWN_ENTRY("count-own-fds", CountOwnFds);

TEST_F(ProcessOptionsTest, ForkedChildHasTheDescriptorsThatItWasSentOnly) {
  if (HasOtherThreads()) GTEST_SKIP() << "ThreadSanitizer has a thread";
  const UniqueFd leak(fcntl(STDERR_FILENO, F_DUPFD, 150));
  EXPECT_THAT(
      AnswerOf({.entry = "count-own-fds", .method = StartMethod::kFork}),
      IsOkAndHolds("none"));
}

std::optional<Process> of_parent;

absl::Status DropInheritedProcess(Child& child) {
  std::vector<UniqueFd> own;
  while (own.size() < 64) own.emplace_back(dup(STDERR_FILENO));
  of_parent.reset();
  for (const UniqueFd& fd : own) {
    if (fcntl(fd.get(), F_GETFD) < 0) {
      return absl::InternalError(absl::StrCat(fd.get(), " was closed"));
    }
  }
  return Say(child, "kept");
}
TENON_SPAWN_ENTRY("drop-inherited-process", DropInheritedProcess);

TEST_F(ProcessOptionsTest, ForkedChildClosesNothingForAnInheritedProcess) {
  if (HasOtherThreads()) GTEST_SKIP() << "ThreadSanitizer has a thread";
  absl::StatusOr<Process> other = Process::Start({.entry = "fail-forked"});
  ASSERT_THAT(other, IsOk());
  of_parent.emplace(*std::move(other));
  EXPECT_THAT(AnswerOf({.entry = "drop-inherited-process",
                        .method = StartMethod::kFork}),
              IsOkAndHolds("kept"));
  EXPECT_THAT(of_parent->Join(Watchdog()),
              StatusIs(absl::StatusCode::kNotFound));
  of_parent.reset();
}

}  // namespace
}  // namespace tenon::spawn
