// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The holder's half of the lease protocol: claim, check, release. The owner's
// half is in free_test.h. Internal to the ledger; users have Arena and Hold.
//
// A cell records the claims of one process on one block. It is a word of 64
// bits in memory that only this process writes: the number of claims so far
// (modulo 2^32), and the number of claims still held. One word for both makes a
// claim a single step; the count of claims lets the owner see, by reading
// twice, that no claim was made and released in between.
//
// Model and code are one protocol: a comment "model: claim" names that step of
// the reference model, which walks every interleaving. Neither changes without
// the other.

#ifndef TENON_SHM_LEDGER_LEASE_H_
#define TENON_SHM_LEDGER_LEASE_H_

#include <atomic>
#include <cstdint>

#include "tenon/shm/base/atomics.h"

namespace tenon {

// {claims:32, held:32}.
struct LeaseCell {
  static constexpr uint64_t kHeld = 1;
  static constexpr uint64_t kClaim = uint64_t{1} << 32;

  static uint32_t Held(uint64_t cell) { return static_cast<uint32_t>(cell); }
  static uint32_t Claims(uint64_t cell) {
    return static_cast<uint32_t>(cell >> 32);
  }
};

// The requirements of the protocol, as values, so that tests can show that each
// of them is needed: with any one weakened, a held block is reused, or a claim
// fails that should succeed. Production code uses this one.
struct LeaseProtocol {
  static constexpr uint64_t kClaimStep = LeaseCell::kClaim + LeaseCell::kHeld;
  static constexpr bool kCheckGeneration = true;
  // Sequentially consistent, together with the owner's store of the generation
  // and its second test: of a racing claim and reclaim, at least one sees the
  // other.
  static constexpr std::memory_order kClaim = std::memory_order_seq_cst;
  static constexpr std::memory_order kLoadGeneration =
      std::memory_order_seq_cst;
  // Reads of the block happen before its reuse.
  static constexpr std::memory_order kRelease = std::memory_order_release;

  static constexpr int kPasses = 2;
  // Check the inbox again after the passes.
  static constexpr bool kInboxAfterPasses = true;
  static constexpr std::memory_order kFirstTest = std::memory_order_acquire;
  static constexpr std::memory_order kStoreGeneration =
      std::memory_order_seq_cst;
  static constexpr std::memory_order kSecondTest = std::memory_order_seq_cst;
};

template <AtomicsPolicy A = StdAtomics, typename P = LeaseProtocol>
struct Lease {
  using Word = SharedWord<uint64_t>;

  // Claims the block of `cell` if it is still of the generation in the message:
  // returns true, and the block is held until Release(). Otherwise false: the
  // block was reclaimed, and its data are lost. Acknowledge the message only
  // after this call. Wait-free. The process must have attached to the arena
  // before.
  static bool Claim(Word& cell, const Word& generation, uint64_t expected) {
    A::FetchAdd(cell, P::kClaimStep, P::kClaim);  // model: claim
    if (!P::kCheckGeneration ||
        A::Load(generation, P::kLoadGeneration) == expected) {  // model: good
      return true;
    }
    A::FetchSub(cell, LeaseCell::kHeld, P::kRelease);  // model: release
    return false;
  }

  // Drops one claim. False, without effect, if there is none.
  static bool Release(Word& cell) {
    const uint64_t before =
        A::FetchSub(cell, LeaseCell::kHeld, P::kRelease);  // model: release
    if (LeaseCell::Held(before) != 0) [[likely]]
      return true;
    // For a moment the cell seemed to be held: the owner tests again.
    A::FetchAdd(cell, LeaseCell::kHeld, std::memory_order_relaxed);
    return false;
  }
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_LEASE_H_
