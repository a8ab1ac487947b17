// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_IPC_QUEUE_QUEUE_VALUE_H_
#define TENON_IPC_QUEUE_QUEUE_VALUE_H_

#include <type_traits>

#include "tenon/shm/value/shared_memory_safe.h"

namespace tenon {

// A type that a queue can carry: its bytes mean the same in every process.
template <typename T>
concept QueueValue = SharedMemorySafe<T> && std::is_trivially_copyable_v<T> &&
    std::is_copy_constructible_v<T>;

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_VALUE_H_
