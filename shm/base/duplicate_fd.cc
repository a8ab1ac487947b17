// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/duplicate_fd.h"

#include <errno.h>
#include <fcntl.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

absl::StatusOr<UniqueFd> DuplicateFd(int fd, absl::string_view what) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (copy.valid()) return copy;
  const int error = errno;
  if (error != EBADF) return PosixError(error, "fcntl(F_DUPFD_CLOEXEC)", what);
  return absl::InvalidArgumentError(
      absl::StrCat("file descriptor ", fd, " is not open: ", what,
                   ", to be duplicated by fcntl(F_DUPFD_CLOEXEC)"));
}

}  // namespace tenon
