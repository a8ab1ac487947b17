// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Writes and reads short items of a known number of words, without a loop.
// Internal to Queue (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_WORDS_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_WORDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

template <AtomicsPolicy A, typename P, size_t kWords>
[[gnu::always_inline]] inline void WriteQueueWords(
    const QueueSlots<A, P>& slots, uint64_t position,
    const std::array<uint64_t, kWords>& item) {
  SharedWord<uint64_t>* const words = &slots.sequence(position) + 1;
  [&]<size_t... kEach>(std::index_sequence<kEach...>) {
    (A::Store(words[kEach], item[kEach], P::kWriteSlot), ...);
  }
  (std::make_index_sequence<kWords>());
}

template <size_t kWords, AtomicsPolicy A, typename P>
[[gnu::always_inline]] inline std::array<uint64_t, kWords> ReadQueueWords(
    const QueueSlots<A, P>& slots, uint64_t position) {
  const SharedWord<uint64_t>* const words = &slots.sequence(position) + 1;
  return [&]<size_t... kEach>(std::index_sequence<kEach...>) {
    return std::array<uint64_t, kWords>{A::Load(words[kEach], P::kReadSlot)...};
  }
  (std::make_index_sequence<kWords>());
}

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_WORDS_H_
