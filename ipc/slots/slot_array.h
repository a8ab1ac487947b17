// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The slots below rings and queues, and the steps that both take on them, as
// templates over their atomics. Internal to Ring (ring.h) and Queue (queue.h):
// knows nothing of files, processes or waiting, and allocates nothing.
//
//   producer: room?  write slots;  publish;  ring the consumers
//   consumer: published?  copy slots;  is the copy whole?  consume;  ring
//
// A position counts items since the memory was made, in 64 bits. The slot of a
// position is the position modulo the number of slots, a power of two.
//
// Rings and queues differ in the words by which they publish and consume
// (ring_protocol.h, queue_protocol.h). In both a consumer copies the words of a
// slot as they are, and uses the copy only once another word shows that the
// slot was not overwritten meanwhile; and in both the producer accepts a
// consumer's position only if it has moved forward, and not beyond the head.

#ifndef TENON_IPC_SLOTS_SLOT_ARRAY_H_
#define TENON_IPC_SLOTS_SLOT_ARRAY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/shm/base/atomics.h"

namespace tenon {

// The memory orders that both protocols need, as values, so that tests can show
// that each is needed. Production code uses these.
struct SlotProtocol {
  // The first words of each slot, which are not the item's.
  static constexpr size_t kHeaderWords = 0;
  // Sequentially consistent, together with the loads and stores of
  // SleepProtocol: either the publisher sees the sleeper or the sleeper sees
  // the publication.
  static constexpr std::memory_order kPublish = std::memory_order_seq_cst;
  static constexpr std::memory_order kConsume = std::memory_order_seq_cst;
  // The same for a store if all sleepers fence (sleep_protocol.h).
  static constexpr std::memory_order kPublishFenced = std::memory_order_release;
  // For a waiter that checks again before it sleeps; elsewhere acquire would
  // do, and is the same instruction on x86.
  static constexpr std::memory_order kSeePublished = std::memory_order_seq_cst;
  static constexpr std::memory_order kSeeConsumed = std::memory_order_seq_cst;
  // A consumer that has read a word of a later item also sees the word that
  // shows that the slot may have been overwritten.
  static constexpr std::memory_order kWriteSlot = std::memory_order_release;
  static constexpr std::memory_order kReadSlot = std::memory_order_acquire;
};

// Slots of whole words in shared memory; an item may end within a word.
template <AtomicsPolicy A = StdAtomics, typename P = SlotProtocol>
class SlotArray {
 public:
  using Word = SharedWord<uint64_t>;

  SlotArray() = default;
  // `slots` is a power of two. The header words and an item fit into
  // `words_per_slot`.
  SlotArray(Word* words, uint64_t slots, size_t item_bytes,
            size_t words_per_slot)
      : words_(words),
        mask_(slots - 1),
        item_bytes_(item_bytes),
        words_per_slot_(words_per_slot) {}

  size_t item_bytes() const { return item_bytes_; }

  // Of a whole item, or the first `bytes` bytes of one.
  void Write(uint64_t position, const std::byte* item) const {
    Write(position, item, item_bytes_);
  }
  void Write(uint64_t position, const std::byte* item, size_t bytes) const {
    Word* const words = Slot(position) + P::kHeaderWords;
    const size_t whole_words = bytes / sizeof(uint64_t);
    // This loop and the rest have a `word` each: the size of the rest is known
    // at run time only, so its word has an address, and such a word would go
    // through the stack, behind all stores to lines of other cores.
    for (size_t i = 0; i < whole_words; ++i) {
      uint64_t word;
      std::memcpy(&word, item + i * sizeof(word), sizeof(word));
      A::Store(words[i], word, P::kWriteSlot);
    }
    if (const size_t rest = bytes % sizeof(uint64_t); rest != 0) [[unlikely]] {
      uint64_t word = 0;
      std::memcpy(&word, item + whole_words * sizeof(word), rest);
      A::Store(words[whole_words], word, P::kWriteSlot);
    }
  }

  void Read(uint64_t position, std::byte* item) const {
    Read(position, item, item_bytes_);
  }
  void Read(uint64_t position, std::byte* item, size_t bytes) const {
    const Word* const words = Slot(position) + P::kHeaderWords;
    const size_t whole_words = bytes / sizeof(uint64_t);
    for (size_t i = 0; i < whole_words; ++i) {
      const uint64_t word = A::Load(words[i], P::kReadSlot);
      std::memcpy(item + i * sizeof(word), &word, sizeof(word));
    }
    if (const size_t rest = bytes % sizeof(uint64_t); rest != 0) [[unlikely]] {
      const uint64_t word = A::Load(words[whole_words], P::kReadSlot);
      std::memcpy(item + whole_words * sizeof(word), &word, rest);
    }
  }

  // After a publication: prefetches the cache line of a slot that will be
  // written soon. A consumer has that line, and some puts take as long as it
  // takes from core to core.
  void ExpectWrite(uint64_t head) const {
    __builtin_prefetch(Slot(head + 8), 1);
  }

 protected:
  Word* Slot(uint64_t position) const {
    return words_ + static_cast<size_t>(position & mask_) * words_per_slot_;
  }

  Word* words_ = nullptr;  // A reader's are mapped read-only.
  uint64_t mask_ = 0;
  size_t item_bytes_ = 0;
  size_t words_per_slot_ = 0;
};

// The producer's view of the position up to which items were consumed. The
// consumers' word counts from `start`.
template <AtomicsPolicy A = StdAtomics, typename P = SlotProtocol>
class ConsumedWatch {
 public:
  ConsumedWatch() = default;
  ConsumedWatch(const SharedWord<uint64_t>* word, uint64_t start,
                uint64_t position)
      : word_(word), start_(start), position_(position) {}

  // As of the last Refresh().
  uint64_t position() const { return position_; }

  // Reads the word. False if it is corrupt: it moved back, or beyond `head`.
  bool Refresh(uint64_t head) {
    const uint64_t now = start_ + A::Load(*word_, P::kSeeConsumed);
    if (now - position_ > head - position_) return false;
    position_ = now;
    return true;
  }

 private:
  const SharedWord<uint64_t>* word_ = nullptr;
  uint64_t start_ = 0;
  uint64_t position_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_SLOTS_SLOT_ARRAY_H_
