// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/guardian_main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

namespace tenon::spawn {
namespace {

// ---- System calls ----

// Returns -errno on failure.
long Call(long number, long a = 0, long b = 0, long c = 0, long d = 0,
          long e = 0) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                   : "memory");
  return x0;
#else
#error "the guardian knows the system calls of x86-64 and of AArch64 only"
#endif
}

long Address(const void* pointer) { return reinterpret_cast<long>(pointer); }
// Of what the kernel writes.
long Address(void* pointer) { return reinterpret_cast<long>(pointer); }

[[noreturn]] void Exit(int code) {
  for (;;) Call(SYS_exit_group, code);
}

long Kill(int pid, int signal) { return Call(SYS_kill, pid, signal); }

// CLOCK_MONOTONIC in milliseconds.
long NowMs() {
  timespec now;
  Call(SYS_clock_gettime, CLOCK_MONOTONIC, Address(&now));
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// Blocks for at most `timeout_ms`; -1: until something happens.
void Poll(pollfd* fds, int count, long timeout_ms) {
  timespec timeout;
  timeout.tv_sec = timeout_ms / 1000;
  timeout.tv_nsec = timeout_ms % 1000 * 1'000'000;
  Call(SYS_ppoll, Address(fds), count, timeout_ms < 0 ? 0 : Address(&timeout));
}

// The kernel's own set of signals, which is not the C library's.
using SignalSet = unsigned long;
constexpr SignalSet SetOf(int signal) { return SignalSet{1} << (signal - 1); }

// ---- Words ----

// -1 for a negative number, and for what is none.
long Parse(const char* word) {
  long number = 0;
  if (*word == '\0') return -1;
  for (; *word != '\0'; ++word) {
    if (*word < '0' || *word > '9' || number > 1'000'000'000'000) return -1;
    number = number * 10 + (*word - '0');
  }
  return number;
}

char* Append(char* end, const char* word) {
  while (*word != '\0') *end++ = *word++;
  *end = '\0';
  return end;
}

char* AppendNumber(char* end, int number) {
  char digits[12];
  int count = 0;
  for (; number > 0; number /= 10) {
    digits[count++] = static_cast<char>('0' + number % 10);
  }
  while (count > 0) *end++ = digits[--count];
  *end = '\0';
  return end;
}

// Reads the beginning of a file. Returns how much that is; 0 if there is none.
long ReadFile(const char* path, char* buffer, long size) {
  const long fd =
      Call(SYS_openat, AT_FDCWD, Address(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const long got = Call(SYS_read, fd, Address(buffer), size);
  Call(SYS_close, fd);
  return got < 0 ? 0 : got;
}

// Whether a file of a process in /proc begins with a guardian's name and `end`.
bool BeginsWithName(int pid, const char* file, char end) {
  char path[40];
  Append(AppendNumber(Append(path, "/proc/"), pid), file);
  char name[32];
  const long size = ReadFile(path, name, sizeof(name));
  constexpr long kSize = sizeof(kGuardianName) - 1;
  if (size < kSize + 1 || name[kSize] != end) return false;
  for (long i = 0; i < kSize; ++i) {
    if (name[i] != kGuardianName[i]) return false;
  }
  return true;
}

// Guardians see by themselves that those have died whom they watch, and give
// their children the grace that those were started with. The first is its name
// but for the time between exec and its first instruction.
bool IsGuardian(int pid) {
  return BeginsWithName(pid, "/comm", '\n') ||
         BeginsWithName(pid, "/cmdline", '\0');
}

// ---- The guardian ----

// How long it is waited for descendants that have been killed and do not die:
// the kernel holds them. They die once it lets go of them.
constexpr long kSweepMs = 2000;

// Who is not known to be a guardian is killed only if that is still so after
// this time: it may be one that is just being executed.
constexpr long kSecondLookMs = 5;
constexpr int kMaxStrangers = 256;

// After this time of sweeping it is killed at first sight: one that lives on in
// a child, and that in another, is never seen twice.
constexpr long kFirstSightMs = 200;

struct Charge {
  int pid;
  bool ended;
  bool told;
  GuardianReport report;
};

class Guardian {
 public:
  // Ends the process if the arguments are wrong.
  Guardian(int argc, const char* const* argv) {
    count_ = argc - kGuardianFirstChildArgument;
    if (count_ < 1 || count_ > kMaxGuarded) Exit(125);
    const long elders = Parse(argv[kGuardianEldersArgument]);
    if (elders < 0 || elders > kMaxGuardianElders) Exit(125);
    leads_group_ = Parse(argv[kGuardianGroupArgument]) == 1;
    grace_ms_ = Parse(argv[kGuardianGraceArgument]);
    for (int i = 0; i < count_; ++i) {
      TakeCharge(Parse(argv[kGuardianFirstChildArgument + i]), &charges_[i]);
    }
    for (int i = 0; i < elders; ++i) {
      PollAt(1 + i, GuardianFirstElder(count_) + i);
    }
    fd_count_ = 1 + static_cast<int>(elders);
    const SignalSet ends = SetOf(SIGCHLD);
    const long fd = Call(SYS_signalfd4, -1, Address(&ends), sizeof(ends),
                         O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) Exit(125);
    PollAt(0, static_cast<int>(fd));
  }

  // Until all children have ended; tells how, but for the last of them.
  void Watch() {
    for (;;) {
      Reap();
      if (running_ == 0) return;
      Tell();
      Poll(fds_, fd_count_, MsToWait());
      if (!orphaned_ && HasElderEnded()) BecomeOrphaned();
      if (orphaned_ && !killed_ && MsToWait() == 0) {
        killed_ = true;
        Signal(SIGKILL, false);
      }
    }
  }

  // Ends whatever the children have left behind. Those who have lost their
  // parent are this process's children; killing one brings its children up.
  void Sweep() {
    // What they have started may outlive them, but not those who started them.
    if (!leads_group_ && !orphaned_) return;
    const long begin = NowMs();
    for (int quiet = 0; quiet < 2 && NowMs() - begin < kSweepMs;) {
      Reap();
      if (!has_children_) return;
      // Once could be a list that has just changed.
      quiet = KillStrangers(NowMs() - begin >= kFirstSightMs) ? 0 : quiet + 1;
      Poll(fds_, 1, quiet == 0 ? kSecondLookMs : 1);
    }
  }

  // How those have ended of whom that was not told.
  void Tell() {
    for (int i = 0; i < count_; ++i) {
      Charge& charge = charges_[i];
      if (!charge.ended || charge.told) continue;
      charge.told = true;
      Call(SYS_write, GuardianWritingEnd(i), Address(&charge.report),
           sizeof(charge.report));
    }
  }

 private:
  void TakeCharge(long pid, Charge* charge) {
    siginfo_t info;
    if (pid <= 0 || Call(SYS_waitid, P_PID, pid, Address(&info),
                         WEXITED | WNOHANG | WNOWAIT) < 0) {
      Exit(125);
    }
    charge->pid = static_cast<int>(pid);
    charge->ended = false;
    charge->told = false;
    ++running_;
  }

  void PollAt(int index, int fd) {
    fds_[index].fd = fd;
    fds_[index].events = POLLIN;
    fds_[index].revents = 0;  // As it stays if the kernel cannot poll.
  }

  long MsToWait() const {
    if (!orphaned_ || killed_ || grace_ms_ < 0) return -1;
    const long left = deadline_ms_ - NowMs();
    return left > 0 ? left : 0;
  }

  bool HasElderEnded() const {
    for (int i = 1; i < fd_count_; ++i) {
      if ((fds_[i].revents & POLLIN) != 0) return true;
    }
    return false;
  }

  void BecomeOrphaned() {
    orphaned_ = true;
    deadline_ms_ = NowMs() + grace_ms_;
    fd_count_ = 1;
    // One that is stopped can use its grace, too.
    Signal(SIGCONT, leads_group_);
  }

  void Signal(int signal, bool group) {
    for (int i = 0; i < count_; ++i) {
      const int pid = charges_[i].pid;
      if (!charges_[i].ended) Kill(group ? -pid : pid, signal);
    }
  }

  // Those of all who have ended.
  void Reap() {
    char ignored[8 * 128];
    while (Call(SYS_read, fds_[0].fd, Address(ignored), sizeof(ignored)) > 0) {
    }
    for (;;) {
      siginfo_t info;
      info.si_pid = 0;
      has_children_ = Call(SYS_waitid, P_ALL, 0, Address(&info),
                           WEXITED | WNOHANG | WNOWAIT) != -ECHILD;
      if (!has_children_ || info.si_pid == 0) return;
      if (!ReapOne(info.si_pid)) return;
    }
  }

  bool ReapOne(int pid) {
    Charge* const charge = Find(pid);
    // While it is not reaped, its number is its group's and nobody else's.
    if (charge != nullptr && leads_group_) Kill(-pid, SIGKILL);
    int status = 0;
    rusage usage;
    if (Call(SYS_wait4, pid, Address(&status), WNOHANG, Address(&usage)) <= 0) {
      return false;
    }
    if (charge == nullptr) return true;
    charge->ended = true;
    charge->report.wait_status = status;
    charge->report.reserved = 0;
    charge->report.peak_rss_kib = usage.ru_maxrss;
    --running_;
    return true;
  }

  // Among those who have not ended: a number may come again.
  Charge* Find(int pid) {
    for (int i = 0; i < count_; ++i) {
      if (charges_[i].pid == pid && !charges_[i].ended) return &charges_[i];
    }
    return nullptr;
  }

  // Kills those among this process's children who are no guardians, if they
  // were there at the look before, too, or `at_first_sight`. Whether there are
  // any; those who have become another user's, and cannot be killed, do not
  // count.
  bool KillStrangers(bool at_first_sight) {
    char list[4096];
    const long size =
        ReadFile("/proc/thread-self/children", list, sizeof(list));
    const bool second = NowMs() - looked_ms_ >= kSecondLookMs;
    int found[kMaxStrangers];
    int count = 0;
    int pid = 0;
    // A number that is cut off comes again.
    for (long i = 0; i < size && count < kMaxStrangers; ++i) {
      if (list[i] >= '0' && list[i] <= '9') {
        pid = pid * 10 + (list[i] - '0');
        continue;
      }
      const bool doomed = at_first_sight || (second && WasStranger(pid));
      if (pid > 0 && !IsGuardian(pid) && Kill(pid, doomed ? SIGKILL : 0) == 0) {
        found[count++] = pid;
      }
      pid = 0;
    }
    if (second) {
      looked_ms_ = NowMs();
      stranger_count_ = count;
      for (int i = 0; i < count; ++i) strangers_[i] = found[i];
    }
    return count > 0;
  }

  bool WasStranger(int pid) const {
    for (int i = 0; i < stranger_count_; ++i) {
      if (strangers_[i] == pid) return true;
    }
    return false;
  }

  Charge charges_[kMaxGuarded];
  int count_;
  int running_ = 0;
  bool leads_group_;
  long grace_ms_;
  // Ends of children, then elders.
  pollfd fds_[1 + kMaxGuardianElders];
  int fd_count_;
  bool orphaned_ = false;
  long deadline_ms_ = 0;
  bool killed_ = false;
  bool has_children_ = true;
  // Seen at the last look.
  long looked_ms_ = 0;
  int stranger_count_ = 0;
  int strangers_[kMaxStrangers];
};

}  // namespace

[[noreturn]] void GuardianMain(int argc, const char* const* argv) {
  Call(SYS_prctl, PR_SET_NAME, Address(kGuardianName));
  Guardian guardian(argc, argv);
  guardian.Watch();
  guardian.Sweep();
  guardian.Tell();
  Exit(0);
}

}  // namespace tenon::spawn
