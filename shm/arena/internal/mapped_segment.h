// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MappedSegment: a segment of an arena that this process has mapped, and the
// number of holds in it. Internal to AttachedArena.

#ifndef TENON_SHM_ARENA_INTERNAL_MAPPED_SEGMENT_H_
#define TENON_SHM_ARENA_INTERNAL_MAPPED_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/stored_segment.h"

namespace tenon {

// The part of a MappedSegment that needs no lock. Any thread may try to enter;
// only threads that have entered, or have claimed a block and see the segment
// open, may read the members.
class SegmentAccess {
 public:
  // Enters if segment `id` is open here, which keeps it from being closed.
  bool Enter(uint32_t id) {
    uint64_t now = state_.load(std::memory_order_relaxed);
    do {
      if (now >> 32 != id || (now & kOpen) == 0) return false;
    } while (!state_.compare_exchange_weak(now, now + kUser,
                                           std::memory_order_acquire,
                                           std::memory_order_relaxed));
    return true;
  }
  void Leave() { state_.fetch_sub(kUser, std::memory_order_release); }

  // A thread that has claimed a block of segment `id` before and sees it open
  // here need not enter: the claim keeps it from being closed, see Close().
  bool IsOpen(uint32_t id) const {
    const uint64_t now = state_.load(std::memory_order_seq_cst);
    return now >> 32 == id && (now & kOpen) != 0;
  }

  const ArenaSegment& listed() const { return listed_; }
  const std::byte* data() const { return data_; }
  // How many segments were opened here: another mapping has another number.
  uint64_t opened() const { return opened_; }

 protected:
  SegmentAccess() = default;
  ~SegmentAccess() = default;

  static constexpr uint64_t kOpen = 1;
  static constexpr uint64_t kUser = 2;

  std::atomic<uint64_t> state_{0};  // {id:32, users:31, open:1}.
  ArenaSegment listed_;
  const std::byte* data_ = nullptr;
  uint64_t opened_ = 0;
};

// A slot for successive segments. One thread at a time opens, reads and closes
// it; other threads use its SegmentAccess meanwhile.
class MappedSegment : public SegmentAccess {
 public:
  bool is_open() const {
    return (state_.load(std::memory_order_relaxed) & kOpen) != 0;
  }
  uint32_t id() const {
    return static_cast<uint32_t>(state_.load(std::memory_order_relaxed) >> 32);
  }

  // Of a closed slot. `memory` is mapped.
  void Open(const ArenaSegment& listed, std::unique_ptr<StoredSegment> memory) {
    listed_ = listed;
    ++opened_;
    users_ = 0;
    memory_ = std::move(memory);
    data_ = memory_->data();
    state_.store(uint64_t{listed.id()} << 32 | kOpen,
                 std::memory_order_release);
  }
  // False if a thread has entered it, or `is_claimed`, whether this process has
  // a claim on one of its blocks, is true once it seems closed.
  bool Close(absl::FunctionRef<bool()> is_claimed) {
    uint64_t idle = uint64_t{id()} << 32 | kOpen;
    if (!state_.compare_exchange_strong(idle, idle & ~kOpen,
                                        std::memory_order_seq_cst)) {
      return false;
    }
    if (is_claimed()) {
      state_.store(idle, std::memory_order_release);
      return false;
    }
    memory_.reset();
    return true;
  }

  // Of an open slot.
  const StoredSegment& memory() const { return *memory_; }
  // How many AttachedArenas it was added to.
  int users() const { return users_; }
  void AddUser() { ++users_; }
  void RemoveUser() { --users_; }

 private:
  int users_ = 0;
  std::unique_ptr<StoredSegment> memory_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_MAPPED_SEGMENT_H_
