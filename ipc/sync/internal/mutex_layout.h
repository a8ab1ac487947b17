// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MutexLayout: the shared memory of a Mutex (mutex.h), of which a Condition
// uses the lock.

#ifndef TENON_IPC_SYNC_INTERNAL_MUTEX_LAYOUT_H_
#define TENON_IPC_SYNC_INTERNAL_MUTEX_LAYOUT_H_

#include <cstdint>

#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

struct MutexLayout {
  static constexpr uint64_t kKind = 0x7874754d6e6f6e54;  // "TnonMutx"
  static constexpr char kName[] = "a Mutex";
  SharedWord<uint64_t> kind;
  uint64_t pid_namespace;
  uint64_t recursive;
  RobustMutex mutex;
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_MUTEX_LAYOUT_H_
