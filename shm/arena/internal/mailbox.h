// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Mailbox: room for one message between two processes, either of which may be
// killed at any time. For tests; the sender holds a sent block until the
// message is acknowledged.

#ifndef TENON_SHM_ARENA_INTERNAL_MAILBOX_H_
#define TENON_SHM_ARENA_INTERNAL_MAILBOX_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "tenon/shm/arena/block_descriptor.h"

namespace tenon {

// In shared memory. One sender, one receiver; the successor of a dead one
// continues from the present contents.
class Mailbox {
 public:
  enum State : uint64_t { kEmpty = 0, kFull = 1, kAcknowledged = 2 };

  struct Letter {
    BlockDescriptor block;
    uint64_t sender = 0;  // The sender's incarnation.
    // The receiver's incarnation: a later one must not take it.
    uint64_t receiver = 0;
    uint64_t word = 0;  // For acknowledging it.
  };

  State state() const {
    return static_cast<State>(word_.load(std::memory_order_acquire) & 3);
  }

  // For the sender. Requires an empty mailbox.
  void Send(const BlockDescriptor& block, uint64_t sender, uint64_t receiver) {
    std::array<uint64_t, kWords> words;
    static_assert(sizeof(words) == sizeof(block) + 2 * sizeof(sender));
    memcpy(words.data(), &block, sizeof(block));
    words[kWords - 2] = sender;
    words[kWords - 1] = receiver;
    for (size_t i = 0; i < kWords; ++i) {
      message_[i].store(words[i], std::memory_order_relaxed);
    }
    Set(kFull);
  }
  void Clear() { Set(kEmpty); }

  // For the receiver. Not torn: the letter is checked before and after it is
  // read.
  std::optional<Letter> Read() const {
    const uint64_t before = word_.load(std::memory_order_acquire);
    if ((before & 3) != kFull) return std::nullopt;
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) {
      words[i] = message_[i].load(std::memory_order_acquire);
    }
    if (word_.load(std::memory_order_relaxed) != before) return std::nullopt;
    Letter letter;
    memcpy(static_cast<void*>(&letter.block), words.data(),
           sizeof(letter.block));
    letter.sender = words[kWords - 2];
    letter.receiver = words[kWords - 1];
    letter.word = before;
    return letter;
  }
  // No effect if the sender has cleared it meanwhile.
  void Acknowledge(const Letter& letter) {
    uint64_t expected = letter.word;
    word_.compare_exchange_strong(
        expected, (expected & ~uint64_t{3}) | uint64_t{kAcknowledged});
  }

 private:
  static constexpr size_t kWords = 8;

  // Counts up, so that a letter is never taken for a later one.
  void Set(State state) {
    const uint64_t number = word_.load(std::memory_order_relaxed) >> 2;
    word_.store((number + 1) << 2 | state, std::memory_order_release);
  }

  std::atomic<uint64_t> word_{0};  // {number:62, state:2}.
  std::array<std::atomic<uint64_t>, kWords> message_{};
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_MAILBOX_H_
