// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The supervisor from outside: a small program that holds nothing of the
// process that created it.

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/supervisor/supervisor_image.h"
#include "tenon/spawn/supervisor/supervisor_main.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SupervisorProgramTest : public ChildTest {};

std::string Link(pid_t pid, const std::string& name) {
  std::error_code error;
  return std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/", name),
                                       error)
      .string();
}

std::vector<std::string> FdsOf(pid_t pid) {
  std::vector<std::string> fds;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", pid, "/fd"), error)) {
    fds.push_back(
        Link(pid, absl::StrCat("fd/", entry.path().filename().string())));
  }
  return fds;
}

std::string NameOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
  std::string name;
  std::getline(file, name);
  return name;
}

TEST_F(SupervisorProgramTest, HoldsNothingOfTheProcessThatMadeIt) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  EXPECT_THAT(Ping(talker.channel), IsOk());
  const pid_t supervisor = ParentPid(talker.process.pid());
  ASSERT_EQ(ParentPid(supervisor), getpid());
  // It may not have started yet.
  EXPECT_TRUE(Becomes([&] { return NameOf(supervisor) == kSupervisorName; }));
  EXPECT_TRUE(Becomes([&] { return FdsOf(supervisor).size() == 4; }));
  EXPECT_EQ(getpgid(supervisor), supervisor);
  EXPECT_EQ(Link(supervisor, "cwd"), "/");
  EXPECT_THAT(Link(supervisor, "exe"), StartsWith("/memfd:tenon-supervise"));
  // Its death pipe, the processes it watches, and the children's exits.
  EXPECT_THAT(FdsOf(supervisor),
              Each(AnyOf(StartsWith("pipe:"), HasSubstr("[pidfd]"),
                         HasSubstr("[signalfd]"))));
}

absl::Status Stay(Child&) {
  for (;;) pause();
}
TENON_SPAWN_ENTRY("stay", Stay);

TEST_F(SupervisorProgramTest, ThoseStartedTogetherShareOne) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Processes ten,
      Processes::Start(kMaxSupervised + 2, {.entry = "stay"}));
  const std::vector<pid_t> pids = ten.pids();
  const pid_t first = ParentPid(pids[0]);
  for (size_t i = 0; i < kMaxSupervised; ++i) {
    EXPECT_EQ(ParentPid(pids[i]), first) << i;
  }
  EXPECT_NE(ParentPid(pids[kMaxSupervised]), first);
  EXPECT_EQ(ParentPid(pids[kMaxSupervised]),
            ParentPid(pids[kMaxSupervised + 1]));
}

// ---- Where memory cannot be executed ----

// It is then this program from its very first instruction, and output of that
// must not reach a death pipe.
[[maybe_unused]] const ssize_t kPrinted[] = {
    write(STDOUT_FILENO, "hello\n", 6), write(STDERR_FILENO, "hello\n", 6)};

// A constructor of the program, like that of a library that takes a lock file
// or a GPU: counts its runs, if told to.
constexpr char kCountFile[] = "TENON_TEST_COUNT_FILE";
[[maybe_unused]] const bool counted = [] {
  const char* const path = getenv(kCountFile);
  if (path == nullptr) return false;
  const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  const bool written = write(fd, "x", 1) == 1;
  close(fd);
  return written;
}();

// With an argument that is too short for a memfd.
absl::Status StartThreeAndCount() {
  char path[] = "/tmp/tenon-count-XXXXXX";
  const UniqueFd file(mkostemp(path, O_CLOEXEC));
  if (!file.valid()) return absl::InternalError("mkostemp");
  setenv(kCountFile, path, 1);
  const absl::StatusOr<Processes> three =
      Processes::Start(3, {.entry = "stay", .argument = "short"});
  unsetenv(kCountFile);
  absl::Status how = three.status();
  if (how.ok()) {
    const std::string exe = Link(ParentPid(three->pids()[0]), "exe");
    if (exe != Link(getpid(), "exe")) how = absl::InternalError(exe);
    if (!Becomes([&] { return lseek(file.get(), 0, SEEK_END) >= 3; })) {
      how = absl::InternalError("no three children");
    }
    const off_t runs = lseek(file.get(), 0, SEEK_END);
    if (runs != 3) how = absl::InternalError(absl::StrCat(runs, " runs"));
  }
  unlink(path);
  return how;
}

absl::Status CountConstructors(Child& child) {
  if (child.argument() == "forbidden" &&
      !FailSystemCall({.number = SYS_memfd_create, .error = EPERM})) {
    return absl::UnimplementedError("no seccomp filter here");
  }
  SetExecuteFromMemory(child.argument() != "switched off");
  return StartThreeAndCount();
}
TENON_SPAWN_ENTRY("count-constructors", CountConstructors);

TEST_F(SupervisorProgramTest, NoConstructorRunsInASupervisor) {
  for (const char* memory : {"forbidden", "switched off"}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Process process,
        Process::Start({.entry = "count-constructors", .argument = memory}));
    const absl::Status how = process.Join(Watchdog());
    if (absl::IsUnimplemented(how)) GTEST_SKIP() << how;
    EXPECT_THAT(how, IsOk()) << memory;
  }
}

absl::Status StartWithoutMemfds(Child&) {
  if (!FailSystemCall({.number = SYS_memfd_create, .error = EPERM})) {
    return absl::UnimplementedError("no seccomp filter here");
  }
  // Descriptors that other code has opened and leaked.
  const int null = open("/dev/null", O_RDONLY);
  for (int i = 0; i < 40; ++i) {
    if (dup(null) < 0) return absl::InternalError("dup");
  }
  TENON_ASSIGN_OR_RETURN(Talker talker, StartTalker({.entry = kEcho}));
  TENON_RETURN_IF_ERROR(Ping(talker.channel));
  const pid_t supervisor = ParentPid(talker.process.pid());
  if (Link(supervisor, "exe") != Link(getpid(), "exe") ||
      !Becomes([&] { return NameOf(supervisor) == kSupervisorName; })) {
    return absl::InternalError(
        absl::StrCat("the supervisor is ", Link(supervisor, "exe")));
  }
  for (const std::string& one : FdsOf(supervisor)) {
    if (one == "/dev/null") return absl::InternalError("it holds that, too");
  }
  TENON_RETURN_IF_ERROR(talker.process.Kill());
  const absl::Status how = talker.process.Join(Watchdog());
  return absl::StrContains(how.message(), "SIGKILL") ? absl::OkStatus() : how;
}
TENON_SPAWN_ENTRY("start-without-memfds", StartWithoutMemfds);

TEST_F(SupervisorProgramTest, ThisProgramCanBeTheSupervisorToo) {
  TENON_ASSERT_OK_AND_ASSIGN(Process process,
                             Process::Start({.entry = "start-without-memfds"}));
  const absl::Status how = process.Join(Watchdog());
  if (absl::IsUnimplemented(how)) GTEST_SKIP() << how;
  EXPECT_THAT(how, IsOk());
}

// ---- The flag on a command line ----

int ExitCodeOf(const std::vector<const char*>& arguments) {
  std::vector<char*> argv = {const_cast<char*>("supervisor")};
  for (const char* one : arguments) argv.push_back(const_cast<char*>(one));
  argv.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(),
                        environ),
            0);
  int status = 0;
  EXPECT_EQ(RetryOnEintr([&] { return waitpid(pid, &status, 0); }), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(SupervisorProgramTest, IsNobodysSupervisorButItsChildrens) {
  const std::string self = absl::StrCat(getpid());
  for (const char* pid :
       {"1", "0", "-1", "x", "", "99999999999999999999", self.c_str()}) {
    EXPECT_EQ(ExitCodeOf({kSupervisorFlag, "x", "1", "0", "0", "0", pid}), 125)
        << pid;
  }
  EXPECT_EQ(ExitCodeOf({kSupervisorFlag, "x", "1", "0", "0", "999", "1"}), 125);
  EXPECT_EQ(ExitCodeOf({kSupervisorFlag, "x", "1", "0", "0", "-5", "1"}), 125);
  std::vector<const char*> many = {kSupervisorFlag, "x", "1", "0", "0", "0"};
  many.resize(many.size() + kMaxSupervised + 1, "1");
  EXPECT_EQ(ExitCodeOf(many), 125);
}

// ---- A forked child is a proper process ----

// The C library's processor number: the kernel writes it for processes that
// have registered for that.
absl::Status FollowProcessors(Child&) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0) {
    return absl::InternalError("sched_getaffinity");
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) {
      return absl::InternalError("sched_setaffinity");
    }
    if (sched_getcpu() != cpu) {
      return absl::InternalError(
          absl::StrCat("on ", cpu, " the library says ", sched_getcpu()));
    }
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("follow-processors", FollowProcessors);

TEST_F(SupervisorProgramTest, ForkedChildKnowsItsProcessor) {
  for (const StartMethod method : {StartMethod::kSpawn, StartMethod::kFork}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Process process,
        Process::Start({.entry = "follow-processors", .method = method}));
    EXPECT_THAT(process.Join(Watchdog()), IsOk());
  }
}

}  // namespace
}  // namespace tenon::spawn
