// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/function.h"

#include <cstddef>
#include <vector>

#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/child/entry.h"

namespace tenon::spawn {

std::vector<UniqueFd> TakeAllFds(Child& child) {
  std::vector<UniqueFd> fds;
  fds.reserve(child.fd_count());
  for (size_t i = 0; i < child.fd_count(); ++i) fds.push_back(child.TakeFd(i));
  return fds;
}

}  // namespace tenon::spawn
