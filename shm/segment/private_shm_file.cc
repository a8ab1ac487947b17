// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/private_shm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/name_token.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon {

absl::StatusOr<PrivateShmFile> OpenPrivateShmFile(const std::string& name) {
  const std::string path = absl::StrCat("/dev/shm/", name);
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return PosixError(errno, "open", path);
  struct stat file;
  if (fstat(fd.get(), &file) != 0) return PosixError(errno, "fstat", path);
  const mode_t mode = file.st_mode & 07777;
  const bool is_private =
      mode == 0600 || (mode == kFinishedNameMode && IsMadeShmName(name));
  if (!S_ISREG(file.st_mode) || file.st_uid != geteuid() || !is_private ||
      file.st_nlink > 1) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s belongs to user %d and has mode %04o and %d names; torch makes "
        "regular files of user %d with mode 0600 and one name",
        path, file.st_uid, mode, file.st_nlink, geteuid()));
  }
  return PrivateShmFile{
      .fd = std::move(fd),
      .size_bytes = static_cast<uint64_t>(file.st_size),
      .allocated_bytes = static_cast<uint64_t>(file.st_blocks) * 512};
}

}  // namespace tenon
