// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/memfd.h"

#include <errno.h>
#include <linux/memfd.h>
#include <sys/mman.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/unique_fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3.
#endif

namespace tenon {

absl::StatusOr<UniqueFd> OpenMemfd(const std::string& label,
                                   unsigned extra_flags,
                                   absl::string_view what) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | extra_flags;
  UniqueFd fd(memfd_create(label.c_str(), flags | MFD_NOEXEC_SEAL));
  if (fd.valid()) return fd;
  // Older kernels do not know the flag and return EINVAL.
  if (errno == EINVAL) fd = UniqueFd(memfd_create(label.c_str(), flags));
  if (fd.valid()) return fd;
  return PosixError(errno, "memfd_create", what);
}

}  // namespace tenon
