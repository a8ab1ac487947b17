// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Several children together: how they are started, joined and ended.

#include "tenon/spawn/process/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class ProcessesTest : public ChildTest {};

absl::Status Stay() {
  for (;;) pause();
}

// The argument has each child's actions, by index, separated by commas: "ok",
// "throw", "error", "abort", "exit 12", "stay", or "deaf", which ignores
// SIGTERM. A number before it is a pause in milliseconds.
absl::Status Do(std::string what, int index) {
  const size_t digits = what.find_first_not_of("0123456789");
  if (digits > 0) {
    absl::SleepFor(absl::Milliseconds(std::stoi(what.substr(0, digits))));
    what = what.substr(digits + 1);
  }
  if (what == "throw") {
    throw std::runtime_error(absl::StrCat("thrown by ", index));
  }
  if (what == "error") return absl::NotFoundError(absl::StrCat("of ", index));
  if (what == "abort") {
    std::abort();
  }
  if (what == "exit 12") _exit(12);
  if (what == "exit 0") _exit(0);
  if (what == "stop") raise(SIGSTOP);
  if (what == "stay" || what == "deaf") return Stay();
  return absl::OkStatus();
}

absl::Status DoAsTold(Child& child) {
  const std::vector<std::string> all = absl::StrSplit(child.argument(), ',');
  if (child.fd_count() == 0) {
    return Do(all[static_cast<size_t>(child.index())], child.index());
  }
  // Reports that it has begun, once it ignores SIGTERM.
  if (all[static_cast<size_t>(child.index())] == "deaf") {
    signal(SIGTERM, SIG_IGN);
  }
  TENON_ASSIGN_OR_RETURN(Channel channel, TakeChannel(child));
  TENON_RETURN_IF_ERROR(
      channel.Send(absl::StrCat(child.index()), {}, Watchdog()));
  return Do(all[static_cast<size_t>(child.index())], child.index());
}
TENON_SPAWN_ENTRY("do-as-told", DoAsTold);

absl::Status StayEntry(Child& /*child*/) { return Stay(); }
TENON_SPAWN_ENTRY("stay", StayEntry);

absl::StatusOr<Processes> StartWorkers(const std::string& what) {
  const int count =
      static_cast<int>(std::count(what.begin(), what.end(), ',')) + 1;
  return Processes::Start(count, {.entry = "do-as-told", .argument = what});
}

// The same, once all children have begun their actions.
absl::StatusOr<Processes> StartAndSee(const std::string& what) {
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  const int count =
      static_cast<int>(std::count(what.begin(), what.end(), ',')) + 1;
  ProcessOptions options = {.entry = "do-as-told", .argument = what};
  options.fds.push_back(ends.second.Release());
  TENON_ASSIGN_OR_RETURN(Processes started,
                         Processes::Start(count, std::move(options)));
  for (int i = 0; i < count; ++i) {
    TENON_RETURN_IF_ERROR(ends.first.Receive(Watchdog()).status());
  }
  return started;
}

TEST_F(ProcessesTest, AllEndWell) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes both, StartWorkers("ok,ok"));
  EXPECT_EQ(both.nprocs(), 2u);
  EXPECT_THAT(both.Join(), IsOk());
}

TEST_F(ProcessesTest, JoinMayBeCalledAgain) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes both, StartWorkers("100 ok,200 ok"));
  EXPECT_THAT(both.Join(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("2 of 2 processes still run, worker 0")));
  EXPECT_FALSE(both.joined());
  absl::Status joined = both.Join(absl::Milliseconds(1));
  while (absl::IsDeadlineExceeded(joined)) {
    joined = both.Join(absl::Milliseconds(10));
  }
  EXPECT_THAT(joined, IsOk());
  EXPECT_TRUE(both.joined());
  EXPECT_THAT(both.Join(Deadline::Passed()), IsOk());
  EXPECT_THAT(both.Join(), IsOk());
}

absl::Status SayIndex(Child& child) {
  return Say(child, absl::StrCat(child.index(), ":", getpid()));
}
TENON_SPAWN_ENTRY("say-index", SayIndex);

TEST_F(ProcessesTest, IndexAndPidOfEach) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  ProcessOptions options = {.entry = "say-index", .index = 5};
  options.fds.push_back(ends.second.Release());
  TENON_ASSERT_OK_AND_ASSIGN(Processes three,
                             Processes::Start(3, std::move(options)));
  EXPECT_THAT(three.Join(), IsOk());
  std::vector<std::string> said;
  for (int i = 0; i < 3; ++i) {
    said.push_back(ends.first.Receive(Watchdog())->bytes);
  }
  const std::vector<pid_t> pids = three.pids();
  EXPECT_THAT(said, UnorderedElementsAre(absl::StrCat("5:", pids[0]),
                                         absl::StrCat("6:", pids[1]),
                                         absl::StrCat("7:", pids[2])));
  EXPECT_EQ(three[2].index(), 7);
}

TEST_F(ProcessesTest, ExceptionOfEither) {
  for (const char* what : {"throw,1000 ok", "1000 ok,throw"}) {
    TENON_ASSERT_OK_AND_ASSIGN(Processes both, StartWorkers(what));
    const absl::Status how = both.Join();
    const int thrower = what[0] == 't' ? 0 : 1;
    EXPECT_THAT(std::string(how.message()),
                HasSubstr(absl::StrCat("thrown by ", thrower)));
    const auto raised = GetProcessRaised(how);
    ASSERT_TRUE(raised.has_value());
    EXPECT_EQ(raised->index, thrower);
    EXPECT_EQ(raised->pid, both.pids()[static_cast<size_t>(thrower)]);
    EXPECT_THAT(raised->status, StatusIs(absl::StatusCode::kInternal,
                                         HasSubstr("std::runtime_error")));
    EXPECT_EQ(both.Join(), how) << "the same answer again";
  }
}

constexpr int kOutlived = 5;
int others_end = -1;

// Ends with kOutlived once no other process has the writing end.
void OutliveTheOther() {
  pollfd end = {.fd = others_end, .events = POLLIN, .revents = 0};
  _exit(poll(&end, 1, 10'000) == 1 ? kOutlived : 6);
}

absl::Status FailAndEndLast(Child& child) {
  const UniqueFd reading = child.TakeFd(0);
  UniqueFd writing = child.TakeFd(1);
  if (child.index() != 0) {
    if (child.argument() == "deaf") signal(SIGTERM, SIG_IGN);
    return Stay();
  }
  writing.Reset();
  others_end = dup(reading.get());
  std::atexit(OutliveTheOther);
  return absl::NotFoundError("of one that ends late");
}
TENON_SPAWN_ENTRY("fail-and-end-last", FailAndEndLast);

// An error is known once it is reported, not once its child has ended.
TEST_F(ProcessesTest, OthersAreEndedBeforeTheFailedOneHasEnded) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ProcessOptions options = {.entry = "fail-and-end-last"};
  options.fds.emplace_back(ends[0]);
  options.fds.emplace_back(ends[1]);
  TENON_ASSERT_OK_AND_ASSIGN(Processes both,
                             Processes::Start(2, std::move(options)));
  const absl::Status how = both.Join(Watchdog());
  EXPECT_THAT(how, StatusIs(absl::StatusCode::kNotFound,
                            HasSubstr("of one that ends late")));
  EXPECT_EQ(both[0].exit_status()->exit_code, kOutlived);
  EXPECT_EQ(both[1].exit_status()->signal, SIGTERM);
  EXPECT_EQ(both.Join(), how) << "the same answer again";
}

// Its exit handlers run to their end, also if the others must be killed.
TEST_F(ProcessesTest, TheFailedOneIsNotKilledWithTheOthers) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ProcessOptions options = {.entry = "fail-and-end-last", .argument = "deaf"};
  options.fds.emplace_back(ends[0]);
  options.fds.emplace_back(ends[1]);
  TENON_ASSERT_OK_AND_ASSIGN(Processes both,
                             Processes::Start(2, std::move(options)));
  EXPECT_THAT(both.Join(Watchdog(), absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(both[0].exit_status()->exit_code, kOutlived);
  // It may have ended before it ignored SIGTERM.
  EXPECT_NE(both[1].exit_status()->signal, 0);
}

// Upstream accepts either; here the one that failed first is the answer.
TEST_F(ProcessesTest, FirstFailureByItsRecordIsTheAnswer) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes two,
                             StartAndSee("200 error,20 throw,400 error"));
  // Joined only after all have failed.
  for (size_t i = 0; i < two.nprocs(); ++i) {
    pollfd ended = {.fd = two[i].end_fd(), .events = POLLIN, .revents = 0};
    ASSERT_THAT(PollUntil({&ended, 1}, Watchdog()), IsOk());
  }
  EXPECT_THAT(two.Join(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("thrown by 1")));
}

TEST_F(ProcessesTest, AbortByItsName) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes both, StartWorkers("abort,stay"));
  const absl::Status how = both.Join();
  EXPECT_THAT(how, StatusIs(absl::StatusCode::kAborted,
                            HasSubstr("killed by signal 6 (SIGABRT)")));
  const auto exited = GetProcessExited(how);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->index, 0);
  EXPECT_EQ(exited->signal, SIGABRT);
  EXPECT_EQ(exited->signal_name, "SIGABRT");
  EXPECT_EQ(exited->exit_code, -1);
  EXPECT_GT(exited->peak_rss_bytes, 0);
  EXPECT_FALSE(GetProcessRaised(how).has_value());
}

TEST_F(ProcessesTest, ExitCodeIsCarried) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes both, StartWorkers("exit 12,stay"));
  const auto exited = GetProcessExited(both.Join());
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->exit_code, 12);
  EXPECT_EQ(exited->signal, 0);
  EXPECT_EQ(exited->signal_name, "");
}

TEST_F(ProcessesTest, ExitWithZeroBeforeTheEntryReturnsIsSuccess) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes both, StartWorkers("exit 0,exit 12"));
  const auto exited = GetProcessExited(both.Join());
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->index, 1);
  EXPECT_EQ(exited->exit_code, 12);
}

// The inode of the memory that contains its argument.
uint64_t InodeOfArgument() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!absl::StrContains(line, "tenon-argument")) continue;
    unsigned long inode = 0;
    std::sscanf(line.c_str(), "%*s %*s %*s %*s %lu", &inode);
    return inode;
  }
  return 0;
}

absl::Status TellInodeOfArgument(Child& child) {
  const absl::string_view argument = child.argument_view();
  if (argument.size() != size_t{10} << 20 || argument[12345] != 'x') {
    return absl::DataLossError("another argument");
  }
  const uint64_t inode = InodeOfArgument();
  const UniqueFd told = child.TakeFd(0);
  if (write(told.get(), &inode, sizeof(inode)) != sizeof(inode)) {
    return absl::InternalError("write");
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("tell-inode-of-argument", TellInodeOfArgument);

TEST_F(ProcessesTest, ALongArgumentIsStoredOnceForAll) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd told(ends[0]);
  ProcessOptions options = {.entry = "tell-inode-of-argument",
                            .argument = std::string(size_t{10} << 20, 'x')};
  options.fds.emplace_back(ends[1]);
  TENON_ASSERT_OK_AND_ASSIGN(Processes all,
                             Processes::Start(9, std::move(options)));
  EXPECT_THAT(all.Join(Watchdog()), IsOk());
  std::set<uint64_t> inodes;
  for (int i = 0; i < 9; ++i) {
    uint64_t inode = 0;
    ASSERT_EQ(read(told.get(), &inode, sizeof(inode)), ssize_t{sizeof(inode)});
    inodes.insert(inode);
  }
  EXPECT_EQ(inodes.size(), 1u);
  EXPECT_EQ(inodes.count(0), 0u);
}

TEST_F(ProcessesTest, KilledFromOutside) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes one, StartWorkers("stay"));
  EXPECT_THAT(one[0].Terminate(), IsOk());
  const auto exited = GetProcessExited(one.Join());
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->signal_name, "SIGTERM");
}

TEST_F(ProcessesTest, SuccessFirstThenException) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes both, StartWorkers("ok,100 throw"));
  EXPECT_THAT(both.Join(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("thrown by 1")));
}

TEST_F(ProcessesTest, EndsInAnyOrderAreSeenAtOnce) {
  // If they were joined in order, worker 0 would block Join() forever.
  TENON_ASSERT_OK_AND_ASSIGN(Processes all,
                             StartWorkers("stay,stay,stay,error"));
  const absl::Status how = all.Join(Watchdog());
  EXPECT_THAT(how, StatusIs(absl::StatusCode::kNotFound, HasSubstr("of 3")));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].exit_status()->signal, SIGTERM);
  }
}

TEST_F(ProcessesTest, WithAGracePeriodTheOthersMayEndByThemselves) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes all,
                             StartAndSee("error,300 ok,300 exit 12"));
  const absl::Status how = all.Join(Deadline::Never(), absl::Seconds(60));
  EXPECT_THAT(how, StatusIs(absl::StatusCode::kNotFound, HasSubstr("of 0")));
  EXPECT_TRUE(all[1].exit_status()->success());
  EXPECT_EQ(all[2].exit_status()->exit_code, 12);
}

TEST_F(ProcessesTest, GracePeriodThenTermThenAgainThenKill) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes all,
                             StartAndSee("error,stay,deaf,deaf,stop"));
  const absl::Duration grace = absl::Milliseconds(300);
  const absl::Time begin = absl::Now();
  EXPECT_THAT(all.Join(Deadline::Never(), grace),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_GE(absl::Now() - begin, 2 * grace);
  EXPECT_EQ(all[1].exit_status()->signal, SIGTERM);
  EXPECT_EQ(all[2].exit_status()->signal, SIGKILL);
  EXPECT_EQ(all[3].exit_status()->signal, SIGKILL);
  EXPECT_EQ(all[4].exit_status()->signal, SIGKILL) << "it was stopped";
}

TEST_F(ProcessesTest, NoGraceAtAllIsAGracePeriodToo) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes all, StartAndSee("error,deaf"));
  EXPECT_THAT(all.Join(Deadline::Never(), absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kNotFound));
  // Its own end: it flushes its output and runs its exit handlers.
  EXPECT_EQ(all[0].exit_status()->exit_code, EXIT_FAILURE);
  EXPECT_EQ(all[1].exit_status()->signal, SIGKILL);
}

TEST_F(ProcessesTest, KillReachesAllThatRun) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes all, StartWorkers("ok,stay,stay"));
  pollfd ended = {.fd = all[0].end_fd(), .events = POLLIN, .revents = 0};
  ASSERT_THAT(PollUntil({&ended, 1}, Watchdog()), IsOk());
  EXPECT_THAT(all.Join(absl::Milliseconds(200)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("still run, worker 1")));
  EXPECT_THAT(all.Kill(SIGUSR1), IsOk());
  const auto exited = GetProcessExited(all.Join());
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->signal_name, "SIGUSR1");
}

TEST_F(ProcessesTest, DroppedWithoutJoinLeavesNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes all, StartWorkers("stay,ok,error,deaf"));
}

TEST_F(ProcessesTest, WithoutKillOnDropItIsWaitedFor) {
  {
    ProcessOptions options = {
        .entry = "do-as-told", .argument = "200 ok", .kill_on_drop = false};
    TENON_ASSERT_OK_AND_ASSIGN(Processes one,
                               Processes::Start(1, std::move(options)));
  }
  EXPECT_FALSE(HasChildren());
}

TEST_F(ProcessesTest, SeveralFunctionsHaveOneFate) {
  const auto start = [](const char* what) {
    return Process::Start({.entry = "do-as-told", .argument = what});
  };
  TENON_ASSERT_OK_AND_ASSIGN(Process first, start("ok"));
  TENON_ASSERT_OK_AND_ASSIGN(
      Process second,
      Process::Start({.entry = "say-index", .index = 5, .fds = {}}));
  const std::vector<pid_t> pids = {first.pid(), second.pid()};
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes both, Processes::Of(std::move(first), std::move(second)));
  EXPECT_EQ(both.pids(), pids);
  EXPECT_EQ(both[1].index(), 5);
  EXPECT_FALSE(both.joined());
  // The second has no descriptor to say anything with; it does not stay.
  EXPECT_FALSE(both.Join().ok());
  EXPECT_TRUE(both.joined());

  TENON_ASSERT_OK_AND_ASSIGN(Process fails, start("error"));
  TENON_ASSERT_OK_AND_ASSIGN(Process stays, start("stay"));
  TENON_ASSERT_OK_AND_ASSIGN(Processes all,
                             Processes::Of(std::move(stays), std::move(fails)));
  EXPECT_THAT(all.Join(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(HasChildren());

  // One that has been joined before.
  TENON_ASSERT_OK_AND_ASSIGN(Process done, start("ok"));
  ASSERT_THAT(done.Join(Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Process last, start("ok"));
  TENON_ASSERT_OK_AND_ASSIGN(Processes rest,
                             Processes::Of(std::move(done), std::move(last)));
  EXPECT_THAT(rest.Join(), IsOk());

  EXPECT_THAT(Processes::Of(std::vector<Process>()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // NOLINTNEXTLINE(bugprone-use-after-move): the question.
  EXPECT_THAT(Processes::Of(std::move(done)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("child 0 of 1 has been moved from")));
}

TEST_F(ProcessesTest, AKilledFunctionEndsTheOthers) {
  const auto start = [](const char* what, int index) {
    return Process::Start(
        {.entry = "do-as-told", .index = index, .argument = what});
  };
  TENON_ASSERT_OK_AND_ASSIGN(Process killed, start("stay", 0));
  TENON_ASSERT_OK_AND_ASSIGN(Process stays, start("-,stay", 1));
  TENON_ASSERT_OK_AND_ASSIGN(Process other,
                             Process::Start({.entry = "stay", .index = 7}));
  const pid_t pid = killed.pid();
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes all,
      Processes::Of(std::move(stays), std::move(other), std::move(killed)));
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  const absl::Status how = all.Join(Watchdog());
  EXPECT_THAT(how, StatusIs(absl::StatusCode::kAborted,
                            HasSubstr(absl::StrCat("pid ", pid))));
  const auto exited = GetProcessExited(how);
  ASSERT_TRUE(exited.has_value()) << how;
  EXPECT_EQ(exited->signal, SIGKILL);
  EXPECT_TRUE(all.joined());
  EXPECT_FALSE(HasChildren());
}

TEST_F(ProcessesTest, EachIsDroppedByItsOwnOptions) {
  TENON_ASSERT_OK_AND_ASSIGN(Process waited,
                             Process::Start({.entry = "do-as-told",
                                             .argument = "200 ok",
                                             .kill_on_drop = false}));
  TENON_ASSERT_OK_AND_ASSIGN(
      Process killed,
      Process::Start({.entry = "do-as-told", .argument = "stay"}));
  {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Processes both,
        Processes::Of(std::move(waited), std::move(killed)));
  }
  EXPECT_FALSE(HasChildren());
}

TEST_F(ProcessesTest, AssignedToEndsWhatItWas) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes one, StartWorkers("stay"));
  TENON_ASSERT_OK_AND_ASSIGN(Processes other, StartWorkers("ok"));
  one = std::move(other);
  EXPECT_THAT(one.Join(), IsOk());
  EXPECT_THAT(other.Join(),  // NOLINT(bugprone-use-after-move): the question.
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ProcessesTest, BadStarts) {
  EXPECT_THAT(Processes::Start(0, {.entry = "do-as-told"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Processes::Start(2, {.entry = "no such"}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot start worker 0 (entry 'no such')")));
}

// Whichever start of the five fails, the earlier children are gone.
TEST_F(ProcessesTest, StartThatFailsHalfWayLeavesNothing) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  // So many that the limit of descriptors in flight is not the one that fails.
  std::vector<UniqueFd> taken;
  for (int i = 0; i < 2000; ++i) taken.emplace_back(dup(STDERR_FILENO));
  const rlim_t used = CountOpenFds();
  int failed = 0;
  for (rlim_t more = 1; more < 40; ++more) {
    const rlimit low = {used + more, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    const absl::Status started =
        StartWorkers("stay,stay,stay,stay,stay").status();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_FALSE(HasChildren()) << more;
    ASSERT_EQ(CountOpenFds(), used) << more;
    if (started.ok()) break;
    EXPECT_THAT(started, StatusIs(absl::StatusCode::kResourceExhausted));
    ++failed;
  }
  EXPECT_GT(failed, 5);
  EXPECT_LT(failed, 39) << "it never succeeded";
}

TEST_F(ProcessesTest, ManyDescriptorsForMany) {
  ProcessOptions options = {.entry = "count-fds"};
  for (int i = 0; i < 300; ++i) options.fds.emplace_back(dup(STDERR_FILENO));
  TENON_ASSERT_OK_AND_ASSIGN(Processes all,
                             Processes::Start(3, std::move(options)));
  EXPECT_THAT(all.Join(), IsOk());
}

absl::Status CountFds(Child& child) {
  return child.fd_count() == 300 ? absl::OkStatus()
                                 : absl::InternalError("not 300");
}
TENON_SPAWN_ENTRY("count-fds", CountFds);

}  // namespace
}  // namespace tenon::spawn
