// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/process/process_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {
namespace {

// The file system of pidfds since Linux 6.9.
constexpr auto kPidFsMagic = 0x50494446;

bool IsOnPidFs(const PidFd& process) {
  struct statfs fs;
  return fstatfs(process.fd(), &fs) == 0 && fs.f_type == kPidFsMagic;
}

// The fdinfo of a pidfd; empty without /proc.
// Errors: kResourceExhausted.
absl::StatusOr<std::string> ReadFdInfo(const PidFd& process) {
  const std::string path = absl::StrCat("/proc/self/fdinfo/", process.fd());
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    const absl::Status error = PosixError(errno, "open", path);
    if (absl::IsResourceExhausted(error)) return error;
    return std::string();
  }
  char text[4096];
  const ssize_t got =
      RetryOnEintr([&] { return read(file.get(), text, sizeof(text)); });
  return std::string(text, got > 0 ? static_cast<size_t>(got) : 0);
}

// The numbers in the line that begins with `name`.
std::vector<pid_t> NumbersIn(absl::string_view fd_info,
                             absl::string_view name) {
  std::vector<pid_t> numbers;
  for (absl::string_view line : absl::StrSplit(fd_info, '\n')) {
    if (!absl::ConsumePrefix(&line, name)) continue;
    for (absl::string_view word : absl::StrSplit(line, '\t')) {
      pid_t number = 0;
      if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
    }
  }
  return numbers;
}

pid_t ShownPid(absl::string_view fd_info) {
  const std::vector<pid_t> pids = NumbersIn(fd_info, "Pid:");
  return !pids.empty() && pids[0] > 0 ? pids[0] : 0;
}

absl::StatusOr<SameProcess> CompareByProc(const PidFd& a, const PidFd& b) {
  TENON_ASSIGN_OR_RETURN(const pid_t first, ProcPidOf(a));
  TENON_ASSIGN_OR_RETURN(const pid_t second, ProcPidOf(b));
  // Read again: a number that was `a`'s before and after did not belong to
  // another process in between.
  TENON_ASSIGN_OR_RETURN(const pid_t again, ProcPidOf(a));
  if (first == 0 || second == 0 || again == 0) return SameProcess::kUnknown;
  return first == second ? SameProcess::kYes : SameProcess::kNo;
}

// `sent` does not refer to the process with the number `pid`, if that exists.
// So the sender has ended, or `sent` is not its own pidfd.
absl::Status IsAnother(const PidFd& sent, pid_t pid) {
  if (sent.HasEnded()) {
    return absl::NotFoundError("the process that sent a pidfd has ended");
  }
  const pid_t other = PidOf(sent).value_or(0);
  return absl::InvalidArgumentError(absl::StrCat(
      "pid ", pid, " sent the pidfd of another process, pid ", other));
}

absl::Status HasNoNumber() {
  return absl::FailedPreconditionError(
      "the sender of a pidfd cannot be identified: it has no pid in the pid "
      "namespace of this process, and the kernel does not send its pidfd "
      "(SCM_PIDFD, SO_PEERPIDFD; Linux 6.5); run both in one pid namespace, or "
      "this process in the outer one");
}

absl::Status CannotCompare(pid_t pid) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the sender of a pidfd cannot be identified as pid ", pid,
      ": before Linux 6.9 pidfds are compared by /proc/self/fdinfo, and /proc "
      "is not mounted or does not show these processes; mount the /proc of "
      "this pid namespace or of an outer one"));
}

}  // namespace

absl::StatusOr<SameProcess> Compare(const PidFd& a, const PidFd& b) {
  struct stat one, two;
  if (IsOnPidFs(a) && IsOnPidFs(b) && fstat(a.fd(), &one) == 0 &&
      fstat(b.fd(), &two) == 0) {
    return one.st_ino == two.st_ino ? SameProcess::kYes : SameProcess::kNo;
  }
  return CompareByProc(a, b);
}

absl::StatusOr<PidFd> IdentifySender(const PidFd& sent, pid_t pid,
                                     std::optional<PidFd> vouched) {
  const bool is_vouched = vouched.has_value();
  if (!is_vouched) {
    if (pid == 0) return HasNoNumber();
    // While the sender lives no other process has this number. If it has been
    // reused since, the sender has ended, and `sent` does not refer to the
    // process that has the number now.
    absl::StatusOr<PidFd> found = PidFd::Open(pid);
    if (absl::IsNotFound(found.status())) return IsAnother(sent, pid);
    TENON_RETURN_IF_ERROR(found.status());
    vouched = *std::move(found);
  }
  TENON_ASSIGN_OR_RETURN(const SameProcess same, Compare(*vouched, sent));
  if (same == SameProcess::kYes) return *std::move(vouched);
  if (same == SameProcess::kUnknown && is_vouched) return *std::move(vouched);
  if (same == SameProcess::kNo || sent.HasEnded()) return IsAnother(sent, pid);
  return CannotCompare(pid);
}

absl::StatusOr<pid_t> PidOf(const PidFd& process) {
  TENON_ASSIGN_OR_RETURN(const std::string fd_info, ReadFdInfo(process));
  // Its numbers from the pid namespace of /proc down to its own: this process's
  // namespace is among these or further up. Only the number itself tells which.
  std::vector<pid_t> candidates = NumbersIn(fd_info, "NSpid:");
  if (candidates.empty()) candidates = NumbersIn(fd_info, "Pid:");
  for (const pid_t candidate : candidates) {
    if (candidate <= 0) continue;
    const absl::StatusOr<PidFd> found = PidFd::Open(candidate);
    if (absl::IsResourceExhausted(found.status())) return found.status();
    if (!found.ok()) continue;
    TENON_ASSIGN_OR_RETURN(const SameProcess same, Compare(*found, process));
    if (same == SameProcess::kYes) return candidate;
  }
  return 0;
}

absl::StatusOr<pid_t> ProcPidOf(const PidFd& process) {
  TENON_ASSIGN_OR_RETURN(const std::string fd_info, ReadFdInfo(process));
  return ShownPid(fd_info);
}

}  // namespace tenon
