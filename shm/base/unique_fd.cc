// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/unique_fd.h"

#include <errno.h>
#include <unistd.h>

#include <utility>

#include "tenon/shm/base/check.h"

namespace tenon {

void UniqueFd::Reset(int fd) {
  const int old = std::exchange(fd_, fd);
  if (old < 0) return;
  // Otherwise it would own a descriptor that it has just closed.
  TENON_CHECK(old != fd, "UniqueFd was reset to the descriptor it owns");
  const int saved_errno = errno;
  close(old);
  errno = saved_errno;
}

}  // namespace tenon
