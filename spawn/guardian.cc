// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/ancillary.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/process_identity.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/close_from.h"
#include "tenon/spawn/guardian_image.h"
#include "tenon/spawn/guardian_main.h"
#include "tenon/spawn/program.h"

namespace tenon::spawn {
namespace {

// How long it is waited for room where the user has too many descriptors in
// flight, and how often it is looked.
constexpr int kInFlightTries = 10'000;
constexpr timespec kNap = {.tv_sec = 0, .tv_nsec = 1'000'000};

// What the guardian-to-be says once there are children, or why there are none;
// and once more if it cannot become a guardian, and has killed them.
struct Birth {
  int error;   // Of making a child or, in a second message, of exec.
  pid_t self;  // Its own pid, as it knows it; so with those of the children.
  pid_t pids[kMaxGuarded];
};

struct Ends {
  UniqueFd reading;
  UniqueFd writing;
};

absl::StatusOr<Ends> MakeLeash() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return PosixError(errno, "pipe2", "leash");
  Ends leash = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  if (ends[0] > kLeashFd) return leash;
  // A child's descriptors are put where it expects them one after another.
  leash.reading = UniqueFd(fcntl(ends[0], F_DUPFD_CLOEXEC, kLeashFd + 1));
  if (!leash.reading.valid()) return PosixError(errno, "fcntl", "leash");
  return leash;
}

absl::StatusOr<Ends> MakeBirthChannel() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return PosixError(errno, "socketpair", "guardian");
  }
  return Ends{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// All that the guardian-to-be needs, made before it exists.
struct Plan {
  UniqueFd image = OpenGuardianImage();
  std::vector<Ends> leashes;
  Ends birth;
  std::vector<int> elders;
  std::string program_path;
  std::string grace;
  std::string elder_count;
  bool own_group;

  int child_count() const { return static_cast<int>(leashes.size()); }
  // Where its descriptors are before exec; those behind the elders do not
  // outlive it.
  int image_target() const {
    return GuardianFirstElder(child_count()) + static_cast<int>(elders.size());
  }
  int birth_target() const { return image_target() + 1; }
};

absl::StatusOr<Plan> MakePlan(const GuardianOptions& options, size_t count) {
  if (count < 1 || count > kMaxGuarded ||
      options.elders.size() > kMaxGuardianElders) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a guardian of ", count, " children with ", options.elders.size(),
        " elders; at most ", kMaxGuarded, " and ", kMaxGuardianElders));
  }
  TENON_ASSIGN_OR_RETURN(Ends birth, MakeBirthChannel());
  Plan plan = {.birth = std::move(birth),
               .elders = options.elders,
               .own_group = options.own_group};
  for (size_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(Ends leash, MakeLeash());
    plan.leashes.push_back(std::move(leash));
  }
  plan.program_path = absl::StrCat("/proc/self/fd/", plan.image_target());
  plan.grace = options.orphan_grace == absl::InfiniteDuration()
                   ? "-1"
                   : absl::StrCat(absl::ToInt64Milliseconds(
                         std::max(options.orphan_grace, absl::ZeroDuration())));
  plan.elder_count = absl::StrCat(options.elders.size());
  return plan;
}

// ---- In the guardian-to-be ----
//
// It has this process's memory and its own descriptors and signal handlers.
// Nothing may be allocated that is not freed, since exec forgets it.

// Returns an errno.
int Tell(int socket, const Birth& birth, absl::Span<const int> pid_fds) {
  iovec bytes = {.iov_base = const_cast<Birth*>(&birth),
                 .iov_len = sizeof(birth)};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  ControlBuffer control;
  AttachFds(pid_fds, &control, &message);
  for (int tries = 0;; ++tries) {
    const ssize_t sent =
        RetryOnEintr([&] { return sendmsg(socket, &message, MSG_NOSIGNAL); });
    if (sent >= 0) return 0;
    if (errno != ETOOMANYREFS || tries == kInFlightTries) return errno;
    nanosleep(&kNap, nullptr);
  }
}

// Returns an errno.
int MakeChildren(const Plan& plan, MakeChild make, Birth& birth, int* pid_fds) {
  for (int i = 0; i < plan.child_count(); ++i) {
    const size_t index = static_cast<size_t>(i);
    const int error =
        make(index, plan.leashes[index].reading.get(), &birth.pids[i]);
    if (error != 0) return error;
    // Only this process can reap it: it cannot be another yet.
    pid_fds[i] = static_cast<int>(syscall(SYS_pidfd_open, birth.pids[i], 0));
    if (pid_fds[i] < 0) return errno;
  }
  return 0;
}

// Puts the descriptors where guardian_main.h says, and closes all others.
// Returns an errno.
int ArrangeFds(const Plan& plan) {
  constexpr int kMost = 2 * kMaxGuarded + kMaxGuardianElders + 2;
  int sources[kMost];
  int count = 0;
  for (const Ends& leash : plan.leashes) {
    sources[count++] = leash.reading.get();
    sources[count++] = leash.writing.get();
  }
  for (const int elder : plan.elders) sources[count++] = elder;
  sources[count++] = plan.image.get();
  sources[count++] = plan.birth.writing.get();
  // Out of each other's way first.
  const int end = kGuardianFirstFd + count;
  for (int i = 0; i < count; ++i) {
    if (sources[i] < 0 || sources[i] >= end) continue;
    sources[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, end);
    if (sources[i] < 0) return errno;
  }
  for (int fd = 0; fd < kGuardianFirstFd; ++fd) close(fd);
  for (int i = 0; i < count; ++i) {
    const int target = kGuardianFirstFd + i;
    if (sources[i] < 0) {  // No image; what is there is not the guardian's.
      close(target);
      continue;
    }
    const int flags = target < plan.image_target() ? 0 : O_CLOEXEC;
    if (dup3(sources[i], target, flags) < 0) return errno;
  }
  return CloseFrom(end);
}

// Returns an errno.
int ExecGuardian(const Plan& plan, const Birth& birth) {
  char pids[kMaxGuarded][16];
  const char* argv[kGuardianFirstChildArgument + kMaxGuarded + 1] = {};
  argv[0] = kGuardianName;
  argv[kGuardianFlagArgument] = kGuardianFlag;
  argv[kGuardianGroupArgument] = plan.own_group ? "1" : "0";
  argv[kGuardianGraceArgument] = plan.grace.c_str();
  argv[kGuardianEldersArgument] = plan.elder_count.c_str();
  for (int i = 0; i < plan.child_count(); ++i) {
    std::snprintf(pids[i], sizeof(pids[i]), "%d", birth.pids[i]);
    argv[kGuardianFirstChildArgument + i] = pids[i];
  }
  char* const nothing[] = {nullptr};
  char* const* const arguments = const_cast<char* const*>(argv);
  if (plan.image.valid()) execve(plan.program_path.c_str(), arguments, nothing);
  // This very program can do it, too, if it takes more room. Its loader may
  // need the environment.
  execve("/proc/self/exe", arguments, environ);
  return errno;
}

// Returns an errno.
int BecomeGuardianOf(const Plan& plan, const Birth& birth, int* socket) {
  // Other guardians know it by that.
  prctl(PR_SET_NAME, kGuardianName);
  // A signal to this process's group is not meant for it, and it keeps no
  // directory busy.
  setpgid(0, 0);
  if (chdir("/") != 0) return errno;
  if (const int error = ArrangeFds(plan); error != 0) return error;
  *socket = plan.birth_target();
  return ExecGuardian(plan, birth);
}

// For the children, which begin with what is set here; and a child may end
// before the guardian looks, where SIGCHLD must not be ignored.
void ResetSignals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    sigaction(signal, &action, nullptr);
  }
}

[[noreturn]] void BecomeGuardian(const Plan& plan, MakeChild make) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  ResetSignals();
  Birth birth = {.self = getpid()};
  int pid_fds[kMaxGuarded];
  int socket = plan.birth.writing.get();
  birth.error = MakeChildren(plan, make, birth, pid_fds);
  if (birth.error == 0) {
    birth.error = Tell(socket, birth, {pid_fds, plan.leashes.size()});
  }
  if (birth.error == 0) birth.error = BecomeGuardianOf(plan, birth, &socket);
  Tell(socket, birth, {});
  for (const pid_t child : birth.pids) {
    if (child <= 0) continue;
    kill(child, SIGKILL);
    RetryOnEintr([&] { return waitpid(child, nullptr, 0); });
  }
  _exit(EXIT_FAILURE);
}

// ---- In this process ----

struct Told {
  Birth birth;
  std::vector<UniqueFd> fds;
};

// What has come. Errors: kUnavailable if nothing has.
absl::StatusOr<Told> Listen(int socket) {
  Birth birth = {};
  iovec bytes = {.iov_base = &birth, .iov_len = sizeof(birth)};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  ControlBuffer control;
  AttachRoom(&control, &message);
  constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  const ssize_t got =
      RetryOnEintr([&] { return recvmsg(socket, &message, kFlags); });
  constexpr char kSilent[] = "its guardian was killed before it began";
  if (got < 0) {
    return errno == EAGAIN ? absl::UnavailableError(kSilent)
                           : PosixError(errno, "recvmsg", "guardian");
  }
  Ancillary came = TakeAncillary(&message);
  if (got != sizeof(birth)) return absl::UnavailableError(kSilent);
  return Told{birth, std::move(came.fds)};
}

// Until it has said something, or cannot any more. The end of the channel would
// not tell that: others may have it, too.
absl::Status WaitForWord(int socket, const Guardian* guardian) {
  if (guardian == nullptr) return absl::OkStatus();
  pollfd fds[] = {{.fd = socket, .events = POLLIN, .revents = 0},
                  {.fd = guardian->end_fd(), .events = POLLIN, .revents = 0}};
  return PollUntil(fds, 2, Deadline::Never()).status();
}

// A child's pid, as this process knows it. It is not the one that was told if
// this process has left its pid namespace for those who come after it.
absl::StatusOr<pid_t> PidHere(pid_t told, bool same_names, const PidFd& child) {
  if (same_names) return told;
  TENON_ASSIGN_OR_RETURN(const pid_t pid, PidOf(child));
  if (pid > 0) return pid;
  return absl::UnavailableError("it was killed before it began");
}

// Of the children, from what the guardian-to-be has said, which is `pid` here.
absl::StatusOr<std::vector<GuardedChild>> Meet(Plan& plan, pid_t pid,
                                               const Guardian* guardian,
                                               MakeChildError error) {
  const int socket = plan.birth.reading.get();
  TENON_RETURN_IF_ERROR(WaitForWord(socket, guardian));
  TENON_ASSIGN_OR_RETURN(Told told, Listen(socket));
  if (told.birth.error != 0) return error(told.birth.error);
  // By now it has become a guardian, or has said why not.
  const absl::StatusOr<Told> failed = Listen(socket);
  if (failed.ok()) {
    return PosixError(failed->birth.error, "execve", "guardian");
  }
  if (told.fds.size() != plan.leashes.size()) {
    // There was no room for them here.
    return PosixError(EMFILE, "recvmsg", "pidfds of children");
  }
  std::vector<GuardedChild> children;
  for (size_t i = 0; i < told.fds.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(PidFd pid_fd, PidFd::Adopt(std::move(told.fds[i])));
    TENON_ASSIGN_OR_RETURN(Fate fate,
                           Fate::Adopt(std::move(plan.leashes[i].reading)));
    TENON_ASSIGN_OR_RETURN(
        const pid_t child,
        PidHere(told.birth.pids[i], told.birth.self == pid, pid_fd));
    children.push_back({child, std::move(pid_fd), std::move(fate)});
  }
  return children;
}

// While this lives, pthread_cancel() of this thread has no effect. Otherwise it
// could be the guardian-to-be that unwinds the stack, which both have.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// None if it has ended, and somebody else has reaped it: SIGCHLD is ignored.
absl::StatusOr<std::shared_ptr<Guardian>> OpenGuardian(pid_t pid) {
  absl::StatusOr<PidFd> guardian = PidFd::Open(pid);
  if (guardian.ok()) return std::make_shared<Guardian>(*std::move(guardian));
  // Its zombie would have been found.
  if (absl::IsNotFound(guardian.status())) return nullptr;
  kill(pid, SIGKILL);
  RetryOnEintr([&] { return waitpid(pid, nullptr, 0); });
  return guardian.status();
}

}  // namespace

absl::StatusOr<GuardedChildren> StartGuarded(const GuardianOptions& options,
                                             size_t count, MakeChild make,
                                             MakeChildError error) {
  const NoCancellation none;
  TENON_ASSIGN_OR_RETURN(Plan plan, MakePlan(options, count));
  // None must reach a handler of this process in the guardian or a child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): see the header.
  const pid_t pid = vfork();
  if (pid == 0) BecomeGuardian(plan, make);
  const int vfork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return error(vfork_error);
  for (Ends& leash : plan.leashes) leash.writing.Reset();
  plan.birth.writing.Reset();
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Guardian> guardian, OpenGuardian(pid));
  absl::StatusOr<std::vector<GuardedChild>> children =
      Meet(plan, pid, guardian.get(), error);
  if (children.ok()) {
    return GuardedChildren{std::move(guardian), *std::move(children)};
  }
  if (guardian != nullptr) guardian->Dismiss();
  return children.status();
}

}  // namespace tenon::spawn
