// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/testing/call_killer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/check.h"

namespace tenon {
namespace {

constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK |
                          PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                          PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;

// The process of a thread; the thread itself if it is gone.
pid_t ProcessOf(pid_t thread) {
  std::ifstream status(absl::StrCat("/proc/", thread, "/status"));
  for (std::string word; status >> word;) {
    pid_t process;
    if (word == "Tgid:" && status >> process) return process;
  }
  return thread;
}

[[noreturn]] void Become(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, 0);
  dup2(null, 1);
  dup2(null, 2);
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  raise(SIGSTOP);
  execv(argv[0], argv.data());
  _exit(127);
}

void OnAlarm(int) {}  // Ends a waitpid() that lasts too long.

// One run of the program.
class Run {
 public:
  Run(const std::vector<std::string>& arguments, uint64_t kill_at,
      absl::Duration watchdog)
      : kill_at_(kill_at), main_(fork()) {
    TENON_CHECK(main_ >= 0, "fork");
    if (main_ == 0) Become(arguments);
    int status = 0;
    TENON_CHECK(waitpid(main_, &status, 0) == main_ && WIFSTOPPED(status),
                "the program did not stop");
    TENON_CHECK(ptrace(PTRACE_SETOPTIONS, main_, nullptr, kOptions) == 0,
                "ptrace");
    alarm(static_cast<unsigned>(absl::ToInt64Seconds(watchdog)));
    threads_.insert(main_);
    Go(main_, 0);
    while (Step()) continue;
    alarm(0);
  }

  uint64_t calls() const { return calls_; }
  bool killed() const { return killed_ != 0; }
  const std::string& failure() const { return failure_; }
  absl::Duration lived_on() const {
    return killed() ? absl::Now() - killed_at_ : absl::ZeroDuration();
  }

 private:
  // False when no process is left.
  bool Step() {
    int status = 0;
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) {
      if (errno != EINTR) return false;
      GiveUp();
      return true;
    }
    if (WIFSTOPPED(status)) {
      threads_.insert(thread);
      Stopped(thread, status);
    } else {
      threads_.erase(thread);
      Ended(thread, status);
    }
    return true;
  }

  void Stopped(pid_t thread, int status) {
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      if (calls_++ == kill_at_) Kill(thread);
      return Go(thread, 0);
    }
    const bool ours = status >> 16 != 0 || signal == SIGTRAP ||
                      signal == SIGSTOP;  // Of a new process.
    Go(thread, ours ? 0 : signal);
  }

  void Go(pid_t thread, int signal) {
    const auto how = killed() || gave_up_ ? PTRACE_CONT : PTRACE_SYSCALL;
    // Fails if it has been killed meanwhile.
    ptrace(how, thread, nullptr, reinterpret_cast<void*>(long{signal}));
  }

  void Kill(pid_t thread) {
    killed_ = ProcessOf(thread);
    killed_at_ = absl::Now();
    kill(killed_, SIGKILL);
  }

  void GiveUp() {
    gave_up_ = true;
    failure_ = absl::StrCat(failure_, threads_.size(), " threads lived on; ");
    for (const pid_t thread : threads_) kill(ProcessOf(thread), SIGKILL);
    alarm(5);
  }

  void Ended(pid_t process, int status) {
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      if (signal == SIGKILL || signal == SIGTERM || signal == SIGPIPE) return;
      failure_ += absl::StrCat("process ", process == main_ ? "" : "of it ",
                               "ended by signal ", signal, "; ");
    } else if (process == main_ && WEXITSTATUS(status) > 1 &&
               WEXITSTATUS(status) != 128 + SIGKILL) {
      failure_ += absl::StrCat("exit code ", WEXITSTATUS(status), "; ");
    }
  }

  const uint64_t kill_at_;
  const pid_t main_;
  std::set<pid_t> threads_;
  uint64_t calls_ = 0;
  pid_t killed_ = 0;
  absl::Time killed_at_;
  bool gave_up_ = false;
  std::string failure_;
};

}  // namespace

std::string CallKillReport::ToString() const {
  std::string text = absl::StrCat(
      calls, " entries and exits of system calls, ", kills, " kills in ", runs,
      " runs, the survivors ended within ", absl::FormatDuration(longest), ", ",
      failures.size(), " failures");
  for (const std::string& failure : failures) {
    absl::StrAppend(&text, "\n  ", failure);
  }
  return text;
}

CallKillReport KillAtEachCall(const std::vector<std::string>& arguments,
                              const CallKillOptions& options) {
  struct sigaction action = {};
  action.sa_handler = OnAlarm;  // Without SA_RESTART.
  sigaction(SIGALRM, &action, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  CallKillReport report;
  report.calls = Run(arguments, UINT64_MAX, options.watchdog).calls();
  for (uint64_t at = options.first; at < report.calls; at += options.stride) {
    const Run run(arguments, at, options.watchdog);
    ++report.runs;
    if (!run.failure().empty()) {
      report.failures.push_back(absl::StrCat("at ", at, ": ", run.failure()));
    }
    if (report.failures.size() > 10) break;
    if (!run.killed()) continue;
    ++report.kills;
    report.longest = std::max(report.longest, run.lived_on());
  }
  return report;
}

}  // namespace tenon
