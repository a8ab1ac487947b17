// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingReaders: the readers of a ring, as its producer sees them: offers, tails
// and ends. Internal to RingProducer (ring_producer.h).

#ifndef TENON_IPC_RING_INTERNAL_RING_READERS_H_
#define TENON_IPC_RING_INTERNAL_RING_READERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_report.h"
#include "tenon/ipc/slots/slot_array.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {

// `head` is the number of records put, everywhere.
// Ownership: memory and bell are the producer's and outlive it; owns the
//   readers' replies.
// Threads: thread-compatible.
// Trust: a tail is accepted only if it moves forward and not beyond the head.
class RingReaders {
 public:
  RingReaders(const ControlMemory* memory, RandomId ring, Doorbell* bell,
              std::string what)
      : memory_(*memory),
        ring_(ring),
        bell_(*bell),
        what_(std::move(what)),
        capacity_(words().geometry.capacity),
        policy_(static_cast<RingPolicy>(words().geometry.policy)),
        slots_(RingGeometry::kMaxReaders) {}

  // As the functions of RingProducer.
  absl::StatusOr<RingOffer> Offer();
  absl::StatusOr<uint64_t> Add(RingReply reply, uint64_t head);
  absl::Status Remove(uint64_t number);
  std::vector<RingEnd> TakeEnded() { return std::exchange(ended_, {}); }

  // Drops the reader of that number, if there is one.
  void Drop(uint64_t number, const absl::Status& why);
  // Drops readers that have died. One system call.
  absl::Status DropDead();

  // Reads all tails. False if a reader has left or its tail is corrupt.
  bool Refresh(uint64_t head);
  // The same; drops readers that have left or whose tail is corrupt, and with
  // kDropReader those that leave no room for `count`.
  void RefreshAndDrop(uint64_t head, uint64_t count);

  bool HasRoom(uint64_t head, uint64_t count) const {
    return head - oldest_ + count <= capacity_;
  }
  // The smallest tail at the last refresh.
  uint64_t oldest() const { return oldest_; }
  bool empty() const { return readers_.empty(); }
  size_t size() const { return readers_.size(); }
  // That of the last dropped reader; OK if no reader was dropped yet.
  const absl::Status& last_end() const { return last_end_; }
  std::string DescribeSlowest(uint64_t head) const;

  // How records are published to these readers, which are rung afterwards.
  Publication publication() const { return publication_; }
  [[gnu::always_inline]] void RingAll() {
    for (const auto& reader : readers_) reader->ringer.Ring();
  }
  uint64_t rings() const;

 private:
  struct Reader {
    uint64_t number = 0;
    size_t index = 0;
    ControlView memory;
    std::optional<PidFd> process;
    DoorbellRinger ringer;
    bool fences = false;
    ConsumedWatch<> tail;

    const RingReaderWords& words() const {
      return *reinterpret_cast<const RingReaderWords*>(memory.data());
    }
    // A producer that falls asleep without a fence must see it or be rung, as
    // with a tail: hence seq_cst (sleep_protocol.h).
    bool has_left() const {
      return StdAtomics::Load(words().left, std::memory_order_seq_cst) != 0;
    }
    std::string Describe() const;
  };
  struct Slot {
    uint64_t number = 0;  // 0: free.
    bool joined = false;
  };

  RingProducerWords& words() const {
    return *reinterpret_cast<RingProducerWords*>(memory_.data());
  }
  absl::Status CheckReply(const RingReplyMessage& message) const;
  void LetIn(std::unique_ptr<Reader> reader, uint64_t head);
  void ChoosePublication();
  void DropBad(uint64_t head);
  void DropSlow(uint64_t head, uint64_t count);

  const ControlMemory& memory_;
  const RandomId ring_;
  Doorbell& bell_;
  const std::string what_;
  const uint64_t capacity_;
  const RingPolicy policy_;
  std::vector<std::unique_ptr<Reader>> readers_;
  Publication publication_ = Publication::kSequential;
  std::vector<Slot> slots_;
  std::vector<RingEnd> ended_;
  absl::Status last_end_;
  uint64_t oldest_ = 0;
  uint64_t next_number_ = 1;
  uint64_t old_rings_ = 0;  // Of dropped readers.
};

}  // namespace tenon

#endif  // TENON_IPC_RING_INTERNAL_RING_READERS_H_
