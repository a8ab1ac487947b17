// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The memory layout of a queue. Internal to Queue (queue.h).
//
//   0     QueueGeometry: magic, version, type, sizes
//   64    closed, membership, fenced
//   128   of each slot: QueueParticipant
//   then, at a multiple of 4096, the item slots of each participant's ring: a
//   sequence word and the item, as in queue_protocol.h
//
// All words are initially zero. `take`, `joiner` and `membership` have several
// writers; the first line of a participant is written by the process that holds
// `joiner`, `state` also by the participant when it leaves; each other word of
// a participant is its own. Words with different readers or writers are in
// different cache lines.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_LAYOUT_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_LAYOUT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/base/wire_version.h"

namespace tenon {

// The label of a queue's memory; the queue's name follows it.
inline constexpr char kQueueLabel[] = "tenon.queue.";

// The layout version that this build reads and writes.
inline uint32_t QueueVersion() { return WireVersion(4); }

struct QueueGeometry {
  static constexpr uint64_t kMagic = 0x31657565756e6554;  // "Tenueue1".
  static constexpr uint64_t kMaxItemBytes = 64 * 1024;
  static constexpr uint64_t kMaxCapacity = uint64_t{1} << 24;
  static constexpr uint64_t kMaxParticipants = 64;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

  uint64_t magic = kMagic;
  uint32_t version = QueueVersion();
  uint32_t type = 0;  // A QueueType.
  uint64_t item_bytes = 0;
  uint64_t capacity = 0;  // Items per participant.
  uint64_t participants = 0;
  // 1: a participant that is alone waits for others to join.
  uint64_t waits_alone = 0;
  RandomId id;

  // No product here overflows if the single sizes are valid.
  constexpr bool valid() const {
    return item_bytes >= 1 && item_bytes <= kMaxItemBytes && capacity >= 1 &&
           capacity <= kMaxCapacity && participants >= 1 &&
           participants <= kMaxParticipants && waits_alone <= 1 &&
           bytes() <= kMaxBytes;
  }

  // A slot of up to 64 bytes lies in one cache line. Larger slots are packed,
  // so that a stream of them moves no unused bytes; but where items may be
  // short each begins at a line: that of the sequence word and of 56 bytes.
  constexpr uint64_t bytes_per_slot() const {
    const uint64_t bytes = 8 + (item_bytes + 7) / 8 * 8;
    if (bytes <= 64) return std::bit_ceil(bytes);
    return has_short_items() ? (bytes + 63) & ~uint64_t{63} : bytes;
  }
  // Whether an item that is put alone may have less than item_bytes.
  constexpr bool has_short_items() const {
    return type == static_cast<uint32_t>(QueueType::kTensors);
  }
  constexpr uint64_t words_per_slot() const { return bytes_per_slot() / 8; }
  constexpr uint64_t slots() const { return std::bit_ceil(capacity); }
  // A whole number of cache lines.
  constexpr uint64_t ring_bytes() const {
    return (slots() * bytes_per_slot() + 63) & ~uint64_t{63};
  }
  constexpr uint64_t slots_offset() const;
  constexpr uint64_t bytes() const {
    return slots_offset() + participants * ring_bytes();
  }

  friend bool operator==(const QueueGeometry&, const QueueGeometry&) = default;
};

// At offset 0.
struct QueueWords {
  QueueGeometry geometry;
  // `closed` is 1 once no more items may be put. `membership` counts joins and
  // leaves.
  alignas(64) SharedWord<uint64_t> closed;
  SharedWord<uint64_t> membership;
  // 1: all participants fence their peers before they sleep, and are fenced.
  // Set once, before any other process maps the memory.
  uint64_t fenced;
};

// The words of one slot, shared by its present and former holders.
struct QueueParticipant {
  // In the low two bits of `state`; above them the generation of the holder.
  enum State : uint64_t { kFree = 0, kReady = 1, kLeft = 2 };

  alignas(64) SharedWord<uint64_t> state;
  // 0: no participant has ever been ready here.
  SharedWord<uint64_t> generation;
  SharedWord<uint64_t> was_ready;
  SharedWord<uint64_t> lost;  // Begun and not done by former holders.
  // A RobustWord, held by the thread that is joining in this slot.
  SharedWord<uint32_t> joiner;
  alignas(64) SharedWord<uint64_t> get_sleeping;
  alignas(64) SharedWord<uint64_t> put_sleeping;
  alignas(64) SharedWord<uint64_t> join_sleeping;
  // Of its ring; they pass from one holder of the slot to the next. `head`, the
  // number of items put, is stored after they are published: after the death of
  // its writer it may be behind (FindQueueEnd()).
  alignas(64) SharedWord<uint64_t> head;
  alignas(64) SharedWord<uint64_t> take;
  // Counts of taken tasks; they pass to the next holder, too.
  alignas(64) SharedWord<uint64_t> begun;
  SharedWord<uint64_t> done;
  // Of the sleeps of calls that get, and that put; they pass to the next
  // holder, too. Written by the thread that gets, or puts.
  alignas(64) TimeWords get_waits;
  TimeWords put_waits;
};

// QueueParticipant::state: the state in the low bits, the generation above.
inline QueueParticipant::State QueueStateOf(uint64_t word) {
  return static_cast<QueueParticipant::State>(word & 3);
}
inline uint64_t QueueGenerationOf(uint64_t word) { return word >> 2; }

// The reasons for which a participant may sleep; each has a bell of its own.
enum class QueueWait : size_t { kGet = 0, kPut = 1, kJoin = 2 };
inline constexpr size_t kQueueWaits = 3;

inline constexpr size_t kQueueParticipantsOffset = 128;

constexpr uint64_t QueueGeometry::slots_offset() const {
  return (kQueueParticipantsOffset + participants * sizeof(QueueParticipant) +
          4095) &
         ~uint64_t{4095};
}

static_assert(std::is_trivially_copyable_v<QueueGeometry>);
static_assert(std::has_unique_object_representations_v<QueueGeometry>);
static_assert(std::is_standard_layout_v<QueueParticipant>);
static_assert(sizeof(QueueGeometry) == 64);
static_assert(sizeof(QueueWords) == kQueueParticipantsOffset);
static_assert(offsetof(QueueWords, closed) == 64);
static_assert(sizeof(QueueParticipant) == 1152);
static_assert(offsetof(QueueParticipant, head) == 256);
static_assert(offsetof(QueueParticipant, take) == 320);

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_LAYOUT_H_
