// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/name_token.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/base/posix_error.h"

namespace tenon {
namespace {

constexpr off_t kTokenBytes = 1;
constexpr off_t kAllBytes = 2;

struct flock Lock(short type, off_t bytes, off_t begin = 0) {
  return {.l_type = type,
          .l_whence = SEEK_SET,
          .l_start = begin,
          .l_len = bytes,
          .l_pid = 0};
}

absl::StatusOr<bool> TryLock(int fd, struct flock lock,
                             absl::string_view what) {
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN) return false;  // Locked by another.
  return PosixError(errno, "fcntl(F_OFD_SETLK)", what);
}

}  // namespace

bool HasNameToken(const struct stat& file) {
  const mode_t mode = file.st_mode & 07777;
  return S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
         (mode == kFinishedNameMode || mode == kUnfinishedNameMode);
}

absl::Status HoldName(int fd, absl::string_view what) {
  struct flock lock = Lock(F_RDLCK, kTokenBytes);
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return absl::OkStatus();
  if (errno != EAGAIN) return PosixError(errno, "fcntl(F_OFD_SETLK)", what);
  return absl::NotFoundError(absl::StrCat(
      what,
      ": all processes that held it have ended; another process is "
      "removing the name"));
}

void DropName(int fd) {
  struct flock lock = Lock(F_UNLCK, kTokenBytes);
  fcntl(fd, F_OFD_SETLK, &lock);  // It fails only for bad arguments.
}

absl::StatusOr<bool> IsNameHeld(int fd, absl::string_view what) {
  struct flock lock = Lock(F_WRLCK, kTokenBytes);
  if (fcntl(fd, F_OFD_GETLK, &lock) != 0) {
    return PosixError(errno, "fcntl(F_OFD_GETLK)", what);
  }
  return lock.l_type == F_RDLCK;  // F_WRLCK is a remover's.
}

absl::StatusOr<bool> LockNameRemoval(int fd, absl::string_view what) {
  return TryLock(fd, Lock(F_WRLCK, kAllBytes - kTokenBytes, kTokenBytes), what);
}

absl::StatusOr<bool> LockDeadName(int fd, absl::string_view what) {
  return TryLock(fd, Lock(F_WRLCK, kAllBytes), what);
}

absl::Status NameRemovalTimeout(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(
      what, ": other processes were removing the name at each attempt for ",
      absl::FormatDuration(kNameRemovalTime),
      "; if one of them is a stopped process, continue or kill it"));
}

}  // namespace tenon
