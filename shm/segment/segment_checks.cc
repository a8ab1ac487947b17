// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/segment_checks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/name_token.h"

namespace tenon {
namespace {

constexpr mode_t kPrivateMode = 0600;  // The sticky bit aside.

constexpr std::pair<int, const char*> kSealNames[] = {
    {F_SEAL_SEAL, "F_SEAL_SEAL"},
    {F_SEAL_SHRINK, "F_SEAL_SHRINK"},
    {F_SEAL_GROW, "F_SEAL_GROW"},
    {F_SEAL_WRITE, "F_SEAL_WRITE"},
    {F_SEAL_FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"},
};

absl::string_view FileTypeName(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFSOCK:
      return "a socket";
    case S_IFDIR:
      return "a directory";
    case S_IFCHR:
      return "a character device";
    case S_IFBLK:
      return "a block device";
    case S_IFIFO:
      return "a pipe";
    default:
      return "a file of unknown type";
  }
}

absl::Status NotOpen(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is not an open file descriptor"));
}

absl::StatusOr<struct stat> Stat(int fd, absl::string_view what) {
  struct stat file;
  if (fstat(fd, &file) == 0) return file;
  if (errno != EBADF) return PosixError(errno, "fstat", what);
  return NotOpen(what);
}

// Reads the kernel's own table, never the file system. Empty if it is not open.
std::string PathOf(int fd) {
  char path[256];
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size < 0 ? "" : std::string(path, static_cast<size_t>(size));
}

absl::Status SealsError(int error, int fd, absl::string_view what) {
  if (error != EINVAL && error != EBADF) {
    return PosixError(error, "fcntl(F_GET_SEALS)", what);
  }
  const std::string path = PathOf(fd);
  if (path.empty()) return NotOpen(what);
  // EBADF of an open descriptor: it was opened with O_PATH.
  if (error == EBADF) return PosixError(error, "fcntl(F_GET_SEALS)", what);
  // A peer may have chosen the path.
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is '", absl::CHexEscape(path),
                   "', not memory: seals are not supported [EINVAL]"));
}

absl::StatusOr<uint64_t> FileSystemType(int fd, absl::string_view what) {
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0) return PosixError(errno, "fstatfs", what);
  return static_cast<uint64_t>(fs.f_type);
}

absl::Status NotMemory(int fd, absl::string_view what) {
  TENON_ASSIGN_OR_RETURN(const uint64_t type, FileSystemType(fd, what));
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is a file of a file system of type 0x%x, not in "
                      "memory (tmpfs or hugetlbfs)",
                      what, type));
}

absl::StatusOr<CheckedMemory> CheckPages(int fd, const struct stat& file,
                                         absl::string_view what) {
  if (file.st_size <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has 0 bytes"));
  }
  CheckedMemory memory = {.size_bytes = static_cast<size_t>(file.st_size),
                          .device = file.st_dev,
                          .inode = file.st_ino};
  // Blocks of one page: that is tmpfs.
  if (file.st_blksize == sysconf(_SC_PAGESIZE)) return memory;
  TENON_ASSIGN_OR_RETURN(const uint64_t type, FileSystemType(fd, what));
  memory.is_hugetlb = type == HUGETLBFS_MAGIC;
  const int64_t allocated = int64_t{file.st_blocks} * 512;  // stat()'s unit.
  if (memory.is_hugetlb && allocated < file.st_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", file.st_size, " bytes, but only ",
                     allocated, " of them are allocated as huge pages"));
  }
  return memory;
}

absl::Status CheckIsPrivate(const struct stat& file, absl::string_view what) {
  const mode_t mode = file.st_mode & 07777;
  const uid_t user = geteuid();
  if (file.st_uid != user || (mode & ~mode_t{S_ISVTX}) != kPrivateMode) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s belongs to user %d and has mode %04o; it must belong to user %d "
        "and have mode %04o, or %04o if another program made it",
        what, file.st_uid, mode, user, kFinishedNameMode, kPrivateMode));
  }
  // 0 if it was removed since it was opened.
  if (file.st_nlink > 1) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s has %d names (hard links); it must have one: remove the others",
        what, file.st_nlink));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSeals(int fd, int seals, absl::string_view what) {
  const int present = fcntl(fd, F_GET_SEALS);
  if (present < 0) return SealsError(errno, fd, what);
  const int missing = seals & ~present;
  if (missing == 0) return absl::OkStatus();
  std::vector<absl::string_view> names;
  for (const auto& [seal, name] : kSealNames) {
    if (missing & seal) names.push_back(name);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      what, " lacks required seals: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<CheckedMemory> CheckMemory(int fd, absl::string_view what) {
  TENON_ASSIGN_OR_RETURN(const struct stat file, Stat(fd, what));
  return CheckPages(fd, file, what);
}

absl::StatusOr<CheckedMemory> CheckNamedMemory(int fd, absl::string_view what) {
  TENON_ASSIGN_OR_RETURN(const struct stat file, Stat(fd, what));
  if (!S_ISREG(file.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is ", FileTypeName(file.st_mode), ", not memory"));
  }
  // Only memory has seals, and this is quicker than fstatfs().
  if (fcntl(fd, F_GET_SEALS) < 0) {
    if (errno == EINVAL) return NotMemory(fd, what);
    return PosixError(errno, "fcntl(F_GET_SEALS)", what);
  }
  TENON_RETURN_IF_ERROR(CheckIsPrivate(file, what));
  TENON_ASSIGN_OR_RETURN(CheckedMemory memory, CheckPages(fd, file, what));
  memory.has_name_token = HasNameToken(file);
  return memory;
}

}  // namespace tenon
