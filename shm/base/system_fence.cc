// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/system_fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"

namespace tenon {
namespace {

int Membarrier(int command) {
  return static_cast<int>(syscall(SYS_membarrier, command, 0, 0));
}

}  // namespace

// Without a lock: a child may be forked while another thread is here.
bool JoinSystemFence() {
  // Twice the fork count of the process that asked last, and whether it joined.
  static constinit std::atomic<uint64_t> answer = UINT64_MAX;
  const uint64_t fork_count = ForkCount();
  uint64_t last = answer.load(std::memory_order_acquire);
  if (last >> 1 == fork_count) return (last & 1) != 0;
  const bool joined = Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
  const uint64_t mine = fork_count << 1 | (joined ? 1 : 0);
  // Of threads that ask at the same time the first decides for all.
  if (answer.compare_exchange_strong(last, mine, std::memory_order_acq_rel)) {
    return joined;
  }
  return (last & 1) != 0;
}

absl::Status SystemFence() {
  if (Membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0) return absl::OkStatus();
  return PosixError(errno, "membarrier", "MEMBARRIER_CMD_GLOBAL_EXPEDITED");
}

}  // namespace tenon
