// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/supervisor/close_from.h"

#include <errno.h>
#include <unistd.h>

namespace tenon::spawn {

int CloseFrom(int first) {
  if (close_range(static_cast<unsigned>(first), ~0U, 0) == 0) return 0;
  const int error = errno;
  // Without /proc, closefrom() would end the process.
  if (access("/proc/self/fd", R_OK | X_OK) != 0) return error;
  closefrom(first);
  return 0;
}

}  // namespace tenon::spawn
