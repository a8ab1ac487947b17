// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocol of a ring with one producer and any number of readers; each word
// has one writer. Internal to Ring (ring.h) and to other types that contain a
// ring: it knows nothing of files, processes or waiting, and allocates nothing.
//
//   producer: read the tails;  [reserve;]  write slots;  head = new head
//   reader:   head > tail?  copy slots;  [read `reserved`;]  tail = new tail
//
// The slots are a SlotArray (slot_array.h). [ ]: only if slots may be
// overwritten while a reader copies them. Such a reader sees by `reserved`
// whether it was too late, as with a seqlock.
//
// No process trusts a peer's word. A head that is farther from the tail than
// the capacity, or a tail that moved back or beyond the head, is reported to
// the caller, which drops that peer.

#ifndef TENON_IPC_RING_INTERNAL_RING_PROTOCOL_H_
#define TENON_IPC_RING_INTERNAL_RING_PROTOCOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/slots/slot_array.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

// The memory orders and steps that the protocol needs, as values, so that tests
// can show that each is needed. Production code uses this one. Where slots are
// overwritten, the word that shows it is `reserved`, or the reader's state.
struct RingProtocol : SlotProtocol {
  // A reader that has seen a reservation also sees the head before it.
  static constexpr std::memory_order kReserveSlot = std::memory_order_release;
  static constexpr std::memory_order kSeeReserved = std::memory_order_acquire;
  static constexpr bool kReserve = true;
  static constexpr bool kCheckReserved = true;
};

// The producer's half. Ownership: none. Threads: one.
// Slots: SlotArray, or a test's replacement.
template <AtomicsPolicy A = StdAtomics, typename P = RingProtocol,
          typename Slots = SlotArray<A, P>>
class RingWriter {
 public:
  using Word = SharedWord<uint64_t>;

  RingWriter() = default;
  // `reserved` is null if slots that a reader may be copying are never written.
  RingWriter(Word* head, Word* reserved, Slots slots)
      : head_word_(head), reserved_word_(reserved), slots_(slots) {}

  uint64_t head() const { return head_; }

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
    slots_.ExpectWrite(head_);
  }

 private:
  Word* head_word_ = nullptr;
  Word* reserved_word_ = nullptr;
  Slots slots_;
  uint64_t head_ = 0;
};

// A reader's half. Ownership: none. Threads: one.
template <AtomicsPolicy A = StdAtomics, typename P = RingProtocol,
          typename Slots = SlotArray<A, P>>
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
    PublishWord<A, P>(*tail_word_, tail_ - start_, P::kConsume, publication);
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
