// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingGeometry: the sizes and the policy of a ring, as its memory and its
// offers have them.

#ifndef TENON_IPC_RING_RING_GEOMETRY_H_
#define TENON_IPC_RING_RING_GEOMETRY_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tenon/shm/base/cplusplus_20.h"
#include "tenon/shm/base/wire_version.h"

namespace tenon {

// The action when a reader is so slow that the ring is full.
enum class RingPolicy : uint32_t {
  kWait = 0,        // Put() waits for it.
  kDropOldest = 1,  // The oldest record is overwritten: the reader loses it.
  kDropReader = 2,  // The reader is dropped: it loses its unread records.
};

// The layout version that this build reads and writes.
inline uint32_t RingVersion() { return WireVersion(1); }

struct RingGeometry {
  static constexpr uint64_t kMagic = 0x31676e69726e6554;  // "Tenring1".
  static constexpr uint64_t kMaxRecordBytes = 64 * 1024;
  static constexpr uint64_t kMaxCapacity = uint64_t{1} << 24;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
  static constexpr uint64_t kMaxReaders = 64;

  uint64_t magic = kMagic;
  uint32_t version = RingVersion();
  uint32_t policy = 0;  // A RingPolicy.
  uint64_t record_bytes = 0;
  uint64_t capacity = 0;

  // Records of whole words, their number a power of two, within the limits. No
  // product here overflows.
  constexpr bool valid_sizes() const {
    return record_bytes >= 8 && record_bytes <= kMaxRecordBytes &&
           record_bytes % 8 == 0 && std::has_single_bit(capacity) &&
           capacity <= kMaxCapacity && capacity * record_bytes <= kMaxBytes;
  }

  friend bool operator==(const RingGeometry&, const RingGeometry&) = default;
};

static_assert(std::is_trivially_copyable_v<RingGeometry>);
static_assert(std::has_unique_object_representations_v<RingGeometry>);
static_assert(sizeof(RingGeometry) == 32);

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_GEOMETRY_H_
