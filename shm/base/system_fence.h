// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SystemFence: one thread pays for the memory barriers of all.
//
//   // Often: publish, then check whether a thread sleeps.
//   head.store(n, std::memory_order_release);
//   std::atomic_signal_fence(std::memory_order_seq_cst);  // The compiler's.
//   if (sleeping.load(std::memory_order_relaxed)) Wake();
//
//   // Seldom: announce a sleep, fence, check again.
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
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Makes the threads of this process, including later ones, subject to
// SystemFence() from any process. False if the kernel does not support or
// permit it (before Linux 4.16; a seccomp filter): then both sides need
// barriers of their own. Thread-safe, and takes no lock, so that a child may
// be forked at any time; a system call the first time, and once more in each
// forked child that calls it.
bool JoinSystemFence();

// Some microseconds; does not wait for threads that are stopped or asleep.
// Errors: membarrier()'s. None occurs once JoinSystemFence() has returned true,
// unless the process has since forbidden itself the call.
absl::Status SystemFence();

}  // namespace tenon

#endif  // TENON_SHM_BASE_SYSTEM_FENCE_H_
