// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/system_fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon {
namespace {

int Membarrier(int command) {
  return static_cast<int>(syscall(SYS_membarrier, command, 0, 0));
}

}  // namespace

bool JoinSystemFence() {
  static ThreadMutex mutex;
  static uint64_t asked_under ABSL_GUARDED_BY(mutex) = UINT64_MAX;
  static bool joined ABSL_GUARDED_BY(mutex) = false;
  const ThreadLock lock(&mutex);
  if (asked_under != ForkCount()) {
    joined = Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    asked_under = ForkCount();
  }
  return joined;
}

absl::Status SystemFence() {
  if (Membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0) return absl::OkStatus();
  return PosixError(errno, "membarrier", "MEMBARRIER_CMD_GLOBAL_EXPEDITED");
}

}  // namespace tenon
