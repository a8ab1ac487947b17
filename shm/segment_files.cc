// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/crash_point.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/reserve_pages.h"
#include "tenon/shm/shm_name.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3.
#endif

namespace tenon {
namespace {

// Older kernels do not know the flag and say EINVAL.
int OpenMemfd(const std::string& label) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create(label.c_str(), flags | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create(label.c_str(), flags);
}

// Names the object in errors; PosixError() tells from it which limit was hit.
std::string What(absl::string_view place, absl::string_view name,
                 size_t size_bytes) {
  return absl::StrCat("segment '", name, "' in ", place, ", ", size_bytes,
                      " bytes");
}

absl::Status Allocate(int fd, size_t size_bytes, absl::string_view what) {
  TENON_RETURN_IF_ERROR(SetFileSize(fd, size_bytes, what));
  TENON_CRASH_POINT("segment.sized");
  return ReservePages(fd, 0, size_bytes, what);
}

// From here on Open() takes it.
absl::Status Publish(int fd, absl::string_view what) {
  // fchmod(), unlike the mode given to open(), does not care about the umask.
  if (fchmod(fd, 0600) != 0) return PosixError(errno, "fchmod", what);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> CreateMemfd(size_t size_bytes,
                                     const std::string& label) {
  const std::string what = What("a memfd", label, size_bytes);
  UniqueFd fd(OpenMemfd(label));
  if (!fd.valid()) return PosixError(errno, "memfd_create", what);
  TENON_CRASH_POINT("segment.memfd.created");
  TENON_RETURN_IF_ERROR(Allocate(fd.get(), size_bytes, what));
  return fd;
}

absl::StatusOr<UniqueFd> CreateNamedFile(size_t size_bytes,
                                         const std::string& name) {
  const std::string what = What("/dev/shm", name, size_bytes);
  const std::string path = absl::StrCat("/", name);
  // shm_open() adds O_NOFOLLOW and O_CLOEXEC.
  UniqueFd fd(shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0400));
  if (!fd.valid()) return PosixError(errno, "shm_open", what);
  TENON_CRASH_POINT("segment.named.created");
  absl::Status made = Allocate(fd.get(), size_bytes, what);
  TENON_CRASH_POINT("segment.named.reserved");
  if (made.ok()) made = Publish(fd.get(), what);
  TENON_CRASH_POINT("segment.named.published");
  if (made.ok()) return fd;
  RemoveShmName(name).IgnoreError();
  return made;
}

absl::StatusOr<UniqueFd> OpenNamedFile(absl::string_view name, bool writable,
                                       absl::string_view what) {
  const std::string path = absl::StrCat("/", name);
  // shm_open() adds O_NOFOLLOW and O_CLOEXEC. O_NONBLOCK keeps a planted FIFO
  // from blocking us, O_NOCTTY a planted terminal from becoming ours.
  const int flags = (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(shm_open(path.c_str(), flags, 0));
  if (fd.valid()) return fd;
  const int error = errno;
  absl::Status status = PosixError(error, "shm_open", what);
  switch (error) {
    case EINVAL:  // A directory.
    case ELOOP:   // A symbolic link.
    case ENXIO:   // A socket.
      return absl::FailedPreconditionError(status.message());
    default:
      return status;
  }
}

}  // namespace tenon
