// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/doctor/kernel_checks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/pages/memfd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/shm/segment/control_memory.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/tools/doctor/finding.h"
#include "tenon/tools/doctor/system_files.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5.
#endif

namespace tenon::tools {
namespace {

constexpr char kSeccomp[] =
    "; in a container: a newer runtime, or docker run --security-opt "
    "seccomp=unconfined";

// The oldest supported kernel: that of Debian 12. The README says the same.
constexpr char kOldestLinux[] = "Linux 6.1";
constexpr int kOldestMajor = 6;
constexpr int kOldestMinor = 1;

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// Tries the operations that seals must prevent; errors name one that succeeded.
absl::Status CheckWhatSealsPrevent(int fd) {
  constexpr size_t kSize = 4096;
  void* writable =
      mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (writable != MAP_FAILED) {
    munmap(writable, kSize);
    return absl::FailedPreconditionError("it can still be mapped for writing");
  }
  if (ftruncate(fd, 0) == 0) {
    return absl::FailedPreconditionError("it can still be made smaller");
  }
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kSize) ==
      0) {
    return absl::FailedPreconditionError("holes can still be punched into it");
  }
  return absl::OkStatus();
}

absl::Status SendFd(int socket, int fd) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  if (RetryOnEintr([&] { return sendmsg(socket, &message, MSG_NOSIGNAL); }) <
      0) {
    return PosixError(errno, "sendmsg", "a descriptor");
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ReceiveFd(int socket) {
  char byte;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (RetryOnEintr([&] {
        return recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
      }) < 0) {
    return PosixError(errno, "recvmsg", "a descriptor");
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return absl::FailedPreconditionError("the message arrived without it");
  }
  int fd;
  memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return UniqueFd(fd);
}

}  // namespace

std::string ProbeKernel() {
  utsname name;
  return uname(&name) == 0 ? name.release : "";
}

Finding CheckKernel(const std::string& release) {
  Finding finding = {.check = "kernel",
                     .found = absl::StrCat("Linux ", release)};
  const std::vector<absl::string_view> parts =
      absl::StrSplit(release, absl::ByAnyChar(".-"));
  int major = 0;
  int minor = 0;
  if (parts.size() >= 2 && absl::SimpleAtoi(parts[0], &major) &&
      absl::SimpleAtoi(parts[1], &minor) &&
      std::tie(major, minor) >= std::tie(kOldestMajor, kOldestMinor)) {
    return finding;
  }
  finding.level = Level::kWarning;
  finding.cost = "older kernels are not supported: nothing is tested there";
  finding.fix = absl::StrCat(kOldestLinux, " or later");
  return finding;
}

absl::Status ProbePidFd() {
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  return self.SendSignal(0);
}

Finding CheckPidFd(const absl::Status& result) {
  if (result.ok()) return {.check = "pidfd", .found = "opened and signalled"};
  return {.check = "pidfd",
          .level = Level::kFailure,
          .found = MessageOf(result),
          .cost =
              "deaths of processes cannot be detected: arenas, channels and "
              "workers do not work",
          .fix = absl::StrCat(kOldestLinux, " or later", kSeccomp)};
}

MemfdFacts ProbeMemfd() {
  return {.made = OpenMemfd("tenon.doctor", 0, "the doctor's memfd").status(),
          .noexec = ReadSystemNumber("/proc/sys/vm/memfd_noexec")};
}

Finding CheckMemfd(const MemfdFacts& facts) {
  Finding finding = {
      .check = "memfd",
      .found = absl::StrCat("made; vm.memfd_noexec ",
                            facts.noexec.has_value()
                                ? absl::StrCat(*facts.noexec, " (any will do)")
                                : "is not known here (before Linux 6.3)")};
  if (facts.made.ok()) return finding;
  finding.level = Level::kFailure;
  finding.found = MessageOf(facts.made);
  finding.cost =
      "the file_descriptor strategy, arenas and the ledger do not "
      "work";
  finding.fix = absl::StrCat(kOldestLinux, " or later", kSeccomp);
  return finding;
}

absl::Status ProbeSeals() {
  TENON_ASSIGN_OR_RETURN(
      const auto owned, Segment::CreateOwnerWritten(
                            4096, {.strategy = SharingStrategy::kFileDescriptor,
                                   .name_prefix = "tenon-doctor"}));
  return CheckWhatSealsPrevent(owned.segment.fd());
}

Finding CheckSeals(const absl::Status& result) {
  if (result.ok()) {
    return {.check = "seals",
            .found = "size and writing (F_SEAL_FUTURE_WRITE) are sealed"};
  }
  return {.check = "seals",
          .level = Level::kFailure,
          .found = MessageOf(result),
          .cost =
              "memory that only one process may write cannot be made: no "
              "arenas, no ledger",
          .fix = absl::StrCat(kOldestLinux, " or later", kSeccomp)};
}

ControlMemoryFacts ProbeControlMemory() {
  const auto made = [] {
    TENON_ASSIGN_OR_RETURN(
        const ControlMemory memory,
        ControlMemory::Create(ColumnLayout::kBytes, "tenon.doctor"));
    return memory.Reserve({0, 4096});
  };
  return {.made = made(),
          .overcommit = ReadSystemNumber("/proc/sys/vm/overcommit_memory")};
}

Finding CheckControlMemory(const ControlMemoryFacts& facts) {
  Finding finding = {
      .check = "addresses",
      .found = absl::StrCat(
          "1 GiB mapped, one page taken; vm.overcommit_memory ",
          facts.overcommit.has_value() ? absl::StrCat(*facts.overcommit)
                                       : "?")};
  if (facts.made.ok()) return finding;
  finding.level = Level::kFailure;
  finding.found = MessageOf(facts.made);
  finding.cost =
      "a process's part of the ledger takes 1 GiB of addresses, and "
      "of memory what it uses: no arenas";
  finding.fix = "ulimit -v unlimited; ulimit -f unlimited";
  return finding;
}

absl::Status ProbePassingDescriptors() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return PosixError(errno, "socketpair", "SOCK_SEQPACKET");
  }
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  TENON_RETURN_IF_ERROR(SendFd(one.get(), one.get()));
  return ReceiveFd(other.get()).status();
}

Finding CheckPassingDescriptors(const absl::Status& result) {
  if (result.ok()) {
    return {.check = "passing files",
            .found = "a descriptor went through a socket"};
  }
  return {.check = "passing files",
          .level = Level::kFailure,
          .found = MessageOf(result),
          .cost = "descriptors cannot be sent: channels do not work",
          .fix = absl::StrCat("allow AF_UNIX sockets", kSeccomp)};
}

int ProbePeerPidFd() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno;
  }
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(one.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &size) != 0) {
    return errno;
  }
  UniqueFd(fd).Reset();
  return 0;
}

Finding CheckPeerPidFd(int error) {
  if (error == 0) {
    return {.check = "peer's pidfd", .found = "the kernel identifies the peer"};
  }
  return {.check = "peer's pidfd",
          .level = Level::kWarning,
          .found = absl::StrCat("SO_PEERPIDFD: ", strerror(error)),
          .cost =
              "the kernel cannot confirm which process is at the other end "
              "of a socket; an arena refuses holders that have no number in "
              "its owner's pid namespace",
          .fix =
              "Linux 6.5 or later; in one pid namespace nothing has to be "
              "done without it"};
}

absl::StatusOr<SameProcess> ProbeIdentity() {
  TENON_ASSIGN_OR_RETURN(const PidFd one, PidFd::Open(getpid()));
  TENON_ASSIGN_OR_RETURN(const PidFd other, PidFd::Open(getpid()));
  return Compare(one, other);
}

Finding CheckIdentity(const absl::StatusOr<SameProcess>& same) {
  if (same.ok() && *same == SameProcess::kYes) {
    return {.check = "process identity", .found = "pidfds can be compared"};
  }
  return {.check = "process identity",
          .level = Level::kWarning,
          .found = same.ok() ? "pidfds cannot be compared: no pidfs, and /proc "
                               "does not show this process"
                             : MessageOf(same.status()),
          .cost =
              "before Linux 6.5 arenas refuse all holders, and channels of "
              "Connect() and Accept() do not know the peer's process",
          .fix =
              "Linux 6.9 or later, or mount -t proc proc /proc in the pid "
              "namespace of the processes or an outer one"};
}

LookingFacts ProbeLooking() {
  LookingFacts facts = {
      .ptrace_scope = ReadSystemNumber("/proc/sys/kernel/yama/ptrace_scope")};
  const pid_t child = fork();
  if (child < 0) {
    facts.error = errno;
    return facts;
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  DIR* folder = opendir(absl::StrCat("/proc/", child, "/fd").c_str());
  if (folder == nullptr) {
    facts.error = errno;
  } else {
    closedir(folder);
  }
  kill(child, SIGKILL);
  RetryOnEintr([&] { return waitpid(child, nullptr, 0); });
  return facts;
}

Finding CheckLooking(const LookingFacts& facts) {
  Finding finding = {
      .check = "looking in /proc",
      .found =
          absl::StrCat("a child's open files are seen",
                       facts.ptrace_scope.has_value()
                           ? absl::StrCat("; Yama's ptrace_scope ",
                                          *facts.ptrace_scope, " (any will do)")
                           : "")};
  if (facts.error == 0) return finding;
  finding.level = Level::kWarning;
  finding.found = absl::StrCat("a child's open files are not seen: ",
                               strerror(facts.error));
  finding.cost = "tenon ps, tenon mem and errors that name holders know less";
  finding.fix =
      "mount -t proc proc /proc, without hidepid, as the user who "
      "runs Tenon";
  return finding;
}

ClockFacts ProbeClock() {
  constexpr int kBatches = 5;
  constexpr uint64_t kCalls = 500;
  ClockFacts facts = {
      .nanoseconds = std::numeric_limits<uint64_t>::max(),
      .source = ReadSystemFile(
          "/sys/devices/system/clocksource/clocksource0/current_clocksource")};
  const auto now = [] { return static_cast<uint64_t>(MonotonicNs()); };
  for (int batch = 0; batch < kBatches; ++batch) {
    const uint64_t begin = now();
    uint64_t end = begin;
    for (uint64_t i = 0; i < kCalls; ++i) end = now();
    facts.nanoseconds = std::min(facts.nanoseconds, (end - begin) / kCalls);
  }
  return facts;
}

Finding CheckClock(const ClockFacts& facts) {
  constexpr uint64_t kSlow = 500;  // A system call instead of a read.
  Finding finding = {
      .check = "clock",
      .found = absl::StrCat(facts.nanoseconds, " ns per reading, source ",
                            facts.source.empty() ? "?" : facts.source)};
  if (facts.nanoseconds < kSlow) return finding;
  finding.level = Level::kWarning;
  finding.cost = "every deadline and every measurement costs that much";
  finding.fix =
      "as root: cd /sys/devices/system/clocksource/clocksource0 && "
      "cat available_clocksource && echo tsc > current_clocksource";
  return finding;
}

}  // namespace tenon::tools
