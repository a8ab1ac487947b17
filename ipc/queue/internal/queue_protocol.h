// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The steps of a ring with one putter and many getters, as templates over their
// atomics. Internal to Queue (queue.h), which adds membership and waiting
// (sleep_protocol.h).
//
//   putter:  room?  write slot;  head = h + 1;            ring getters
//   getter:  t = take;  t < head?  copy slot;  CAS take from t to t + 1:
//            success: owns item t; ring the putter     failure: discard, retry
//
// `take` alone decides the ownership of an item: the getter that moved it from
// t to t + 1 has item t. A getter that is killed before or after its CAS has
// changed nothing or everything, so there is nothing to repair. A slot is
// overwritten only once `take` has passed it; so the CAS of a getter with a
// torn copy fails.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_PROTOCOL_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_PROTOCOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

// The memory orders and steps that the protocol needs, as values, so that tests
// can show that each is needed. Production code uses this one.
struct QueueProtocol {
  // Sequentially consistent, together with the loads and stores of
  // SleepProtocol: either the publisher sees the sleeper or the sleeper sees
  // the publication.
  static constexpr std::memory_order kPublish = std::memory_order_seq_cst;
  static constexpr std::memory_order kTake = std::memory_order_seq_cst;
  // Replaces kPublish if all sleepers fence (sleep_protocol.h).
  static constexpr std::memory_order kPublishFenced = std::memory_order_release;
  static constexpr std::memory_order kSeePublished = std::memory_order_seq_cst;
  static constexpr std::memory_order kSeeTaken = std::memory_order_seq_cst;
  // A getter that has read a word of a later item also sees that `take` has
  // moved: for claimers, which use their copy before they take.
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

  // Prefetches the first cache line of a slot that will be written soon.
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

// The putter's half. Ownership: none. Threads: one.
// Slots: QueueSlots, or a test's replacement.
template <AtomicsPolicy A = StdAtomics, typename P = QueueProtocol,
          typename Slots = QueueSlots<A, P>>
class QueueWriter {
 public:
  using Word = SharedWord<uint64_t>;

  QueueWriter() = default;
  // Starts at the present `head`.
  QueueWriter(Word* head, const Word* take, Slots slots, uint64_t capacity)
      : head_word_(head),
        take_word_(take),
        slots_(slots),
        capacity_(capacity),
        head_(A::Load(*head, std::memory_order_relaxed)),
        take_(A::Load(*take, std::memory_order_relaxed)) {}

  uint64_t head() const { return head_; }
  // The position up to which items were taken, as of the last Refresh().
  uint64_t taken() const { return take_; }

  bool KnowsRoom(uint64_t count) const {
    return head_ - take_ + count <= capacity_;
  }
  // Reads `take`. False if it is corrupt: it moved back, or beyond the head.
  bool Refresh() {
    const uint64_t now = A::Load(*take_word_, P::kSeeTaken);
    if (now - take_ > head_ - take_) return false;
    take_ = now;
    return true;
  }

  // Writes the item at position head + `ahead`, for which there is room.
  template <typename Item>
  void Write(uint64_t ahead, const Item& item) {
    slots_.Write(head_ + ahead, item);
  }
  // Publishes `count` written items; the caller rings afterwards.
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

// A getter's half. Ownership: none. Threads: one.
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

  // Reads the ring's words. False if they are corrupt: more items than the
  // capacity, or fewer than none.
  bool Refresh() {
    for (;;) {
      take_ = A::Load(*take_word_, P::kSeeTaken);
      // The head as last read may suffice.
      if (head_ - take_ - 1 < capacity_) return true;
      const uint64_t now = A::Load(*head_word_, P::kSeePublished);
      if (now - take_ <= capacity_) {
        head_ = now;
        return true;
      }
      // Between the two loads other getters may have taken and the putter may
      // have put.
      if (StillThere()) return false;
    }
  }

  // As of the last Refresh(): the number of items, and the first position.
  uint64_t available() const { return head_ - take_; }
  uint64_t position() const { return take_; }

  // Copies the available item that is `ahead` of the first. The copy may be
  // torn if another getter has taken the item.
  template <typename Item>
  void Copy(uint64_t ahead, Item&& item) const {
    slots_.Read(take_ + ahead, item);
  }

  // Whether the first item has not been taken since Refresh(): then former
  // copies are whole.
  bool StillThere() const {
    return A::Load(*take_word_, P::kSeeTaken) == take_;
  }

  // Takes the first `count` items; the caller rings the putter afterwards.
  // False if another getter took them first.
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
