// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/supervisor/supervisor_main.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "tenon/shm/process/keeper_name.h"

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
#error "the supervisor knows the system calls of x86-64 and of AArch64 only"
#endif
}

long Address(const void* pointer) { return reinterpret_cast<long>(pointer); }
// The address of a buffer that the kernel writes.
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

// Blocks for at most `timeout_ms`; -1: without limit.
void Poll(pollfd* fds, int count, long timeout_ms) {
  timespec timeout;
  timeout.tv_sec = timeout_ms / 1000;
  timeout.tv_nsec = timeout_ms % 1000 * 1'000'000;
  Call(SYS_ppoll, Address(fds), count, timeout_ms < 0 ? 0 : Address(&timeout));
}

// The kernel's own signal set, which differs from the C library's.
using SignalSet = unsigned long;
constexpr SignalSet SetOf(int signal) { return SignalSet{1} << (signal - 1); }

// Runs `run`, which must not return, in a child that shares this process's
// memory and has a stack of its own below `stack_end`. Blocks until the child
// has executed a program or ended. Returns its pid, or -errno.
long Vfork(void (*run)(void*), void* argument, char* stack_end) {
  constexpr long kFlags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  long* top = reinterpret_cast<long*>(stack_end);
  *--top = Address(argument);
  *--top = reinterpret_cast<long>(run);
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = 0;
  register long r8 __asm__("r8") = 0;
  __asm__ volatile(
      "syscall\n"
      "  test %%rax, %%rax\n"
      "  jnz 1f\n"
      "  xor %%ebp, %%ebp\n"
      "  pop %%rax\n"
      "  pop %%rdi\n"
      "  call *%%rax\n"
      "  ud2\n"
      "1:\n"
      : "=a"(result)
      : "a"(SYS_clone), "D"(kFlags), "S"(top), "d"(0), "r"(r10), "r"(r8)
      : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = SYS_clone;
  register long x0 __asm__("x0") = kFlags;
  register long x1 __asm__("x1") = Address(top);
  register long x2 __asm__("x2") = 0;
  register long x3 __asm__("x3") = 0;
  register long x4 __asm__("x4") = 0;
  __asm__ volatile(
      "svc 0\n"
      "  cbnz x0, 1f\n"
      "  mov x29, #0\n"
      "  ldp x1, x0, [sp], #16\n"
      "  blr x1\n"
      "  brk #1\n"
      "1:\n"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory");
  return x0;
#endif
}

// The kernel's struct sigaction, with a signal set of 8 bytes.
constexpr long kSignalSetSize = 8;
struct SignalAction {
  long handler;
  unsigned long flags;
  long restorer;
  unsigned long mask;
};

// ---- Strings and /proc ----

// -1 for a negative or malformed number.
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

// Reads the beginning of a file. Returns the number of bytes; 0 on failure.
long ReadFile(const char* path, char* buffer, long size) {
  const long fd =
      Call(SYS_openat, AT_FDCWD, Address(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const long got = Call(SYS_read, fd, Address(buffer), size);
  Call(SYS_close, fd);
  return got < 0 ? 0 : got;
}

// Whether this file of the process in /proc begins with a supervisor's name and
// `end`.
bool BeginsWithName(int pid, const char* file, char end) {
  char path[40];
  Append(AppendNumber(Append(path, "/proc/"), pid), file);
  char name[32];
  const long size = ReadFile(path, name, sizeof(name));
  constexpr long kSize = sizeof(kSupervisorName) - 1;
  if (size < kSize + 1 || name[kSize] != end) return false;
  for (long i = 0; i < kSize; ++i) {
    if (name[i] != kSupervisorName[i]) return false;
  }
  return true;
}

// A process has a pid in its own pid namespace and in each outer one.
constexpr int kMaxPidNamespaces = 33;

// The characters of a file of any length.
class FileReader {
 public:
  explicit FileReader(const char* path)
      : fd_(Call(SYS_openat, AT_FDCWD, Address(path), O_RDONLY | O_CLOEXEC)) {}
  ~FileReader() {
    if (fd_ >= 0) Call(SYS_close, fd_);
  }
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // -1 at the end.
  int Next() {
    if (at_ == size_) {
      at_ = 0;
      size_ =
          fd_ < 0 ? 0 : Call(SYS_read, fd_, Address(bytes_), sizeof(bytes_));
      if (size_ <= 0) {
        size_ = 0;
        return -1;
      }
    }
    return static_cast<unsigned char>(bytes_[at_++]);
  }

 private:
  const long fd_;
  char bytes_[1024];
  long at_ = 0;
  long size_ = 0;
};

// Reads the pids of a process from its status file, from the pid namespace of
// /proc down to the process's own. Returns their number. The line of the
// groups, which comes before, may have any length.
int ReadPids(const char* path, int* pids) {
  FileReader status(path);
  constexpr char kLine[] = "\nNSpid:";
  constexpr long kLineSize = sizeof(kLine) - 1;
  int next = status.Next();
  for (long matched = 0; next >= 0 && matched < kLineSize;
       next = status.Next()) {
    matched = next == kLine[matched] ? matched + 1 : next == '\n';
  }
  int count = 0;
  while (next == '\t' && count < kMaxPidNamespaces) {
    int pid = 0;
    for (next = status.Next(); next >= '0' && next <= '9';
         next = status.Next()) {
      pid = pid * 10 + (next - '0');
    }
    pids[count++] = pid;
  }
  return count;
}

// The pid in this pid namespace of a child whose pid in /proc is `shown`: /proc
// may belong to an outer namespace. 0 if it has none.
int PidHere(int shown) {
  int pids[kMaxPidNamespaces];
  const int own = ReadPids("/proc/thread-self/status", pids);
  if (own <= 1) return shown;
  char path[40];
  Append(AppendNumber(Append(path, "/proc/"), shown), "/status");
  return ReadPids(path, pids) >= own ? pids[own - 1] : 0;
}

// Nested supervisors notice the same deaths themselves, and give their children
// the grace period that those were started with. comm has the supervisor's name
// except between exec and the first instruction.
bool IsSupervisor(int pid) {
  return BeginsWithName(pid, "/comm", '\n') ||
         BeginsWithName(pid, "/cmdline", '\0');
}

// Whether the process must outlive its starter (keeper.h).
bool IsKeeper(int pid) {
  char path[40];
  Append(AppendNumber(Append(path, "/proc/"), pid), "/comm");
  char name[32];
  const long size = ReadFile(path, name, sizeof(name));
  int pids[kMaxPidNamespaces];
  Append(AppendNumber(Append(path, "/proc/"), pid), "/status");
  const int count = ReadPids(path, pids);
  // A kernel without pid namespaces has no such line.
  const int own = count > 0 ? pids[count - 1] : pid;
  char wanted[32];
  char* end = Append(wanted, kKeeperName);
  end = Append(AppendNumber(end, own), "\n");
  if (size != end - wanted) return false;
  for (long i = 0; i < size; ++i) {
    if (name[i] != wanted[i]) return false;
  }
  return true;
}

// ---- The supervisor ----

// How often it retries while the user has too many descriptors in flight, and
// the pause between two attempts.
constexpr int kInFlightTries = 10'000;
constexpr long kNapMs = 1;

// How long it waits for killed descendants that do not die: the kernel delays
// them. A process that the scheduler starves looks this many times at least.
constexpr long kSweepMs = 2000;
constexpr int kSweepLooks = 400;

// A process that is not known to be a supervisor is killed only if it still is
// not after this time: it may be just being executed.
constexpr long kSecondLookMs = 5;
constexpr int kMaxStrays = 256;

constexpr long kMaxPid = 1 << 30;

// After this time of sweeping, stray descendants are killed when first seen:
// one that keeps forking and exiting is never seen twice.
constexpr long kFirstSightMs = 200;

struct SupervisedProcess {
  int pid;
  bool ended;
  bool reported;
  SupervisorReport report;
};

class Supervisor {
 public:
  // Ends the process if the arguments are wrong.
  Supervisor(int argc, const char* const* argv)
      : argv_(argv), environment_(argv + argc + 1) {
    count_ = argc - kSupervisorFirstChildArgument;
    if (count_ < 1 || count_ > kMaxSupervised) Exit(125);
    const long ancestors = Parse(argv[kSupervisorAncestorsArgument]);
    if (ancestors < 0 || ancestors > kMaxSupervisorAncestors) Exit(125);
    ancestor_count_ = static_cast<int>(ancestors);
    leads_group_ = Parse(argv[kSupervisorGroupArgument]) == 1;
    grace_ms_ = Parse(argv[kSupervisorGraceArgument]);
    for (int i = 0; i < count_; ++i) {
      const long pid = Parse(argv[kSupervisorFirstChildArgument + i]);
      if (pid < 0 || pid > kMaxPid) Exit(125);
      children_[i].pid = static_cast<int>(pid);
      children_[i].ended = false;
      children_[i].reported = false;
    }
  }

  // Creates the children that do not exist yet, and reports all to the parent.
  // On failure reports the error, and ends the process, with all children.
  void Begin() {
    PrepareSelf();
    SpawnReport report = {};
    report.self = static_cast<int>(Call(SYS_getpid));
    int pid_fds[kMaxSupervised];
    report.error = MakeAll(report);
    if (report.error == 0) report.error = OpenFds(report.call, pid_fds);
    if (report.error == 0) {
      // Before the parent continues: from then on it may be killed, together
      // with its group.
      LeaveTheParent();
      report.call = kSend;
      report.error = SendReport(report, pid_fds, count_);
    }
    if (report.error != 0) {
      SendReport(report, pid_fds, 0);
      KillAndReapAll();
      Exit(125);
    }
    for (int i = 0; i < count_; ++i) Call(SYS_close, pid_fds[i]);
    CloseWhatWasTheParents();
  }

  // Watches until all children have ended; reports each exit, except the last.
  void Watch() {
    for (;;) {
      Reap();
      if (running_ == 0) return;
      ReportExits();
      Poll(fds_, fd_count_, MsToWait());
      if (!orphaned_ && HasAncestorEnded()) BecomeOrphaned();
      if (orphaned_ && !killed_ && MsToWait() == 0) {
        killed_ = true;
        Signal(SIGKILL, false);
      }
    }
  }

  // Kills all stray descendants. Processes that have lost their parent are this
  // process's children; when one is killed, its children become this process's.
  void Sweep() {
    // Stray descendants may outlive the children, but not the ancestors.
    if (!leads_group_ && !orphaned_) return;
    const long begin = NowMs();
    stray_count_ = 0;  // A pid may have been reused since an earlier sweep.
    int quiet = 0;
    for (int looks = 0;
         quiet < 2 && (looks < kSweepLooks || NowMs() - begin < kSweepMs);
         ++looks) {
      Reap();
      if (!has_children_) return;
      // One empty list may be a list that has just changed.
      quiet = KillStrays(NowMs() - begin >= kFirstSightMs) ? 0 : quiet + 1;
      Poll(fds_, 1, quiet == 0 ? kSecondLookMs : 1);
    }
  }

  // Reports the exits that have not been reported.
  void ReportExits() {
    for (int i = 0; i < count_; ++i) {
      SupervisedProcess& child = children_[i];
      if (!child.ended || child.reported) continue;
      child.reported = true;
      Call(SYS_write, SupervisorWritingEnd(i), Address(&child.report),
           sizeof(child.report));
      // So the end of this child stays visible after its report was read.
      Call(SYS_close, SupervisorWritingEnd(i));
    }
  }

  // Reports the last exits. Then reaps nested supervisors, which no other
  // process reaps once the children that started them have ended, and kills
  // what they leave, as Sweep() does: one that is killed leaves its family.
  void ReportAndLinger() {
    const bool lingers = has_children_ && HasSupervisors();
    for (SupervisedProcess& child : children_) child.report.lingers = lingers;
    ReportExits();
    while (has_children_ && HasSupervisors()) {
      Poll(fds_, 1, -1);
      Reap();
      Sweep();
    }
  }

 private:
  // ---- Creating the children ----

  void PrepareSelf() {
    Call(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1);
    // If SIGCHLD were ignored, the kernel would reap the children itself.
    const SignalAction by_default = {0, 0, 0, 0};
    Call(SYS_rt_sigaction, SIGCHLD, Address(&by_default), 0, kSignalSetSize);
    // The children get duplicates of their descriptors.
    if (!CloseRange(kSupervisorFirstFd, FdsEnd(), CLOSE_RANGE_CLOEXEC)) {
      for (int fd = kSupervisorFirstFd; fd < FdsEnd(); ++fd) {
        Call(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
      }
    }
    for (int i = 0; i < ancestor_count_; ++i) {
      PollAt(1 + i, SupervisorFirstAncestor(count_) + i);
    }
    fd_count_ = 1 + ancestor_count_;
  }

  int FdsEnd() const {
    return SupervisorFdsOf(count_, count_, ancestor_count_);
  }

  // Returns an errno; sets report.call to the failed call.
  int MakeAll(SpawnReport& report) {
    for (int i = 0; i < count_; ++i) {
      const int error =
          children_[i].pid == 0 ? Make(i, &report.call) : Adopt(i);
      if (error != 0) return error;
      report.pids[i] = children_[i].pid;
      ++running_;
    }
    return 0;
  }

  // Called after all children have been created: otherwise a new descriptor
  // could occupy the slot of an inherited stream. Returns an errno.
  int OpenFds(int& call, int* pid_fds) {
    call = kPidfdOpen;
    for (int i = 0; i < count_; ++i) {
      // Only this process can reap it: its pid cannot have been reused yet.
      const long fd = Call(SYS_pidfd_open, children_[i].pid, 0);
      if (fd < 0) return static_cast<int>(-fd);
      pid_fds[i] = static_cast<int>(fd);
    }
    call = kSignalfd;
    const SignalSet ends = SetOf(SIGCHLD);
    const long fd = Call(SYS_signalfd4, -1, Address(&ends), kSignalSetSize,
                         O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return static_cast<int>(-fd);
    // Above all descriptors that will be closed.
    const long moved = Call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FdsEnd());
    if (moved < 0) return static_cast<int>(-moved);
    Call(SYS_close, fd);
    PollAt(0, static_cast<int>(moved));
    return 0;
  }

  // Takes over a child that this process forked before exec, as a fork of the
  // parent.
  int Adopt(int i) {
    siginfo_t info;
    const long result = Call(SYS_waitid, P_PID, children_[i].pid,
                             Address(&info), WEXITED | WNOHANG | WNOWAIT);
    if (result < 0) children_[i].pid = 0;
    return static_cast<int>(-result);
  }

  struct Making {
    const Supervisor* self;
    int child;
    int error;
    int call;
  };

  int Make(int i, int* call) {
    alignas(16) char stack[4096];
    Making making = {this, i, 0, kVfork};
    const long pid = Vfork(BeChild, &making, stack + sizeof(stack));
    *call = making.call;
    if (pid < 0) return static_cast<int>(-pid);
    children_[i].pid = static_cast<int>(pid);
    if (making.error != 0) Call(SYS_wait4, pid, 0, 0, 0);
    if (making.error != 0) children_[i].pid = 0;
    return making.error;
  }

  [[noreturn]] static void BeChild(void* argument) {
    Making* const making = static_cast<Making*>(argument);
    making->error =
        -static_cast<int>(making->self->Execute(making->child, &making->call));
    Exit(127);
  }

  // Returns -errno, and the failed call in `*call`; does not return on success.
  long Execute(int child, int* call) const {
    *call = kSetpgid;
    const long grouped = leads_group_ ? Call(SYS_setpgid, 0, 0) : 0;
    if (grouped < 0) return grouped;
    *call = kDup;
    const int fds = SupervisorFdsOf(child, count_, ancestor_count_);
    const int targets[kFdsOfAChild] = {kControlFd, 0, 1, 2};
    for (int i = 0; i < kFdsOfAChild; ++i) {
      const long result = Call(SYS_dup3, fds + i, targets[i], 0);
      if (result < 0 && (i == 0 || result != -EBADF)) return result;
    }
    const long leashed =
        Call(SYS_dup3, SupervisorReadingEnd(child), kDeathPipeFd, 0);
    if (leashed < 0) return leashed;
    const SignalSet blocked =
        Parse(argv_[kSupervisorInterruptArgument]) == 1 ? SetOf(SIGINT) : 0;
    Call(SYS_rt_sigprocmask, SIG_SETMASK, Address(&blocked), 0, kSignalSetSize);
    *call = kExec;
    char path[40];
    AppendNumber(Append(path, "/proc/self/fd/"), kSupervisorProgramFd);
    const char* const argv[] = {argv_[kSupervisorProgramArgument], kChildFlag,
                                nullptr};
    return Call(SYS_execve, Address(path), Address(argv),
                Address(environment_));
  }

  // Returns an errno.
  static int SendReport(const SpawnReport& report, const int* pid_fds,
                        int count) {
    iovec bytes = {const_cast<SpawnReport*>(&report), sizeof(report)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxSupervised)];
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (count > 0) {
      cmsghdr* const header = reinterpret_cast<cmsghdr*>(control);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int) * static_cast<unsigned>(count));
      int* const fds = reinterpret_cast<int*>(CMSG_DATA(header));
      for (int i = 0; i < count; ++i) fds[i] = pid_fds[i];
      message.msg_control = control;
      message.msg_controllen =
          CMSG_SPACE(sizeof(int) * static_cast<unsigned>(count));
    }
    for (int tries = 0;; ++tries) {
      const long sent = Call(SYS_sendmsg, kSupervisorReportFd,
                             Address(&message), MSG_NOSIGNAL);
      if (sent >= 0) return 0;
      if (sent == -EINTR) continue;
      if (sent != -ETOOMANYREFS || tries == kInFlightTries) {
        return static_cast<int>(-sent);
      }
      Poll(nullptr, 0, kNapMs);
    }
  }

  void KillAndReapAll() {
    for (int i = 0; i < count_; ++i) {
      if (children_[i].pid == 0) continue;
      Kill(children_[i].pid, SIGKILL);
      Call(SYS_wait4, children_[i].pid, 0, 0, 0);
    }
  }

  // Detaches from the parent's group, so that its signals do not reach this
  // process, and from its working directory, so that it does not stay busy.
  void LeaveTheParent() {
    Call(SYS_setpgid, 0, 0);
    const char root[] = "/";
    Call(SYS_chdir, Address(root));
  }

  void CloseWhatWasTheParents() {
    CloseAll(0, SupervisorReadingEnd(0));
    CloseAll(SupervisorFdsOf(0, count_, ancestor_count_), FdsEnd());
  }

  // [first, end). False if the kernel cannot, or must not.
  static bool CloseRange(int first, int end, unsigned flags) {
    return Call(SYS_close_range, first, end - 1, flags) >= 0;
  }

  static void CloseAll(int first, int end) {
    if (CloseRange(first, end, 0)) return;
    for (int fd = first; fd < end; ++fd) Call(SYS_close, fd);
  }

  // ---- Watching the children ----

  void PollAt(int index, int fd) {
    fds_[index].fd = fd;
    fds_[index].events = POLLIN;
    fds_[index].revents = 0;  // Unchanged if the kernel cannot poll.
  }

  long MsToWait() const {
    if (!orphaned_ || killed_ || grace_ms_ < 0) return -1;
    const long left = deadline_ms_ - NowMs();
    return left > 0 ? left : 0;
  }

  bool HasAncestorEnded() const {
    for (int i = 1; i < fd_count_; ++i) {
      if ((fds_[i].revents & POLLIN) != 0) return true;
    }
    return false;
  }

  void BecomeOrphaned() {
    orphaned_ = true;
    deadline_ms_ = NowMs() + grace_ms_;
    fd_count_ = 1;
    // A stopped child can then use its grace period, too.
    Signal(SIGCONT, leads_group_);
  }

  void Signal(int signal, bool group) {
    for (int i = 0; i < count_; ++i) {
      const int pid = children_[i].pid;
      if (!children_[i].ended) Kill(group ? -pid : pid, signal);
    }
  }

  // Reaps all children that have ended.
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
    SupervisedProcess* const child = Find(pid);
    // Until it is reaped, its pid belongs to its group alone.
    if (child != nullptr && leads_group_) Kill(-pid, SIGKILL);
    int status = 0;
    rusage usage;
    if (Call(SYS_wait4, pid, Address(&status), WNOHANG, Address(&usage)) <= 0) {
      return false;
    }
    if (child == nullptr) return true;
    child->ended = true;
    child->report.wait_status = status;
    child->report.lingers = 0;
    child->report.peak_rss_kib = usage.ru_maxrss;
    --running_;
    return true;
  }

  // Searches the children that have not ended: a pid may be reused.
  SupervisedProcess* Find(int pid) {
    for (int i = 0; i < count_; ++i) {
      if (children_[i].pid == pid && !children_[i].ended) return &children_[i];
    }
    return nullptr;
  }

  // Calls `visit` with each child of this process, with its pid in /proc.
  template <typename Visit>
  static void ForEachChild(Visit visit) {
    char list[4096];
    const long size =
        ReadFile("/proc/thread-self/children", list, sizeof(list));
    int pid = 0;
    // A pid that is cut off is read again.
    for (long i = 0; i < size; ++i) {
      if (list[i] >= '0' && list[i] <= '9') {
        pid = pid * 10 + (list[i] - '0');
        continue;
      }
      if (pid > 0) visit(pid);
      pid = 0;
    }
  }

  static bool HasSupervisors() {
    bool has = false;
    ForEachChild([&has](int pid) { has = has || IsSupervisor(pid); });
    return has;
  }

  // Kills the children of this process that are neither supervisors nor
  // keepers, if they were already seen at the previous check, or if
  // `at_first_sight`. Returns whether there are any, without those that have
  // changed to another user and cannot be killed.
  bool KillStrays(bool at_first_sight) {
    const bool second = NowMs() - looked_ms_ >= kSecondLookMs;
    int found[kMaxStrays];
    int count = 0;
    ForEachChild([&](int shown) {
      if (count == kMaxStrays || IsSupervisor(shown) || IsKeeper(shown)) return;
      const int pid = PidHere(shown);
      const bool doomed = at_first_sight || (second && WasStray(pid));
      if (pid > 0 && Kill(pid, doomed ? SIGKILL : 0) == 0) found[count++] = pid;
    });
    if (second) {
      looked_ms_ = NowMs();
      stray_count_ = count;
      for (int i = 0; i < count; ++i) strays_[i] = found[i];
    }
    return count > 0;
  }

  bool WasStray(int pid) const {
    for (int i = 0; i < stray_count_; ++i) {
      if (strays_[i] == pid) return true;
    }
    return false;
  }

  const char* const* argv_;
  const char* const* environment_;
  SupervisedProcess children_[kMaxSupervised];
  int count_;
  int running_ = 0;
  int ancestor_count_;
  bool leads_group_;
  long grace_ms_;
  // Exits of children, then ancestors.
  pollfd fds_[1 + kMaxSupervisorAncestors];
  int fd_count_;
  bool orphaned_ = false;
  long deadline_ms_ = 0;
  bool killed_ = false;
  bool has_children_ = true;
  // Seen at the last check.
  long looked_ms_ = 0;
  int stray_count_ = 0;
  int strays_[kMaxStrays];
};

}  // namespace

[[noreturn]] void SupervisorMain(int argc, const char* const* argv) {
  Call(SYS_prctl, PR_SET_NAME, Address(kSupervisorName));
  Supervisor supervisor(argc, argv);
  supervisor.Begin();
  supervisor.Watch();
  supervisor.Sweep();
  supervisor.ReportAndLinger();
  Exit(0);
}

}  // namespace tenon::spawn
