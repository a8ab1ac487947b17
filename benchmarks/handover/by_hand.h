// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocol by hand: the words of a ledger and a queue, and no more. It is
// the limit of a hand-over: a queue of tensors that costs more pays for the
// layers over the protocol, not for the protocol.
//
//   put      write the record; head = position + 1
//   get      record at `take`?  copy it;  claim: cell += {1 claim, 1 held};
//            generation as in the record?  CAS take
//   release  cell -= {1 held}
//   new      oldest block of this process that no cell holds: generation + 1,
//            no cell holds it still
//
// Variants of the record: of two lines beside a head (TwoLines), or of one line
// with its own sequence number instead of the head (OneLine), as a TensorQueue
// has for one dense tensor. Variants of the steps: locked, as a TensorQueue
// has, or as plain stores (Plain), which suffice if one thread owns the cell,
// one thread gets, and the owner of a block fences all threads before it reuses
// one.
//
// Two processes, one thread each, trust each other, and do not die.

#ifndef TENON_BENCHMARKS_HANDOVER_BY_HAND_H_
#define TENON_BENCHMARKS_HANDOVER_BY_HAND_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"

namespace tenon::benchmarks::by_hand {

using A = StdAtomics;
using Word = SharedWord<uint64_t>;

// Of each process.
inline constexpr uint64_t kSlots = 64, kBlocks = 128;
// A cell: {claims:32, held:32}.
inline constexpr uint64_t kHeld = 1, kClaim = (uint64_t{1} << 32) + kHeld;
inline constexpr size_t kBlockBytes = 4096;

// The blocks of each process.
template <size_t kBytesOfEach, uint64_t kNumber>
struct BlocksOf {
  static constexpr size_t kBytes = kBytesOfEach;
  static constexpr uint64_t kCount = kNumber;
};
using Blocks4K = BlocksOf<kBlockBytes, kBlocks>;

// The content of a record: a block of process `owner`.
struct Message {
  uint64_t owner = 0;
  uint64_t block = 0;
  uint64_t generation = 0;
  uint64_t bytes = 0;
};

struct Locked {
  static void Add(Word& word, uint64_t value, std::memory_order order) {
    A::FetchAdd(word, value, order);
  }
  static bool Take(Word& take, uint64_t position) {
    return A::CompareExchange(take, position, position + 1,
                              std::memory_order_seq_cst);
  }
};
struct Plain {
  static void Add(Word& word, uint64_t value, std::memory_order) {
    const uint64_t before = A::Load(word, std::memory_order_relaxed);
    A::Store(word, before + value, std::memory_order_release);
  }
  static bool Take(Word& take, uint64_t position) {
    A::Store(take, position + 1, std::memory_order_release);
    return true;
  }
};

// Write and read all words of a record; those after the message are zero.
template <size_t kWords>
void WriteWords(std::array<Word, kWords>& words, const Message& message) {
  std::array<uint64_t, kWords> values = {message.owner, message.block,
                                         message.generation, message.bytes};
  for (size_t i = 0; i < kWords; ++i) {
    A::Store(words[i], values[i], std::memory_order_release);
  }
}
template <size_t kWords>
Message ReadWords(const std::array<Word, kWords>& words) {
  std::array<uint64_t, kWords> values;
  for (size_t i = 0; i < kWords; ++i) {
    values[i] = A::Load(words[i], std::memory_order_acquire);
  }
  TENON_CHECK(values[kWords - 1] == 0, "a corrupt record");
  return {values[0], values[1], values[2], values[3]};
}

// The rings; initially zero.
struct TwoLines {
  void Put(uint64_t position, const Message& message) {
    WriteWords(slots[position % kSlots].words, message);
    A::Store(head, position + 1, std::memory_order_release);
  }
  bool Has(uint64_t position) const {
    return A::Load(head, std::memory_order_acquire) > position;
  }
  Message Read(uint64_t position) const {
    return ReadWords(slots[position % kSlots].words);
  }
  // Fetches the record together with the head.
  void Expect(uint64_t position) const {
    const Slot& slot = slots[position % kSlots];
    __builtin_prefetch(&slot.words[0]);
    __builtin_prefetch(&slot.words[8]);
  }

  struct alignas(64) Slot {
    std::array<Word, 16> words;
  };
  alignas(64) Word take;
  alignas(64) Word head;
  std::array<Slot, kSlots> slots;
};

struct OneLine {
  void Put(uint64_t position, const Message& message) {
    Slot& slot = slots[position % kSlots];
    WriteWords(slot.words, message);
    A::Store(slot.sequence, position + 1, std::memory_order_release);
  }
  bool Has(uint64_t position) const {
    return A::Load(slots[position % kSlots].sequence,
                   std::memory_order_acquire) == position + 1;
  }
  Message Read(uint64_t position) const {
    return ReadWords(slots[position % kSlots].words);
  }
  void Expect(uint64_t) const {}

  struct alignas(64) Slot {
    Word sequence;
    std::array<Word, 7> words;
  };
  alignas(64) Word take;
  std::array<Slot, kSlots> slots;
};

// In memory that both processes share; initially zero. By process: a ring that
// it writes; of its blocks the generations, the bytes, and the cells of each
// process.
template <typename Ring, typename Blocks>
struct Memory {
  std::array<Ring, 2> rings;
  alignas(64) std::array<std::array<Word, Blocks::kCount>, 2> generations;
  // [column][owner][block]
  alignas(
      64) std::array<std::array<std::array<Word, Blocks::kCount>, 2>, 2> cells;
  alignas(4096) std::array<
      std::array<std::array<std::byte, Blocks::kBytes>, Blocks::kCount>,
      2> bytes;
};

// One process's end. Ownership: the memory outlives it. Threads: one.
template <typename Ring, typename Steps, typename Blocks = Blocks4K>
class End {
 public:
  using Item = Message;

  End(Memory<Ring, Blocks>& memory, uint64_t self)
      : memory_(memory), self_(self) {}

  // A block of this process, held.
  Message New() {
    const uint64_t block = next_++ % Blocks::kCount;
    Word& generation = memory_.generations[self_][block];
    SpinUntil([&] { return IsFree(block) || (DropTaken(), false); });
    const uint64_t now = A::Load(generation, std::memory_order_relaxed) + 1;
    A::Store(generation, now, std::memory_order_seq_cst);
    SpinUntil([&] { return IsFree(block); });
    const Message message = {self_, block, now, Blocks::kBytes};
    Word& cell = CellOf(message);  // No other thread has the block.
    A::Store(cell, A::Load(cell, std::memory_order_relaxed) + kClaim,
             std::memory_order_relaxed);
    return message;
  }

  std::span<std::byte> Bytes(const Message& message) {
    return memory_.bytes[message.owner][message.block];
  }

  // Holds the block until the message is taken.
  void Put(const Message& message) { Put(message, message); }
  // The caller holds it.
  void PutKeeping(const Message& message) { Put(message, Message()); }

  // The next message, its block held.
  Message Get() {
    for (;;) {
      SpinUntil([&] { return In().Has(got_) || (In().Expect(got_), false); });
      const Message message = In().Read(got_);
      Word& cell = CellOf(message);
      Steps::Add(cell, kClaim, std::memory_order_seq_cst);
      const uint64_t generation =
          A::Load(memory_.generations[message.owner][message.block],
                  std::memory_order_seq_cst);
      TENON_CHECK(generation == message.generation, "a reused block");
      const bool taken = Steps::Take(In().take, got_++);
      if (taken) return message;
      Release(message);  // Another thread has taken it.
    }
  }

  void Release(const Message& message) {
    Steps::Add(CellOf(message), -kHeld, std::memory_order_release);
  }

  // All that was put.
  void AwaitTaken() {
    SpinUntil([&] { return taken_ == put_ || (DropTaken(), false); });
  }

 private:
  static constexpr uint64_t kKept = 16;

  Ring& Out() { return memory_.rings[self_]; }
  Ring& In() { return memory_.rings[1 - self_]; }
  Word& CellOf(const Message& m) {
    return memory_.cells[self_][m.owner][m.block];
  }

  // `to_drop` is released once the message is taken, unless it is empty.
  void Put(const Message& message, const Message& to_drop) {
    if (put_ - dropped_ >= kKept) DropTaken();
    SpinUntil([&] { return put_ - taken_ < kSlots || (DropTaken(), false); });
    sent_[put_ % sent_.size()] = to_drop;
    Out().Put(put_++, message);
  }

  // Whether no process holds the block of this process.
  bool IsFree(uint64_t block) const {
    for (const auto& column : memory_.cells) {
      const Word& cell = column[self_][block];
      const uint64_t now = A::Load(cell, std::memory_order_acquire);
      if (static_cast<uint32_t>(now) != 0) return false;
    }
    return true;
  }

  // Releases the blocks of taken messages.
  void DropTaken() {
    taken_ = A::Load(Out().take, std::memory_order_acquire);
    for (; dropped_ < taken_; ++dropped_) {
      const Message& sent = sent_[dropped_ % sent_.size()];
      if (sent.bytes != 0) Release(sent);
    }
  }

  Memory<Ring, Blocks>& memory_;
  const uint64_t self_;
  std::array<Message, 2 * kSlots> sent_;  // From dropped_ to put_.
  uint64_t put_ = 0, taken_ = 0, dropped_ = 0, got_ = 0, next_ = 0;
};

}  // namespace tenon::benchmarks::by_hand

#endif  // TENON_BENCHMARKS_HANDOVER_BY_HAND_H_
