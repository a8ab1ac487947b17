// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The steps of putting into a ring that many take from, as templates of their
// atomics. Internal to Queue (queue.h), which adds who there is and how to wait
// (sleep_protocol.h).
//
//   putter:  room?  write slot;  head = h + 1;            ring getters
//   getter:  t = take;  t < head?  copy slot;  CAS take from t to t + 1:
//            won: it is mine; ring the putter     lost: throw it away, again
//
// `take` is all that says whose an item is: whoever moved it from t to t + 1
// has item t, once, and one that is killed before or after has changed nothing
// or everything. Until then it changes nothing, so there is nothing to repair.
// A slot is written over only once `take` has passed it; so a copy that is torn
// is one whose CAS fails.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_PROTOCOL_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_PROTOCOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

// What the protocol needs, as values, so that tests can show that each of them
// is needed. Production code has this one.
struct QueueProtocol {
  // Sequentially consistent, together with the loads and stores of
  // SleepProtocol: who publishes sees the sleeper, or is seen by him.
  static constexpr std::memory_order kPublish = std::memory_order_seq_cst;
  static constexpr std::memory_order kTake = std::memory_order_seq_cst;
  // In place of kPublish if all who sleep fence (sleep_protocol.h).
  static constexpr std::memory_order kPublishFenced = std::memory_order_release;
  static constexpr std::memory_order kSeePublished = std::memory_order_seq_cst;
  static constexpr std::memory_order kSeeTaken = std::memory_order_seq_cst;
  // Who has seen a word of a later item sees that `take` has moved on: for
  // those that look at their copy before they take.
  static constexpr std::memory_order kWriteSlot = std::memory_order_release;
  static constexpr std::memory_order kReadSlot = std::memory_order_acquire;
  static constexpr bool kCopyFirst = true;  // Else take, then copy.
};

// Slots of whole words; an item may end within a word.
template <AtomicsPolicy A = StdAtomics, typename P = QueueProtocol>
class QueueSlots {
 public:
  using Word = SharedWord<uint64_t>;

  QueueSlots() = default;
  QueueSlots(Word* words, uint64_t slots, size_t item_bytes)
      : words_(words),
        mask_(slots - 1),
        whole_words_(item_bytes / sizeof(uint64_t)),
        rest_bytes_(item_bytes % sizeof(uint64_t)),
        words_per_slot_(whole_words_ + (rest_bytes_ != 0)) {}

  void Write(uint64_t position, const std::byte* item) {
    Word* const slot = Slot(position);
    uint64_t word;
    for (size_t i = 0; i < whole_words_; ++i) {
      std::memcpy(&word, item + i * sizeof(word), sizeof(word));
      A::Store(slot[i], word, P::kWriteSlot);
    }
    if (rest_bytes_ == 0) return;
    word = 0;
    std::memcpy(&word, item + whole_words_ * sizeof(word), rest_bytes_);
    A::Store(slot[whole_words_], word, P::kWriteSlot);
  }

  void Read(uint64_t position, std::byte* item) const {
    const Word* const slot = Slot(position);
    uint64_t word;
    for (size_t i = 0; i < whole_words_; ++i) {
      word = A::Load(slot[i], P::kReadSlot);
      std::memcpy(item + i * sizeof(word), &word, sizeof(word));
    }
    if (rest_bytes_ == 0) return;
    word = A::Load(slot[whole_words_], P::kReadSlot);
    std::memcpy(item + whole_words_ * sizeof(word), &word, rest_bytes_);
  }

  // Asks for the first cache line of a slot that will be written soon.
  void ExpectWrite(uint64_t position) const {
    __builtin_prefetch(Slot(position), 1);
  }

 private:
  Word* Slot(uint64_t position) const {
    return words_ + static_cast<size_t>(position & mask_) * words_per_slot_;
  }

  Word* words_ = nullptr;
  uint64_t mask_ = 0;
  size_t whole_words_ = 0;
  size_t rest_bytes_ = 0;
  size_t words_per_slot_ = 0;
};

// The half of the ring's owner. Ownership: none. Threads: one.
// Slots: as QueueSlots, or what a test puts in its place.
template <AtomicsPolicy A = StdAtomics, typename P = QueueProtocol,
          typename Slots = QueueSlots<A, P>>
class QueueWriter {
 public:
  using Word = SharedWord<uint64_t>;

  QueueWriter() = default;
  // Goes on where `head` is.
  QueueWriter(Word* head, const Word* take, Slots slots, uint64_t capacity)
      : head_word_(head),
        take_word_(take),
        slots_(slots),
        capacity_(capacity),
        head_(A::Load(*head, std::memory_order_relaxed)),
        take_(A::Load(*take, std::memory_order_relaxed)) {}

  uint64_t head() const { return head_; }
  // Up to where items were taken when last looked at.
  uint64_t taken() const { return take_; }

  bool KnowsRoom(uint64_t count) const {
    return head_ - take_ + count <= capacity_;
  }
  // Looks at `take`. False if it says what cannot be: that it went back, or
  // beyond the head.
  bool Refresh() {
    const uint64_t now = A::Load(*take_word_, P::kSeeTaken);
    if (now - take_ > head_ - take_) return false;
    take_ = now;
    return true;
  }

  // Writes an item that is `ahead` of the head, for which there is room.
  template <typename Item>
  void Write(uint64_t ahead, const Item& item) {
    slots_.Write(head_ + ahead, item);
  }
  // Shows `count` written items, and then: ring.
  void Publish(uint64_t count, Publication publication) {
    head_ += count;
    PublishWord<A, P>(*head_word_, head_, P::kPublish, publication);
  }

  const Slots& slots() const { return slots_; }

 private:
  Word* head_word_ = nullptr;
  const Word* take_word_ = nullptr;
  Slots slots_;
  uint64_t capacity_ = 0;
  uint64_t head_ = 0;
  uint64_t take_ = 0;
};

// The half of one who takes from a ring. Ownership: none. Threads: one.
template <AtomicsPolicy A = StdAtomics, typename P = QueueProtocol,
          typename Slots = QueueSlots<A, P>>
class QueueTaker {
 public:
  using Word = SharedWord<uint64_t>;

  QueueTaker() = default;
  QueueTaker(const Word* head, Word* take, Slots slots, uint64_t capacity)
      : head_word_(head),
        take_word_(take),
        slots_(slots),
        capacity_(capacity) {}

  // Looks at the ring. False if its words say what cannot be: that there is
  // more in it than it holds, or less than nothing.
  bool Look() {
    for (;;) {
      take_ = A::Load(*take_word_, P::kSeeTaken);
      // What was seen of the head before may do.
      if (head_ - take_ - 1 < capacity_) return true;
      const uint64_t now = A::Load(*head_word_, P::kSeePublished);
      if (now - take_ <= capacity_) {
        head_ = now;
        return true;
      }
      // Others may have taken, and the owner put, between the two.
      if (StillThere()) return false;
    }
  }

  // As was seen by Look(): how many there are, and the first of them.
  uint64_t available() const { return head_ - take_; }
  uint64_t position() const { return take_; }

  // Copies the item that is `ahead` of the first, and available. It may be torn
  // if it is not there any more.
  template <typename Item>
  void Copy(uint64_t ahead, Item&& item) const {
    slots_.Read(take_ + ahead, item);
  }

  // Whether nobody has taken the first item since Look(): then what was copied
  // before is whole.
  bool StillThere() const {
    return A::Load(*take_word_, P::kSeeTaken) == take_;
  }

  // Takes the first `count`, and then: ring the owner. False if somebody else
  // was faster.
  bool Take(uint64_t count) {
    uint64_t expected = take_;
    return A::CompareExchange(*take_word_, expected, take_ + count, P::kTake);
  }

 private:
  const Word* head_word_ = nullptr;
  Word* take_word_ = nullptr;
  Slots slots_;
  uint64_t capacity_ = 0;
  uint64_t take_ = 0;
  uint64_t head_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_PROTOCOL_H_
