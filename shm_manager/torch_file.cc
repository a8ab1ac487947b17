// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/torch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// More than processes can map it and drop.
constexpr int32_t kManyReferences = 1 << 30;

struct OpenFile {
  UniqueFd fd;
  TorchFile file;
};

// No descriptor if there is no such file.
absl::StatusOr<OpenFile> Open(const std::string& name) {
  const std::string path = absl::StrCat("/dev/shm/", name);
  OpenFile result;
  result.fd = UniqueFd(
      open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!result.fd.valid()) {
    if (errno == ENOENT) return result;
    return PosixError(errno, "open", path);
  }
  struct stat file;
  if (fstat(result.fd.get(), &file) != 0) {
    return PosixError(errno, "fstat", path);
  }
  const mode_t mode = file.st_mode & 07777;
  if (!S_ISREG(file.st_mode) || file.st_uid != geteuid() || mode != 0600 ||
      file.st_nlink > 1) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s belongs to user %d and has mode %04o and %d names; torch makes "
        "regular files of user %d with mode 0600 and one name",
        path, file.st_uid, mode, file.st_nlink, geteuid()));
  }
  result.file.allocated_bytes = static_cast<uint64_t>(file.st_blocks) * 512;
  int32_t references = 0;
  if (pread(result.fd.get(), &references, sizeof(references), 0) ==
      static_cast<ssize_t>(sizeof(references))) {
    result.file.references = references;
  }
  return result;
}

}  // namespace

absl::StatusOr<std::optional<TorchFile>> ReadTorchFile(
    const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const OpenFile opened, Open(name));
  if (!opened.fd.valid()) return std::nullopt;
  return opened.file;
}

absl::StatusOr<std::optional<TorchFile>> RemoveTorchFile(
    const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const OpenFile opened, Open(name));
  if (!opened.fd.valid()) return std::nullopt;
  // One that is too short stays so, and has no count.
  if (opened.file.references != 0 && pwrite(opened.fd.get(), &kManyReferences,
                                            sizeof(kManyReferences), 0) < 0) {
    return PosixError(errno, "pwrite", name);
  }
  TENON_CRASH_POINT("torch.raised");
  if (shm_unlink(absl::StrCat("/", name).c_str()) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return PosixError(errno, "shm_unlink", name);
  }
  TENON_CRASH_POINT("torch.removed");
  return opened.file;
}

}  // namespace tenon
