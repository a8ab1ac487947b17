// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/ancillary.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/spawn/settings/environment.h"
#include "tenon/spawn/supervisor/close_from.h"
#include "tenon/spawn/supervisor/program.h"
#include "tenon/spawn/supervisor/supervisor_image.h"
#include "tenon/spawn/supervisor/supervisor_main.h"

namespace tenon::spawn {
namespace {

// Not the path of the file, which may have been replaced since: the child must
// run the same program.
constexpr char kThisProgram[] = "/proc/self/exe";

const char* PathOf(const SupervisedStart& start) {
  return start.program.empty() ? kThisProgram : start.program.c_str();
}

constexpr int kMaxSupervisorFds =
    2 + (2 + kFdsOfAChild) * kMaxSupervised + kMaxSupervisorAncestors;

bool IsIn(uint64_t signals, int signal) {
  return (signals >> (signal - 1) & 1) != 0;
}

struct Ends {
  UniqueFd reading;
  UniqueFd writing;
};

absl::StatusOr<Ends> MakeDeathPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return PosixError(errno, "pipe2", "death pipe");
  }
  return Ends{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

absl::StatusOr<Ends> MakeReportChannel() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return PosixError(errno, "socketpair", "supervisor");
  }
  return Ends{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

absl::StatusOr<UniqueFd> OpenProgram(const char* path) {
  UniqueFd program(open(path, O_PATH | O_CLOEXEC));
  if (program.valid()) return program;
  return PosixError(errno, "open", path);
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string GraceArgument(absl::Duration grace) {
  if (grace == absl::InfiniteDuration()) return "-1";
  return absl::StrCat(
      absl::ToInt64Milliseconds(std::max(grace, absl::ZeroDuration())));
}

// All resources of a supervisor, prepared before it exists.
struct Plan {
  UniqueFd image;
  UniqueFd program;
  Ends report_channel;
  std::vector<Ends> death_pipes;
  // Descriptors for kSupervisorFirstFd and above; -1: none.
  std::vector<int> fds;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> env;
  std::string image_path;
  const char* program_path = nullptr;  // Borrowed from the SupervisedStart.

  // The image's descriptor comes after all that survive exec.
  int image_target() const {
    return kSupervisorFirstFd + static_cast<int>(fds.size());
  }
};

absl::Status CheckStart(const SupervisedStart& start) {
  if (!start.children.empty() && start.children.size() <= kMaxSupervised &&
      start.ancestors.size() <= kMaxSupervisorAncestors) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("supervisor of ", start.children.size(), " children with ",
                   start.ancestors.size(), " ancestors; at most ",
                   kMaxSupervised, " and ", kMaxSupervisorAncestors));
}

void ListFds(const SupervisedStart& start, Plan& plan) {
  plan.fds = {plan.report_channel.writing.get(), plan.program.get()};
  for (const Ends& death_pipe : plan.death_pipes) {
    plan.fds.push_back(death_pipe.reading.get());
    plan.fds.push_back(death_pipe.writing.get());
  }
  plan.fds.insert(plan.fds.end(), start.ancestors.begin(),
                  start.ancestors.end());
  if (start.run != nullptr) return;
  for (const ChildFds& child : start.children) {
    plan.fds.insert(plan.fds.end(),
                    {child.control, child.standard_input, child.standard_output,
                     child.standard_error});
  }
}

absl::StatusOr<Plan> MakePlan(const SupervisedStart& start) {
  TENON_RETURN_IF_ERROR(CheckStart(start));
  Plan plan;
  TENON_ASSIGN_OR_RETURN(plan.report_channel, MakeReportChannel());
  TENON_ASSIGN_OR_RETURN(plan.program, OpenProgram(PathOf(start)));
  for (size_t i = 0; i < start.children.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(Ends death_pipe, MakeDeathPipe());
    plan.death_pipes.push_back(std::move(death_pipe));
  }
  plan.image = OpenSupervisorImage();
  ListFds(start, plan);
  plan.arguments = {kSupervisorName,
                    kSupervisorFlag,
                    start.program.empty() ? ProgramName() : start.program,
                    start.own_group ? "1" : "0",
                    start.hold_interrupt ? "1" : "0",
                    GraceArgument(start.orphan_grace),
                    absl::StrCat(start.ancestors.size())};
  plan.arguments.resize(plan.arguments.size() + start.children.size(), "0");
  plan.environment = MergedEnvironment(start.environment);
  plan.argv = Pointers(plan.arguments);
  plan.env = Pointers(plan.environment);
  plan.program_path = PathOf(start);
  plan.image_path = absl::StrCat("/proc/self/fd/", plan.image_target());
  return plan;
}

// ---- In the process that becomes the supervisor ----
//
// Created by vfork(), it shares this process's memory until exec: it writes
// only its own stack, allocates nothing, and creates no other process.

// Arranges the descriptors as in supervisor_main.h, and closes all others
// except the standard streams. Returns an errno.
int ArrangeFds(const Plan& plan) {
  int sources[kMaxSupervisorFds + 1];
  const int count = static_cast<int>(plan.fds.size()) + 1;
  std::copy(plan.fds.begin(), plan.fds.end(), sources);
  sources[count - 1] = plan.image.get();
  // First out of each other's way.
  const int end = kSupervisorFirstFd + count;
  for (int i = 0; i < count; ++i) {
    if (sources[i] < 0 || sources[i] >= end) continue;
    sources[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, end);
    if (sources[i] < 0) return errno;
  }
  for (int fd = STDERR_FILENO + 1; fd < kSupervisorFirstFd; ++fd) close(fd);
  for (int i = 0; i < count; ++i) {
    const int target = kSupervisorFirstFd + i;
    if (sources[i] < 0) {
      close(target);
      continue;
    }
    const int flags = target < plan.image_target() ? 0 : O_CLOEXEC;
    if (dup3(sources[i], target, flags) < 0) return errno;
  }
  return CloseFrom(end);
}

void SendError(int socket, int call, int error) {
  const SpawnReport report = {
      .error = error, .call = call, .self = getpid(), .pids = {}};
  RetryOnEintr(
      [&] { return send(socket, &report, sizeof(report), MSG_NOSIGNAL); });
}

// Returns on failure.
void BecomeSupervisor(const Plan& plan) {
  // Outer supervisors recognise it by this name.
  prctl(PR_SET_NAME, kSupervisorName);
  if (const int error = ArrangeFds(plan); error != 0) {
    SendError(plan.report_channel.writing.get(), kDup, error);
    return;
  }
  char* const* const argv = plan.argv.data();
  char* const* const env = plan.env.data();
  if (plan.image.valid()) execve(plan.image_path.c_str(), argv, env);
  // The program itself can become the supervisor, too; it takes more memory.
  execve(plan.program_path, argv, env);
  SendError(kSupervisorReportFd, kExec, errno);
}

// ---- In a fork of this process, for StartMethod::kFork ----

// In a forked child.
int ArrangeChildFds(const ChildFds& fds, int death_pipe) {
  const int sources[] = {fds.standard_input, fds.standard_output,
                         fds.standard_error, fds.control, death_pipe};
  int moved[5];
  for (int i = 0; i < 5; ++i) {
    moved[i] = sources[i] < 0
                   ? -1
                   : fcntl(sources[i], F_DUPFD_CLOEXEC, kSupervisorFirstFd);
    if (sources[i] >= 0 && moved[i] < 0) return errno;
  }
  for (int fd = 0; fd < 5; ++fd) {
    if (moved[fd] >= 0) {
      dup3(moved[fd], fd, fd > STDERR_FILENO ? O_CLOEXEC : 0);
      continue;
    }
    // Like exec: it occupies the slot of a closed standard stream.
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0) close(fd);
  }
  return CloseFrom(kSupervisorFirstFd);
}

// Resets handlers like exec, in a fork of this process: once for all of its
// children, which inherit the result.
void ResetHandlers(uint64_t ignored) {
  struct sigaction action = {};
  for (int signal = 1; signal < NSIG; ++signal) {
    action.sa_handler = IsIn(ignored, signal) ? SIG_IGN : SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
}

// In a forked child.
[[noreturn]] void BeChild(const SupervisedStart& start, size_t index,
                          int death_pipe) {
  if (start.own_group) setpgid(0, 0);
  if (ArrangeChildFds(start.children[index], death_pipe) != 0) _exit(127);
  sigset_t blocked;
  sigemptyset(&blocked);
  if (start.hold_interrupt) sigaddset(&blocked, SIGINT);
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
  for (const auto& [name, value] : start.environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  start.run();
  std::abort();
}

// Returns an errno.
int ForkChildren(const SupervisedStart& start, const Plan& plan,
                 std::vector<pid_t>& pids) {
  for (size_t i = 0; i < start.children.size(); ++i) {
    const int death_pipe = plan.death_pipes[i].reading.get();
    const pid_t pid = fork();
    if (pid == 0) BeChild(start, i, death_pipe);
    if (pid < 0) return errno;
    // Here as well as in the child: it leaves the group of its parent, which a
    // supervisor may kill at any time, before its start is reported.
    if (start.own_group) setpgid(pid, pid);
    pids.push_back(pid);
  }
  return 0;
}

[[noreturn]] void ForkAndBecomeSupervisor(const SupervisedStart& start,
                                          Plan& plan) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  ResetHandlers(start.ignored_signals);
  std::vector<pid_t> pids;
  const int error = ForkChildren(start, plan, pids);
  if (error == 0) {
    for (size_t i = 0; i < pids.size(); ++i) {
      plan.arguments[kSupervisorFirstChildArgument + i] = absl::StrCat(pids[i]);
    }
    plan.argv = Pointers(plan.arguments);
    BecomeSupervisor(plan);
  } else {
    SendError(plan.report_channel.writing.get(), kFork, error);
  }
  for (const pid_t pid : pids) {
    kill(pid, SIGKILL);
    RetryOnEintr([&] { return waitpid(pid, nullptr, 0); });
  }
  _exit(EXIT_FAILURE);
}

// ---- In this process ----

absl::Status ReportedError(const SpawnReport& report, const char* program) {
  constexpr const char* kCalls[] = {"vfork",    "fork",    "dup2",
                                    "execve",   "setpgid", "pidfd_open",
                                    "signalfd", "sendmsg"};
  const bool known = report.call >= 0 && report.call <= kSend;
  const absl::Status status = PosixError(
      report.error,
      known ? kCalls[report.call] : "unknown system call of the supervisor",
      program);
  if (report.error != EAGAIN) return status;
  return absl::ResourceExhaustedError(status.message());
}

struct ReceivedReport {
  SpawnReport report;
  std::vector<UniqueFd> fds;
};

absl::StatusOr<ReceivedReport> ReceiveReport(int socket) {
  SpawnReport report = {};
  iovec bytes = {.iov_base = &report, .iov_len = sizeof(report)};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  ControlBuffer control;
  AttachRoom(&control, &message);
  constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  const ssize_t got =
      RetryOnEintr([&] { return recvmsg(socket, &message, kFlags); });
  constexpr char kSilent[] = "its supervisor was killed before it started";
  if (got < 0) {
    return errno == EAGAIN ? absl::UnavailableError(kSilent)
                           : PosixError(errno, "recvmsg", "supervisor");
  }
  Ancillary came = TakeAncillary(&message);
  if (got != sizeof(report)) return absl::UnavailableError(kSilent);
  return ReceivedReport{report, std::move(came.fds)};
}

// Waits until it has reported, or has ended. A hang-up of the channel would not
// show that: a fork made by another thread may hold it, too.
absl::Status WaitForReport(int socket, const Supervisor* supervisor) {
  if (supervisor == nullptr) return absl::OkStatus();
  pollfd fds[] = {{.fd = socket, .events = POLLIN, .revents = 0},
                  {.fd = supervisor->end_fd(), .events = POLLIN, .revents = 0}};
  return PollUntil(fds, Deadline::Never()).status();
}

// A child's pid in this pid namespace. It differs from the reported one if this
// process uses another pid namespace for its children.
absl::StatusOr<pid_t> PidHere(pid_t reported, bool same_names,
                              const PidFd& child) {
  if (same_names) return reported;
  TENON_ASSIGN_OR_RETURN(const pid_t pid, PidOf(child));
  if (pid > 0) return pid;
  return absl::UnavailableError("it was killed before it started");
}

// The children from the report of the supervisor, which is `pid` here.
absl::StatusOr<std::vector<SupervisedChild>> Handshake(
    Plan& plan, pid_t pid, const Supervisor* supervisor) {
  const int socket = plan.report_channel.reading.get();
  TENON_RETURN_IF_ERROR(WaitForReport(socket, supervisor));
  TENON_ASSIGN_OR_RETURN(ReceivedReport received, ReceiveReport(socket));
  const SpawnReport& report = received.report;
  if (report.error != 0) return ReportedError(report, plan.program_path);
  if (received.fds.size() != plan.death_pipes.size()) {
    // This process had no free descriptors.
    return PosixError(EMFILE, "recvmsg", "pidfds of children");
  }
  std::vector<SupervisedChild> children;
  for (size_t i = 0; i < received.fds.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(PidFd pid_fd,
                           PidFd::Adopt(std::move(received.fds[i])));
    TENON_ASSIGN_OR_RETURN(
        ChildExit child_exit,
        ChildExit::Adopt(std::move(plan.death_pipes[i].reading)));
    TENON_ASSIGN_OR_RETURN(const pid_t child,
                           PidHere(report.pids[i], report.self == pid, pid_fd));
    children.push_back({child, std::move(pid_fd), std::move(child_exit)});
  }
  return children;
}

// Disables pthread_cancel() of this thread during its lifetime. Otherwise the
// process created by vfork() could unwind the stack of both.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Null if it has ended, and another waiter has reaped it: SIGCHLD is ignored.
absl::StatusOr<std::shared_ptr<Supervisor>> OpenSupervisor(pid_t pid) {
  absl::StatusOr<PidFd> supervisor = PidFd::Open(pid);
  if (supervisor.ok()) {
    return std::make_shared<Supervisor>(*std::move(supervisor));
  }
  // A zombie would have been found.
  if (absl::IsNotFound(supervisor.status())) return nullptr;
  kill(pid, SIGKILL);
  RetryOnEintr([&] { return waitpid(pid, nullptr, 0); });
  return supervisor.status();
}

// Returns its pid, or -1 with errno. All signals are blocked, because none may
// reach a handler of this process in the supervisor or in a child.
pid_t MakeSupervisor(const SupervisedStart& start, Plan& plan) {
  if (start.run != nullptr) {
    std::fflush(stdout);
    std::fflush(stderr);
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid;
  if (start.run == nullptr) {
    // See above.
    // NOLINTNEXTLINE(bugprone-unsafe-functions,clang-analyzer-security.*)
    pid = vfork();
    if (pid == 0) {
      BecomeSupervisor(plan);  // NOLINT(clang-analyzer-unix.Vfork): the same.
      _exit(EXIT_FAILURE);
    }
  } else {
    pid = fork();
    if (pid == 0) ForkAndBecomeSupervisor(start, plan);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

// Supervisors that have reported their last child, and wait for nested
// supervisors.
class Lingering {
 public:
  void Add(PidFd process) {
    const ThreadLock lock(&mutex_);
    processes_.push_back(std::move(process));
  }
  // Reaps those that have ended.
  void Reap() {
    const ThreadLock lock(&mutex_);
    const auto is_gone = [](const PidFd& process) {
      return !absl::IsDeadlineExceeded(
          process.Reap(Deadline::Passed()).status());
    };
    processes_.erase(
        std::remove_if(processes_.begin(), processes_.end(), is_gone),
        processes_.end());
  }

 private:
  ThreadMutex mutex_;
  std::vector<PidFd> processes_ ABSL_GUARDED_BY(mutex_);
};

constinit PerProcess<Lingering> lingering;

}  // namespace

uint64_t IgnoredSignals() {
  uint64_t ignored = 0;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now = {};
    if (signal == SIGCHLD || sigaction(signal, nullptr, &now) != 0) continue;
    if (now.sa_handler == SIG_IGN) ignored |= uint64_t{1} << (signal - 1);
  }
  return ignored;
}

void ReapLingeringSupervisors() { lingering.Get().Reap(); }

void Supervisor::Dismiss() { process_.SendSignal(SIGKILL).IgnoreError(); }

absl::Status Supervisor::WaitForEnd(Deadline deadline) const {
  return process_.WaitForEnd(deadline);
}

void Supervisor::Wake() { process_.SendSignal(SIGCONT).IgnoreError(); }

Supervisor::~Supervisor() {
  if (fork_count_ != ForkCount()) return;
  // A supervisor ends at once, unless it lingers or has been stopped.
  constexpr absl::Duration kEnds = absl::Seconds(2);
  const Deadline deadline =
      lingers_ ? Deadline::Passed() : Deadline::After(kEnds);
  if (absl::IsDeadlineExceeded(process_.Reap(deadline).status())) {
    lingering.Get().Add(std::move(process_));
  }
  ReapLingeringSupervisors();
}

absl::StatusOr<SupervisedChildren> StartSupervised(
    const SupervisedStart& start) {
  const NoCancellation none;
  ReapLingeringSupervisors();
  TENON_ASSIGN_OR_RETURN(Plan plan, MakePlan(start));
  const pid_t pid = MakeSupervisor(start, plan);
  if (pid < 0) {
    return ReportedError({.error = errno,
                          .call = start.run == nullptr ? kVfork : kFork,
                          .self = 0,
                          .pids = {}},
                         plan.program_path);
  }
  for (Ends& death_pipe : plan.death_pipes) death_pipe.writing.Reset();
  plan.report_channel.writing.Reset();
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Supervisor> supervisor,
                         OpenSupervisor(pid));
  absl::StatusOr<std::vector<SupervisedChild>> children =
      Handshake(plan, pid, supervisor.get());
  if (children.ok()) {
    return SupervisedChildren{std::move(supervisor), *std::move(children)};
  }
  if (supervisor != nullptr) supervisor->Dismiss();
  return children.status();
}

}  // namespace tenon::spawn
