// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/listener/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "tenon/ipc/listener/socket_address.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

constexpr int kBacklog = 128;
// The wait for a process that creates a listener in the same directory.
constexpr absl::Duration kLockPatience = absl::Seconds(1);
constexpr absl::Duration kLockPause = absl::Milliseconds(1);

absl::StatusOr<UniqueFd> OpenDirectory(const std::string& path) {
  UniqueFd directory(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.valid()) return PosixError(errno, "open", path);
  struct stat file;
  if (fstat(directory.get(), &file) != 0) {
    return PosixError(errno, "fstat", path);
  }
  const mode_t mode = file.st_mode & 07777;
  if (file.st_uid == geteuid() && (mode & 0077) == 0) return directory;
  return absl::PermissionDeniedError(absl::StrFormat(
      "directory %s belongs to user %d and has mode %04o; it must belong to "
      "user %d and be closed to all others (chmod 0700)",
      path, file.st_uid, mode, geteuid()));
}

absl::Status Lock(int directory, const std::string& path) {
  const Deadline deadline = Deadline::After(kLockPatience);
  while (flock(directory, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return PosixError(errno, "flock", path);
    if (deadline.has_passed()) {
      return absl::UnavailableError(
          absl::StrCat("another process has held the lock of ", path,
                       " for a second, as during the creation of a listener"));
    }
    TENON_RETURN_IF_ERROR(PollUntil({}, Deadline::After(kLockPause)).status());
  }
  return absl::OkStatus();
}

// Whether a process listens at the address; it may be too busy to answer.
bool IsLive(const SocketAddress& address) {
  const UniqueFd probe(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(probe.get(), address.get(), address.size) == 0 ||
         errno != ECONNREFUSED;
}

absl::Status RemoveDead(int directory, const std::string& name,
                        const SocketAddress& address, const std::string& path) {
  struct stat file;
  if (fstatat(directory, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) {
    return PosixError(errno, "fstatat", path);
  }
  if (!S_ISSOCK(file.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " exists and is not a socket"));
  }
  if (IsLive(address)) {
    return absl::AlreadyExistsError(
        absl::StrCat("another process listens at ", path));
  }
  if (unlinkat(directory, name.c_str(), 0) != 0) {
    return PosixError(errno, "unlinkat", path);
  }
  TENON_CRASH_POINT("listener.dead_removed");
  return absl::OkStatus();
}

absl::Status Bind(int socket, int directory, const std::string& name,
                  const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const SocketAddress address,
                         SocketAddress::Parse(path));
  if (bind(socket, address.get(), address.size) != 0) {
    if (errno != EADDRINUSE) return PosixError(errno, "bind", path);
    TENON_RETURN_IF_ERROR(RemoveDead(directory, name, address, path));
    if (bind(socket, address.get(), address.size) != 0) {
      return PosixError(errno, "bind", path);
    }
  }
  TENON_CRASH_POINT("listener.bound");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SocketFile> SocketFile::Listen(int socket,
                                              const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash + 1 == path.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is not the path of a file"));
  }
  const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
  TENON_ASSIGN_OR_RETURN(UniqueFd directory, OpenDirectory(parent));
  // Closing the descriptor would unlock it, too; this one is kept.
  TENON_RETURN_IF_ERROR(Lock(directory.get(), parent));
  SocketFile result(std::move(directory), path.substr(slash + 1));
  const int locked = result.directory_.get();
  TENON_RETURN_IF_ERROR(Bind(socket, locked, result.name_, path));
  struct stat file;
  if (fstatat(locked, result.name_.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) {
    return PosixError(errno, "fstatat", path);
  }
  result.device_ = file.st_dev;
  result.inode_ = file.st_ino;
  if (listen(socket, kBacklog) != 0) {
    const absl::Status error = PosixError(errno, "listen", path);
    result.Remove();
    return error;
  }
  TENON_CRASH_POINT("listener.listening");
  flock(locked, LOCK_UN);
  return result;
}

void SocketFile::Remove() {
  struct stat file;
  if (directory_.valid() &&
      fstatat(directory_.get(), name_.c_str(), &file, AT_SYMLINK_NOFOLLOW) ==
          0 &&
      file.st_dev == device_ && file.st_ino == inode_) {
    unlinkat(directory_.get(), name_.c_str(), 0);
    TENON_CRASH_POINT("listener.removed");
  }
  directory_.Reset();
}

}  // namespace tenon
