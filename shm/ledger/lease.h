// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The lease protocol, a holder's half: claim, check, release. The owner's half
// is in free_test.h. Internal to the ledger; users have Arena and Hold.
//
// A cell says how one process holds one block. It is a word of 64 bits in
// memory that only this process writes: how often it has claimed the block
// (modulo 2^32), and how many of these claims it still holds. That both are one
// word lets a claim be one step; that claims are counted lets the owner see, by
// reading twice, that nothing was claimed and released in between.
//
// Model and code are one protocol: what a comment calls "model: claim" is that
// step of the reference model, in which every interleaving is walked. Neither
// changes without the other.

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

// What the protocol needs, as values, so that tests can show that each of them
// is needed: with any one weakened, the block of somebody is reused or a claim
// fails that should not. Production code has this one.
struct LeaseProtocol {
  static constexpr uint64_t kClaimStep = LeaseCell::kClaim + LeaseCell::kHeld;
  static constexpr bool kCheckGeneration = true;
  // Sequentially consistent, together with the owner's store of the generation
  // and its second test: of a claim and a take-back that race, at least one
  // sees the other.
  static constexpr std::memory_order kClaim = std::memory_order_seq_cst;
  static constexpr std::memory_order kLoadGeneration =
      std::memory_order_seq_cst;
  // What was read of the block happens before it is reused.
  static constexpr std::memory_order kRelease = std::memory_order_release;

  static constexpr int kPasses = 2;
  // Look into the inbox again after the passes.
  static constexpr bool kInboxAfterPasses = true;
  static constexpr std::memory_order kFirstTest = std::memory_order_acquire;
  static constexpr std::memory_order kStoreGeneration =
      std::memory_order_seq_cst;
  static constexpr std::memory_order kSecondTest = std::memory_order_seq_cst;
};

template <AtomicsPolicy A = StdAtomics, typename P = LeaseProtocol>
struct Lease {
  using Word = SharedWord<uint64_t>;

  // Claims the block of `cell`, if it still is of the generation that the
  // message named: true, and it is held until Release(). Else nothing is held:
  // the block was taken back, and its data are lost. Only then may the message
  // be acknowledged. Wait-free. The process has attached to the arena before.
  static bool Claim(Word& cell, const Word& generation, uint64_t expected) {
    A::FetchAdd(cell, P::kClaimStep, P::kClaim);  // model: claim
    if (!P::kCheckGeneration ||
        A::Load(generation, P::kLoadGeneration) == expected) {  // model: good
      return true;
    }
    A::FetchSub(cell, LeaseCell::kHeld, P::kRelease);  // model: release
    return false;
  }

  // Gives back one claim. False, and nothing has changed, if there is none.
  static bool Release(Word& cell) {
    const uint64_t before =
        A::FetchSub(cell, LeaseCell::kHeld, P::kRelease);  // model: release
    if (LeaseCell::Held(before) != 0) [[likely]]
      return true;
    // For a moment the cell seemed to be held: the owner looks again.
    A::FetchAdd(cell, LeaseCell::kHeld, std::memory_order_relaxed);
    return false;
  }
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_LEASE_H_
