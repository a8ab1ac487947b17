// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/file_identity.h"

#include <errno.h>
#include <sys/stat.h>

#include "absl/status/statusor.h"
#include "tenon/shm/base/posix_error.h"

namespace tenon {

absl::StatusOr<FileIdentity> FileIdentity::Of(int fd) {
  struct stat file;
  if (fstat(fd, &file) != 0) return PosixError(errno, "fstat", "a memory file");
  return FileIdentity{.device = file.st_dev, .inode = file.st_ino};
}

}  // namespace tenon
