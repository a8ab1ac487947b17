// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The supervisor is killed while it is being created, at each entry and exit of
// a system call that it or a child of it makes before exec: the parent
// continues unharmed, and nothing of the start is left.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/supervisor/program.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

// Far more than the whole test takes.
Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

absl::Status ReturnAtOnce(Child&) { return absl::OkStatus(); }
TENON_SPAWN_ENTRY("return-at-once", ReturnAtOnce);

// ---- The parent ----

// Overwrites the stack, as code after a start does.
[[gnu::noinline]] void UseStack() {
  volatile char room[64 * 1024];
  for (volatile char& one : room) one = 'A';
}

// Starts two children when told, with a heap and, for "threads", a second
// thread; reports how they ended, and whether malloc() still works.
absl::Status StartTwoWhenTold(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  std::vector<std::string> heap;
  for (int i = 0; i < 2000; ++i) heap.emplace_back(4096, 'x');
  ProcessOptions options = {.entry = "return-at-once"};
  if (child.argument() != "spawn") options.method = StartMethod::kFork;
  if (child.argument() == "threads") {
    options.fork_with_threads = true;
    std::thread([] { absl::SleepFor(absl::InfiniteDuration()); }).detach();
  }
  TENON_RETURN_IF_ERROR(test.Send("ready", {}, Watchdog()));
  TENON_RETURN_IF_ERROR(test.Receive(Watchdog()).status());
  absl::StatusOr<Processes> two = Processes::Start(2, std::move(options));
  const absl::Status how = two.ok() ? two->Join(Watchdog()) : two.status();
  heap.emplace_back(100'000, 'y');
  UseStack();
  TENON_RETURN_IF_ERROR(test.Send(how.ToString(), {}, Watchdog()));
  for (;;) pause();
}
TENON_SPAWN_ENTRY("start-two-when-told", StartTwoWhenTold);

// ---- The tracer ----

// Whether a child that has just been executed is as expected.
bool IsTenonsChild(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/cmdline"));
  const std::string words{std::istreambuf_iterator<char>(file), {}};
  return absl::StrContains(words, kChildFlag);
}

// How long children are held after the supervisor was killed: the parent should
// continue before them. Those of a fork may hold resources that the parent
// waits for.
constexpr absl::Duration kHold = absl::Milliseconds(200);

// Traces a parent through one start, and kills the supervisor at a stop of it
// or of a child of it. Stopped children then continue only once the parent has
// reported the result of the start, or after kHold.
class Tracer {
 public:
  Tracer(pid_t parent, int kill_at) : parent_(parent), kill_at_(kill_at) {}

  // False if this system forbids it.
  bool Seize() {
    return ptrace(PTRACE_SEIZE, parent_, nullptr,
                  PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEVFORK |
                      PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC) == 0;
  }

  // Runs until the parent reports the result of its start.
  absl::StatusOr<std::string> RunUntilSaid(Channel& parent) {
    const Deadline deadline = Soon();
    for (;;) {
      TakeEvents();
      const absl::StatusOr<Message> said = parent.Receive(Deadline::Passed());
      if (said.ok()) return said->bytes;
      if (!absl::IsDeadlineExceeded(said.status())) return said.status();
      if (deadline.has_passed()) {
        return absl::DeadlineExceededError("the parent hangs");
      }
      if (killed_ && held_until_.has_passed()) Release();
      absl::SleepFor(absl::Microseconds(100));
    }
  }

  // Resumes the children, and waits until they and the supervisor have ended.
  absl::Status RunUntilAllEnd() {
    Release();
    const Deadline deadline = Soon();
    for (;;) {
      TakeEvents();
      bool left = false;
      for (const auto& [pid, end] : seen_) left |= !end.HasEnded();
      if (!left) return absl::OkStatus();
      if (deadline.has_passed()) return absl::DeadlineExceededError(Left());
      absl::SleepFor(absl::Microseconds(100));
    }
  }

  void KillAll() {
    for (const auto& [pid, end] : seen_) {
      end.SendSignal(SIGKILL).IgnoreError();
    }
    RunUntilAllEnd().IgnoreError();
  }

  bool killed() const { return killed_; }
  // Children that were neither executed correctly nor ended.
  const std::string& strangers() const { return strangers_; }

 private:
  void Release() {
    released_ = true;
    for (const pid_t pid : std::exchange(held_, {})) Continue(pid, 0);
  }

  std::string Left() const {
    std::string left = "left behind:";
    for (const auto& [pid, end] : seen_) {
      if (end.HasEnded()) continue;
      absl::StrAppend(&left, " ", pid == supervisor_ ? "supervisor " : "", pid);
    }
    return left;
  }

  void TakeEvents() {
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
      if (WIFSTOPPED(status)) TakeStop(pid, status);
      if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
        absl::StrAppend(&strangers_, pid, " was killed by signal ",
                        WTERMSIG(status), "; ");
      }
    }
  }

  void TakeStop(pid_t pid, int status) {
    const int event = status >> 16;
    if (pid == parent_) {
      const int signal = WSTOPSIG(status);
      const bool pass_on = event == 0 && signal != (SIGTRAP | 0x80);
      ptrace(PTRACE_CONT, pid, nullptr, pass_on ? signal : 0);
      return;
    }
    Note(pid);
    if (event == PTRACE_EVENT_EXEC && pid != supervisor_) {
      done_.insert(pid);
      if (!IsTenonsChild(pid))
        absl::StrAppend(&strangers_, pid, " runs main() again; ");
    }
    const bool counts = !killed_ && done_.count(pid) == 0;
    if (counts && stops_++ == kill_at_) {
      seen_.at(supervisor_).SendSignal(SIGKILL).IgnoreError();
      killed_ = true;
      held_until_ = Deadline::After(kHold);
      if (pid == supervisor_) return;
    }
    if (killed_ && !released_ && pid != supervisor_ && done_.count(pid) == 0) {
      held_.insert(pid);
      return;
    }
    const int signal = event == 0 ? WSTOPSIG(status) : 0;
    Continue(pid, signal != 0 && signal != (SIGTRAP | 0x80) ? signal : 0);
  }

  // The first is the supervisor, as the parent creates no other process.
  void Note(pid_t pid) {
    if (seen_.count(pid) > 0) return;
    absl::StatusOr<PidFd> opened = PidFd::Open(pid);
    if (!opened.ok()) return;
    if (supervisor_ == 0) supervisor_ = pid;
    seen_.emplace(pid, *std::move(opened));
  }

  void Continue(pid_t pid, int signal) {
    const bool step = !released_ && done_.count(pid) == 0;
    ptrace(step ? PTRACE_SYSCALL : PTRACE_CONT, pid, nullptr, signal);
  }

  const pid_t parent_;
  const int kill_at_;
  int stops_ = 0;
  bool killed_ = false;
  Deadline held_until_ = Deadline::Never();
  bool released_ = false;
  pid_t supervisor_ = 0;
  std::map<pid_t, PidFd> seen_;
  std::set<pid_t> held_;
  std::set<pid_t> done_;
  std::string strangers_;
};

class SupervisorKillTest : public ChildTest,
                           public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ChildTest::SetUp();
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  }
  void TearDown() override {
    while (waitpid(-1, nullptr, __WALL) > 0) {
    }
    ChildTest::TearDown();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
};

// Kills the supervisor at that stop. False if there are fewer stops.
absl::StatusOr<bool> KillAtStop(const char* way, int stop) {
  TENON_ASSIGN_OR_RETURN(
      Talker parent,
      StartTalker({.entry = "start-two-when-told", .argument = way}));
  TENON_RETURN_IF_ERROR(parent.channel.Receive(Watchdog()).status());
  Tracer tracer(parent.process.pid(), stop);
  if (!tracer.Seize()) return absl::UnimplementedError("no ptrace here");
  TENON_RETURN_IF_ERROR(parent.channel.Send("go", {}, Watchdog()));
  const absl::StatusOr<std::string> said = tracer.RunUntilSaid(parent.channel);
  const absl::Status ended =
      said.ok() ? tracer.RunUntilAllEnd() : absl::OkStatus();
  if (!said.ok() || !ended.ok()) tracer.KillAll();
  parent.process.Kill().IgnoreError();
  // The kernel shows the end to the tracer first.
  while (waitpid(parent.process.pid(), nullptr, __WALL) > 0) {
  }
  parent.process.Join(Watchdog()).IgnoreError();
  TENON_RETURN_IF_ERROR(said.status());
  TENON_RETURN_IF_ERROR(ended);
  if (!tracer.strangers().empty()) {
    return absl::InternalError(
        absl::StrCat("child ", tracer.strangers(), "parent ", *said));
  }
  const bool good = tracer.killed()
                        ? *said == "OK" || absl::StrContains(*said, "killed")
                        : *said == "OK";
  if (!good) return absl::InternalError(absl::StrCat("Start(): ", *said));
  return tracer.killed();
}

TEST_P(SupervisorKillTest, TheParentIsUnharmedWhereverItIsKilled) {
  int stop = 0;
  int failures = 0;
  for (;; ++stop) {
    const absl::StatusOr<bool> killed = KillAtStop(GetParam(), stop);
    if (absl::IsUnimplemented(killed.status())) {
      GTEST_SKIP() << killed.status();
    }
    EXPECT_THAT(killed, IsOk()) << "stop " << stop;
    if (!killed.ok() && ++failures > 3) break;
    if (killed.ok() && !*killed) break;
  }
  EXPECT_GT(stop, 20) << "a supervisor makes more system calls than that";
  RecordProperty("stops", stop);
}

INSTANTIATE_TEST_SUITE_P(All, SupervisorKillTest,
                         ::testing::Values("spawn", "fork", "threads"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

}  // namespace
}  // namespace tenon::spawn
