// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WordHistory: every value that a word of WeakMemory had, in modification
// order. A value has a time, its position in that order, which never changes:
// times leave room for later insertions.

#ifndef TENON_SHM_TESTING_SCHEDULER_WORD_HISTORY_H_
#define TENON_SHM_TESTING_SCHEDULER_WORD_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenon/shm/base/check.h"

namespace tenon {

// A view that WeakMemory keeps.
struct ViewSnapshot {
  uint32_t begin = 0;
  uint32_t size = 0;  // The rest is zero.
};

// Thread-compatible.
class WordHistory {
 public:
  struct Message {
    uint64_t value;
    uint32_t time;
    bool glued;  // A RMW: no message comes between it and the previous one.
    ViewSnapshot view;  // Joined by an acquire of this message.
  };

  // A word of `bits` with the initial value `value`.
  void Reset(uint64_t value, int bits) {
    mask_ = ~uint64_t{0} >> (64 - bits);
    messages_.assign(1, {value, 0, /*glued=*/false, {}});
  }

  size_t last() const { return messages_.size() - 1; }
  Message& operator[](size_t index) { return messages_[index]; }
  const Message& operator[](size_t index) const { return messages_[index]; }

  // Whether a new message may come right behind that one.
  bool CanFollow(size_t index) const {
    if (index == last()) return true;
    const Message& next = messages_[index + 1];
    return !next.glued && next.time - messages_[index].time >= 2;
  }

  // Puts a message right behind that one, which it must be able to follow.
  Message& Insert(size_t index, uint64_t value, bool glued) {
    const uint32_t before = messages_[index].time;
    TENON_CHECK(index < last() || before < UINT32_MAX - kTimeStep,
                "too many stores to a word in one schedule");
    const uint32_t time =
        index == last() ? before + kTimeStep
                        : before + (messages_[index + 1].time - before) / 2;
    return *messages_.insert(messages_.begin() + index + 1,
                             {value & mask_, time, glued, {}});
  }

 private:
  static constexpr uint32_t kTimeStep = 1 << 12;

  uint64_t mask_ = 0;
  std::vector<Message> messages_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_WORD_HISTORY_H_
