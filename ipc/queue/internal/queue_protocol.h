// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The steps of a ring with one putter and many getters, as templates over their
// atomics. Internal to Queue (queue.h), which adds membership and waiting
// (sleep_protocol.h). The slots are a SlotArray (slot_array.h).
//
//   slot:    sequence word, words of the item
//   putter:  room?  write items 2..n and their sequence words;  write item 1;
//            sequence word of item 1;  head = h + n;  ring getters
//   getter:  t = take;  is the sequence word of slot t that of item t?
//            copy slot;  CAS take from t to t + 1:
//            success: owns item t; ring the putter     failure: discard, retry
//
// The store of item 1's sequence word publishes all n items: a getter visits
// the items in their order and stops at the first that is not published. So one
// cache line carries a small item from the putter to a getter: the getter polls
// the line that the item will be in. Items 2..n are written by address, which
// visits each line once. `head` is the putter's own record of its position, for
// snapshots and for the next holder of the slot; no getter needs it.
//
// `take` alone decides the ownership of an item: the getter that moved it from
// t to t + 1 has item t. A getter that is killed before or after its CAS has
// changed nothing or everything, so there is nothing to repair. A slot is
// overwritten only once `take` has passed it; so the CAS of a getter with a
// torn copy fails.
//
// A putter that is killed before it has published item 1 has put nothing, but
// may have stored sequence words of items 2..n. No getter reaches them until
// the next holder of the slot puts an item in front of them. Before that the
// holder withdraws them, and finds the head from the sequence words, because
// the putter may also have been killed between publishing and storing `head`
// (RecoverQueueRing()).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_PROTOCOL_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_PROTOCOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/slots/slot_array.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

// The memory orders and steps that the protocol needs, as values, so that tests
// can show that each is needed. Production code uses this one. The word that
// shows that a slot may have been overwritten is `take`.
struct QueueProtocol : SlotProtocol {
  static constexpr size_t kHeaderWords = 1;  // The sequence word.
  // The next holder of a slot withdraws items that a killed putter has not
  // published.
  static constexpr bool kWithdraw = true;
};

// The sequence word of a slot. The low 56 bits are the position of the last
// item published there, plus 1 (0: none), modulo 2^56; the high 8 bits the
// number of words of a short item, 0 for a whole one.
struct QueueSequence {
  static constexpr int kPositionBits = 56;
  static constexpr uint64_t kMask = (uint64_t{1} << kPositionBits) - 1;
  static constexpr uint64_t kMaxShortWords = 255;

  static constexpr uint64_t Of(uint64_t position, uint64_t short_words) {
    return ((position + 1) & kMask) | short_words << kPositionBits;
  }
  static constexpr bool IsOf(uint64_t sequence, uint64_t position) {
    return ((sequence ^ (position + 1)) & kMask) == 0;
  }
  static constexpr uint64_t ShortWords(uint64_t sequence) {
    return sequence >> kPositionBits;
  }
};

// Slots whose header is the sequence word.
template <AtomicsPolicy A = StdAtomics, typename P = QueueProtocol>
class QueueSlots : public SlotArray<A, P> {
 public:
  using typename SlotArray<A, P>::Word;
  using SlotArray<A, P>::SlotArray;

  Word& sequence(uint64_t position) const { return *this->Slot(position); }
  uint64_t Sequence(uint64_t position) const {
    return A::Load(sequence(position), P::kSeePublished);
  }
  bool IsPublished(uint64_t position) const {
    return QueueSequence::IsOf(Sequence(position), position);
  }
  // The sequence word before the item at `position` is published: that of the
  // item one round before, or none. Without the high bits.
  uint64_t SequenceBefore(uint64_t position) const {
    return position <= this->mask_
               ? 0
               : (position - this->mask_) & QueueSequence::kMask;
  }
  bool IsBefore(uint64_t sequence, uint64_t position) const {
    return (sequence & QueueSequence::kMask) == SequenceBefore(position);
  }

  // The size of the item that `sequence` publishes, whatever its value.
  size_t BytesIn(uint64_t sequence) const {
    const size_t bytes = static_cast<size_t>(
        QueueSequence::ShortWords(sequence) * sizeof(uint64_t));
    return bytes == 0 || bytes > this->item_bytes_ ? this->item_bytes_ : bytes;
  }
};

// The position after the last published item of a ring: `head`, or beyond it if
// the putter has published items and not yet stored `head`, or was killed in
// between. A snapshot if others put or take meanwhile. If the words are
// corrupt, any value.
template <AtomicsPolicy A, typename P>
uint64_t FindQueueEnd(const SharedWord<uint64_t>& head,
                      const SharedWord<uint64_t>& take,
                      const QueueSlots<A, P>& slots, uint64_t capacity) {
  // In this order: a taken item has been put.
  const uint64_t taken = A::Load(take, P::kSeeConsumed);
  uint64_t end = A::Load(head, std::memory_order_acquire);
  if (static_cast<int64_t>(taken - end) > 0) end = taken;
  while (end - taken < capacity && slots.IsPublished(end)) ++end;
  return end;
}

// For the next holder of a slot whose putter has died, before it puts anything:
// stores the head, and withdraws items that the putter did not publish. May be
// repeated.
template <AtomicsPolicy A, typename P>
void RecoverQueueRing(SharedWord<uint64_t>& head,
                      const SharedWord<uint64_t>& take,
                      const QueueSlots<A, P>& slots, uint64_t capacity) {
  const uint64_t end = FindQueueEnd(head, take, slots, capacity);
  for (uint64_t i = 1; P::kWithdraw && i < capacity; ++i) {
    if (!slots.IsPublished(end + i)) continue;
    A::Store(slots.sequence(end + i), slots.SequenceBefore(end + i),
             P::kWriteSlot);
  }
  A::Store(head, end, std::memory_order_release);
}

// The putter's half. Ownership: none. Threads: one.
template <AtomicsPolicy A = StdAtomics, typename P = QueueProtocol>
class QueueWriter {
 public:
  using Word = SharedWord<uint64_t>;

  QueueWriter() = default;
  // Starts at the present `head`.
  QueueWriter(Word* head, const Word* take, QueueSlots<A, P> slots,
              uint64_t capacity)
      : head_word_(head),
        slots_(slots),
        capacity_(capacity),
        head_(A::Load(*head, std::memory_order_relaxed)),
        taken_(take, 0, A::Load(*take, std::memory_order_relaxed)) {}

  const QueueSlots<A, P>& slots() const { return slots_; }
  uint64_t head() const { return head_; }
  // The position up to which items were taken, as of the last Refresh().
  uint64_t taken() const { return taken_.position(); }

  bool KnowsRoom(uint64_t count) const {
    return head_ - taken() + count <= capacity_;
  }
  // Reads `take`. False if it is corrupt: it moved back, or beyond the head.
  bool Refresh() { return taken_.Refresh(head_); }

  // Writes `count` items, for which there is room, and the sequence words of
  // all but the first, of which there are `bytes` bytes.
  void Write(const std::byte* items, uint64_t count, size_t bytes) {
    for (uint64_t i = 1; i < count; ++i) {
      A::Store(slots_.sequence(head_ + i), QueueSequence::Of(head_ + i, 0),
               P::kWriteSlot);
      slots_.Write(head_ + i, items + i * slots_.item_bytes());
    }
    slots_.Write(head_, items, bytes);
  }
  // Publishes `count` written items, of which the first has `short_words` words
  // (0: it is whole). The caller calls StoreHead() and then rings.
  void Publish(uint64_t count, Publication publication,
               uint64_t short_words = 0) {
    PublishWord<A, P>(slots_.sequence(head_),
                      QueueSequence::Of(head_, short_words), P::kPublish,
                      publication);
    head_ += count;
    slots_.ExpectWrite(head_);
  }
  void StoreHead() { A::Store(*head_word_, head_, std::memory_order_release); }

 private:
  Word* head_word_ = nullptr;
  QueueSlots<A, P> slots_;
  uint64_t capacity_ = 0;
  uint64_t head_ = 0;
  ConsumedWatch<A, P> taken_;
};

// A getter's half. Ownership: none. Threads: one.
template <AtomicsPolicy A = StdAtomics, typename P = QueueProtocol>
class QueueTaker {
 public:
  using Word = SharedWord<uint64_t>;

  QueueTaker() = default;
  QueueTaker(Word* take, QueueSlots<A, P> slots, uint64_t capacity)
      : take_word_(take), slots_(slots), capacity_(capacity) {}

  // Reads the ring's words. False if they are corrupt: the sequence word at
  // `take` is neither that of the item there nor that of the item one round
  // before.
  bool Refresh() {
    for (;;) {
      take_ = A::Load(*take_word_, P::kSeeConsumed);
      sequence_ = slots_.Sequence(take_);
      if (has_item()) return true;
      // Between the two loads other getters may have taken the item, and the
      // putter may have put another one into its slot.
      if (StillThere()) return slots_.IsBefore(sequence_, take_);
    }
  }

  // As of the last Refresh(): whether there is an item, and its position or
  // that of the next one.
  bool has_item() const { return QueueSequence::IsOf(sequence_, take_); }
  uint64_t position() const { return take_; }

  // The size of the item that is `ahead` of the first; 0 if it is not there.
  // All items before it are there.
  size_t BytesAt(uint64_t ahead) const {
    if (ahead >= capacity_) return 0;
    const uint64_t sequence =
        ahead == 0 ? sequence_ : slots_.Sequence(take_ + ahead);
    return QueueSequence::IsOf(sequence, take_ + ahead)
               ? slots_.BytesIn(sequence)
               : 0;
  }

  // Copies `bytes` bytes of the item that is `ahead` of the first and is there.
  // The copy may be torn if another getter has taken the item.
  void Copy(uint64_t ahead, std::byte* item, size_t bytes) const {
    slots_.Read(take_ + ahead, item, bytes);
  }

  // Whether the first item has not been taken since Refresh(): then former
  // copies are whole.
  bool StillThere() const {
    return A::Load(*take_word_, P::kSeeConsumed) == take_;
  }

  // Takes the first `count` items; the caller rings the putter afterwards.
  // False if another getter took them first.
  bool Take(uint64_t count) {
    uint64_t expected = take_;
    return A::CompareExchange(*take_word_, expected, take_ + count,
                              P::kConsume);
  }

  const QueueSlots<A, P>& slots() const { return slots_; }

 private:
  Word* take_word_ = nullptr;
  QueueSlots<A, P> slots_;
  uint64_t capacity_ = 0;
  uint64_t take_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_PROTOCOL_H_
