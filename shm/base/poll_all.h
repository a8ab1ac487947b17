// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PollAll: poll() without waiting, of any number of descriptors. poll() itself
// fails with EINVAL for more than RLIMIT_NOFILE of them, and a process may
// lower that limit below its number of open descriptors.

#ifndef TENON_SHM_BASE_POLL_ALL_H_
#define TENON_SHM_BASE_POLL_ALL_H_

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Sets `revents` of each. Returns the number of those that are not 0. Does not
// block.
inline size_t PollAll(std::span<pollfd> all) {
  rlimit files = {};
  if (all.empty() || getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  const size_t most = std::clamp<size_t>(files.rlim_cur, 1, 4096);
  size_t ready = 0;
  while (!all.empty()) {
    const std::span<pollfd> slice = all.first(std::min(most, all.size()));
    const int polled = poll(slice.data(), slice.size(), 0);
    if (polled > 0) ready += static_cast<size_t>(polled);
    all = all.subspan(slice.size());
  }
  return ready;
}

}  // namespace tenon

#endif  // TENON_SHM_BASE_POLL_ALL_H_
