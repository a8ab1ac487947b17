// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SystemFence: one thread pays for the memory barriers of all.
//
//   // Often: publish, then look whether a thread sleeps.
//   head.store(n, std::memory_order_release);
//   std::atomic_signal_fence(std::memory_order_seq_cst);  // The compiler's.
//   if (sleeping.load(std::memory_order_relaxed)) Wake();
//
//   // Seldom: announce a sleep, fence, look again.
//   sleeping.store(1, std::memory_order_relaxed);
//   TENON_RETURN_IF_ERROR(SystemFence());
//   if (head.load(std::memory_order_acquire) != n) sleeping.store(0);
//
// After SystemFence() each thread of each process that has called
// JoinSystemFence() has, somewhere between its begin and its end, executed a
// full barrier: so of the two above at least one sees the other, as if both had
// one. See membarrier(2), MEMBARRIER_CMD_GLOBAL_EXPEDITED, and
// Documentation/scheduler/membarrier.rst of the kernel.

#ifndef TENON_SHM_BASE_SYSTEM_FENCE_H_
#define TENON_SHM_BASE_SYSTEM_FENCE_H_

#include "absl/status/status.h"

namespace tenon {

// Makes the threads of this process, also those that start later, ones that
// SystemFence() reaches, from whatever process. False if the kernel cannot, or
// may not (before Linux 4.16; a seccomp filter): then both sides need barriers
// of their own. Thread-safe; a system call the first time, and once more in
// each forked child that asks.
bool JoinSystemFence();

// Some microseconds; does not wait for threads that are stopped or asleep.
// Errors: what membarrier() says, which is none where JoinSystemFence() has
// returned true, unless the process has forbidden itself the call since then.
absl::Status SystemFence();

}  // namespace tenon

#endif  // TENON_SHM_BASE_SYSTEM_FENCE_H_
