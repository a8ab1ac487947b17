// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocol of a ring with one producer and any number of readers; each word
// has one writer. Internal to Ring (ring.h) and to other types that contain a
// ring: it knows nothing of files, processes or waiting, and allocates nothing.
//
//   producer: read the tails;  [reserve;]  write slots;  head = new head
//   reader:   head > tail?  copy slots;  [read `reserved`;]  tail = new tail
//
// A position counts records since the ring was made, in 64 bits. The slot of a
// position is the position modulo the capacity, a power of two. [ ]: only if
// slots may be overwritten while a reader copies them. Such a reader copies the
// words as they are, and then sees by `reserved` whether it was too late, as
// with a seqlock; it uses the copy only after that check.
//
// No process trusts a peer's word. A head that is farther from the tail than
// the capacity, or a tail that moved back or beyond the head, is reported to
// the caller, which drops that peer.

#ifndef TENON_IPC_RING_INTERNAL_RING_PROTOCOL_H_
#define TENON_IPC_RING_INTERNAL_RING_PROTOCOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

// The memory orders and steps that the protocol needs, as values, so that tests
// can show that each is needed. Production code uses this one.
struct RingProtocol {
  // Sequentially consistent, together with the loads and stores of
  // SleepProtocol: either the publisher sees the sleeper or the sleeper sees
  // the publication.
  static constexpr std::memory_order kPublish = std::memory_order_seq_cst;
  static constexpr std::memory_order kAcknowledge = std::memory_order_seq_cst;
  // The same if the sleeper fences.
  static constexpr std::memory_order kPublishFenced = std::memory_order_release;
  // For a waiter that checks again before it sleeps; elsewhere acquire would
  // do, and is the same instruction on x86.
  static constexpr std::memory_order kSeePublished = std::memory_order_seq_cst;
  static constexpr std::memory_order kSeeAcknowledged =
      std::memory_order_seq_cst;

  // If slots are overwritten: a reader that has read a word of the new record
  // also sees that its slot was reserved, or that the reader was dropped.
  static constexpr std::memory_order kWriteSlot = std::memory_order_release;
  static constexpr std::memory_order kReadSlot = std::memory_order_acquire;
  // A reader that has seen a reservation also sees the head before it.
  static constexpr std::memory_order kReserveSlot = std::memory_order_release;
  static constexpr std::memory_order kSeeReserved = std::memory_order_acquire;
  static constexpr bool kReserve = true;
  static constexpr bool kCheckReserved = true;
};

// Slots of whole words in shared memory. A record is the caller's bytes; its
// size is that of a slot.
template <AtomicsPolicy A = StdAtomics, typename P = RingProtocol>
class RingSlots {
 public:
  using Word = SharedWord<uint64_t>;

  RingSlots() = default;
  RingSlots(Word* words, uint64_t capacity, size_t words_per_slot)
      : words_(words), mask_(capacity - 1), words_per_slot_(words_per_slot) {}

  void Write(uint64_t position, const std::byte* record) {
    Word* const slot = Slot(position);
    for (size_t i = 0; i < words_per_slot_; ++i) {
      uint64_t word;
      std::memcpy(&word, record + i * sizeof(word), sizeof(word));
      A::Store(slot[i], word, P::kWriteSlot);
    }
  }

  void Read(uint64_t position, std::byte* record) const {
    const Word* const slot = Slot(position);
    for (size_t i = 0; i < words_per_slot_; ++i) {
      const uint64_t word = A::Load(slot[i], P::kReadSlot);
      std::memcpy(record + i * sizeof(word), &word, sizeof(word));
    }
  }

  // Prefetches the first cache line of a slot that will be written soon.
  void ExpectWrite(uint64_t position) const {
    __builtin_prefetch(Slot(position), 1);
  }

 private:
  Word* Slot(uint64_t position) const {
    return words_ + static_cast<size_t>(position & mask_) * words_per_slot_;
  }

  Word* words_ = nullptr;  // A reader's are mapped read-only.
  uint64_t mask_ = 0;
  size_t words_per_slot_ = 0;
};

// The producer's half. Ownership: none. Threads: one.
// Slots: RingSlots, or a test's replacement.
template <AtomicsPolicy A = StdAtomics, typename P = RingProtocol,
          typename Slots = RingSlots<A, P>>
class RingWriter {
 public:
  using Word = SharedWord<uint64_t>;

  RingWriter() = default;
  // `reserved` is null if slots that a reader may be copying are never written.
  RingWriter(Word* head, Word* reserved, Slots slots)
      : head_word_(head), reserved_word_(reserved), slots_(slots) {}

  uint64_t head() const { return head_; }
  const Slots& slots() const { return slots_; }

  // To put `count` records, for which there is room: Reserve(), Write() each,
  // Publish(), which makes them visible. Then ring.
  void Reserve(uint64_t count) {
    if (reserved_word_ == nullptr || !P::kReserve) return;
    A::Store(*reserved_word_, head_ + count, P::kReserveSlot);
  }
  template <typename Record>
  void Write(uint64_t ahead, const Record& record) {
    slots_.Write(head_ + ahead, record);
  }
  void Publish(uint64_t count, Publication publication) {
    head_ += count;
    PublishWord<A, P>(*head_word_, head_, P::kPublish, publication);
  }

 private:
  Word* head_word_ = nullptr;
  Word* reserved_word_ = nullptr;
  Slots slots_;
  uint64_t head_ = 0;
};

// The producer's view of one reader's tail. The reader counts from 0, its first
// record.
template <AtomicsPolicy A = StdAtomics, typename P = RingProtocol>
class TailWatch {
 public:
  TailWatch() = default;
  // A reader that begins at `start`.
  TailWatch(const SharedWord<uint64_t>* tail, uint64_t start)
      : word_(tail), start_(start), tail_(start) {}

  // The tail as of the last Refresh().
  uint64_t tail() const { return tail_; }

  // Reads the tail. False if it is corrupt: it moved back, or beyond `head`.
  bool Refresh(uint64_t head) {
    const uint64_t now = start_ + A::Load(*word_, P::kSeeAcknowledged);
    if (now - tail_ > head - tail_) return false;
    tail_ = now;
    return true;
  }

 private:
  const SharedWord<uint64_t>* word_ = nullptr;
  uint64_t start_ = 0;
  uint64_t tail_ = 0;
};

// A reader's half. Ownership: none. Threads: one.
template <AtomicsPolicy A = StdAtomics, typename P = RingProtocol,
          typename Slots = RingSlots<A, P>>
class RingCursor {
 public:
  using Word = SharedWord<uint64_t>;

  RingCursor() = default;
  // Begins at `start`; `tail` is 0.
  RingCursor(const Word* head, const Word* reserved, Word* tail, Slots slots,
             uint64_t capacity)
      : head_word_(head),
        reserved_word_(reserved),
        tail_word_(tail),
        slots_(slots),
        capacity_(capacity) {}
  void StartAt(uint64_t start) { start_ = tail_ = head_ = start; }

  uint64_t tail() const { return tail_; }
  // The number of readable records as far as known; at most the capacity.
  uint64_t available() const { return head_ - tail_; }

  // Reads the head. False if it is corrupt: it moved back, or is farther ahead
  // than the capacity. If the producer overwrites, the latter only means that
  // this reader was too slow: see Lost().
  bool Refresh(bool overwrites) {
    const uint64_t now = A::Load(*head_word_, P::kSeePublished);
    if (now - tail_ > capacity_) {
      if (!overwrites || now - tail_ > kFar) return false;
      head_ = tail_ + capacity_;
      return true;
    }
    // To adopt an older head would be to move back.
    if (now - tail_ < head_ - tail_) return false;
    head_ = now;
    return true;
  }

  // Copies the available record that is `ahead` of the tail.
  template <typename Record>
  void Copy(uint64_t ahead, Record&& record) const {
    slots_.Read(tail_ + ahead, record);
  }

  // After copying, if slots are overwritten: the number of records, from the
  // tail on, that were lost before they were copied. Copies beyond these are
  // whole. More than kFar: the producer's words are corrupt.
  uint64_t Lost() const {
    if (!P::kCheckReserved) return 0;
    const uint64_t reserved = A::Load(*reserved_word_, P::kSeeReserved);
    const uint64_t distance = reserved - tail_;
    // Before the first record nothing is reserved; and a reservation that
    // becomes visible late may be older than the tail.
    if (distance <= capacity_ || distance > ~kFar) return 0;
    return distance - capacity_;
  }

  // Acknowledges `count` records; the caller rings afterwards.
  void Advance(uint64_t count, Publication publication) {
    tail_ += count;
    if (head_ - tail_ > capacity_) head_ = tail_;  // Beyond the known head.
    PublishWord<A, P>(*tail_word_, tail_ - start_, P::kAcknowledge,
                      publication);
  }

  // No ring ever counts this far.
  static constexpr uint64_t kFar = uint64_t{1} << 62;

 private:
  const Word* head_word_ = nullptr;
  const Word* reserved_word_ = nullptr;
  Word* tail_word_ = nullptr;
  Slots slots_;
  uint64_t capacity_ = 0;
  uint64_t start_ = 0;
  uint64_t tail_ = 0;
  uint64_t head_ = 0;  // As of the last Refresh().
};

}  // namespace tenon

#endif  // TENON_IPC_RING_INTERNAL_RING_PROTOCOL_H_
