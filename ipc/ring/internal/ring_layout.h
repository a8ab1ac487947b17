// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The memory layouts of a ring. Internal to Ring (ring.h).
//
// The producer's, read by all readers:
//   0     RingGeometry: magic, version, policy, sizes
//   64    head, reserved, closed
//   128   sleeping, of the producer
//   192   of each reader: state, start
//   4096  slots, capacity * record_bytes
// Each reader's, read by the producer:
//   0     magic, version
//   64    tail, left
//   128   sleeping, of the reader
//
// All words are initially zero. Words with different readers or writers are in
// different cache lines.

#ifndef TENON_IPC_RING_INTERNAL_RING_LAYOUT_H_
#define TENON_IPC_RING_INTERNAL_RING_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/slots/slot_array.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

// At the start of the producer's memory.
struct RingProducerWords {
  struct Entry {
    // The number of a reader, times 4, plus a State. 0: no reader.
    SharedWord<uint64_t> state;
    // The reader's first position; earlier records are not for it.
    SharedWord<uint64_t> start;
  };
  enum State : uint64_t { kNone = 0, kReading = 1, kDropped = 2 };

  RingGeometry geometry;
  // Positions, and whether the ring is closed.
  alignas(64) SharedWord<uint64_t> head;
  SharedWord<uint64_t> reserved;
  SharedWord<uint64_t> closed;
  alignas(64) SharedWord<uint64_t> sleeping;
  // 1: Doorbell::fences(). Set once, before any reader maps it; readers fence
  // only if it is 1.
  uint64_t fences;
  alignas(64) Entry readers[RingGeometry::kMaxReaders];
};

inline constexpr size_t kRingSlotsOffset = 4096;

// The size of the producer's memory, and the slots in it. A reader, whose
// mapping is read-only, only reads them.
constexpr uint64_t RingBytes(const RingGeometry& geometry) {
  return kRingSlotsOffset + geometry.capacity * geometry.record_bytes;
}
inline SlotArray<StdAtomics, RingProtocol> RingSlotsIn(
    const std::byte* memory, const RingGeometry& geometry) {
  auto* const words = const_cast<SharedWord<uint64_t>*>(
      reinterpret_cast<const SharedWord<uint64_t>*>(memory + kRingSlotsOffset));
  return {words, geometry.capacity, geometry.record_bytes,
          geometry.record_bytes / sizeof(uint64_t)};
}

// All of a reader's memory.
struct RingReaderWords {
  static constexpr uint64_t kMagic = 0x3172646165726e54;  // "Tnreadr1".

  uint64_t magic;
  uint64_t version;
  alignas(64) SharedWord<uint64_t> tail;
  SharedWord<uint64_t> left;  // 1: the reader has left.
  alignas(64) SharedWord<uint64_t> sleeping;
  uint64_t fences;  // As the producer's.
};

static_assert(std::is_standard_layout_v<RingProducerWords>);
static_assert(offsetof(RingProducerWords, head) == 64);
static_assert(offsetof(RingProducerWords, sleeping) == 128);
static_assert(offsetof(RingProducerWords, readers) == 192);
static_assert(sizeof(RingProducerWords) <= kRingSlotsOffset);
static_assert(offsetof(RingReaderWords, tail) == 64);
static_assert(offsetof(RingReaderWords, sleeping) == 128);

}  // namespace tenon

#endif  // TENON_IPC_RING_INTERNAL_RING_LAYOUT_H_
