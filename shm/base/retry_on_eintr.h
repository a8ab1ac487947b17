// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RetryOnEintr: repeats a system call while a signal interrupts it.
//
//   ssize_t n = tenon::RetryOnEintr([&] { return read(fd, data, size); });
//
// Never for close(): the descriptor is gone after the first call (see
// unique_fd.h). Never for a call with a relative timeout: each repeat would
// start the timeout anew; compute it from a deadline inside the callable.

#ifndef TENON_SHM_BASE_RETRY_ON_EINTR_H_
#define TENON_SHM_BASE_RETRY_ON_EINTR_H_

#include <errno.h>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Calls `call()` until it returns something other than -1, or fails with an
// errno other than EINTR. Returns the last call's result; errno is the last
// call's. Blocks as long as the call does.
template <typename Call>
auto RetryOnEintr(Call&& call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

}  // namespace tenon

#endif  // TENON_SHM_BASE_RETRY_ON_EINTR_H_
