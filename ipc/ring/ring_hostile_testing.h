// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of rings: readers and producers with forged words and descriptors.

#ifndef TENON_IPC_RING_RING_HOSTILE_TESTING_H_
#define TENON_IPC_RING_RING_HOSTILE_TESTING_H_

#include <sys/eventfd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/ring/internal/ring_fds.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/control_memory.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {

inline constexpr auto kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
inline constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

inline const Deadline kNow = Deadline::Passed();
inline Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

inline constexpr uint64_t kCapacity = 8;

inline std::unique_ptr<RingProducer> MakeRing(
    RingPolicy policy = RingPolicy::kWait) {
  return RingProducer::Create({.capacity = kCapacity, .policy = policy})
      .value();
}

// A memory and a bell with arbitrary contents.
class Forger {
 public:
  explicit Forger(size_t bytes)
      : memory_(ControlMemory::Create(bytes, "forged").value()),
        bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    EXPECT_THAT(memory_.Reserve({0, bytes}), IsOk());
  }
  std::byte* data() const { return memory_.data(); }
  RingFds Fds() const { return CopyRingFds(memory_.fd(), bell_.get()).value(); }

 private:
  ControlMemory memory_;
  UniqueFd bell_;
};

class ForgedReader : public Forger {
 public:
  ForgedReader() : Forger(4096) {
    words().magic = RingReaderWords::kMagic;
    words().version = RingVersion();
  }
  RingReaderWords& words() const {
    return *reinterpret_cast<RingReaderWords*>(data());
  }
  RingReply Reply(const RingOffer& offer) const {
    RingReply reply;
    reply.message.ring = offer.message.ring;
    reply.message.index = offer.message.index;
    reply.message.number = offer.message.number;
    reply.fds = Fds();
    return reply;
  }
  absl::StatusOr<uint64_t> Join(RingProducer& ring) const {
    return ring.AddReader(Reply(ring.Offer().value()));
  }
};

class ForgedProducer : public Forger {
 public:
  explicit ForgedProducer(RingPolicy policy)
      : Forger(kRingSlotsOffset + kCapacity * sizeof(Record)) {
    words().geometry.policy = static_cast<uint32_t>(policy);
    words().geometry.magic = RingGeometry::kMagic;
    words().geometry.version = RingVersion();
    words().geometry.record_bytes = sizeof(Record);
    words().geometry.capacity = kCapacity;
    StdAtomics::Store(words().readers[0].state,
                      1 << 2 | RingProducerWords::kReading,
                      std::memory_order_relaxed);
  }
  RingProducerWords& words() const {
    return *reinterpret_cast<RingProducerWords*>(data());
  }
  RingOffer Offer() const {
    RingOffer offer;
    offer.message.geometry = words().geometry;
    offer.message.number = 1;
    offer.fds = Fds();
    return offer;
  }
  std::unique_ptr<RingReader> Reader() const {
    return RingReader::Attach(Offer()).value();
  }
};

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_HOSTILE_TESTING_H_
