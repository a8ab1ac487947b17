// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The owner's half of the lease protocol: tests whether a block is free, and
// reclaims it.
//
// Blocks that the owner has released are tested in batches. One test receives
// the pending attach messages, reads the cells of all attached processes twice,
// and checks whether more messages have arrived meanwhile. If a block's cells
// were the same both times and had no claims, there was one instant, between
// the passes, at which no process held it. Then the generation is raised, so
// that messages that still name the block are rejected, and a second test finds
// processes that claimed the block before they could see the new generation.
//
// See lease.h for the protocol and what "model:" means.

#ifndef TENON_SHM_LEDGER_FREE_TEST_H_
#define TENON_SHM_LEDGER_FREE_TEST_H_

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/ledger/lease.h"

namespace tenon {

// The result of a test of one block.
struct BlockVerdict {
  enum Kind : uint8_t {
    kQuiet,     // No process held or claimed it during the test.
    kHeld,      // `column` holds it.
    kMoved,     // `column` claimed and released it during the test.
    kUnknown,   // Processes attached in each of the test's attempts.
    kWithheld,  // A refused process may hold it. See LeaseInbox.
  };
  Kind kind = kUnknown;
  uint32_t column = 0;  // Index into the inbox's columns().
};

// The progress of a candidate for reclaiming. The caller keeps it between
// attempts.
struct ReclaimCandidate {
  uint32_t block = 0;
  bool generation_bumped = false;
  // Of attachments, until the block was handed out. See LeaseInbox.
  uint64_t refusals = 0;
  BlockVerdict verdict;

  // No process holds the block, or ever will under a generation published
  // before.
  bool IsReclaimed() const {
    return generation_bumped && verdict.kind == BlockVerdict::kQuiet;
  }
};

// The owner's record of the attached processes. Their cells are const words,
// indexed by block.
//   Receive()   receives the messages sent to the owner until now
//   IsEmpty()   whether no further message has been sent
//   columns()   of the processes that are attached and not known to be dead;
//               changes in Receive() only
//   newest_refusal()  the number of the newest refusal of a process that may
//               still hold blocks, and whose cells are not in columns(); 0 if
//               there is none
// Refusals are numbered from 1 on, and published in a word that each claim
// reads. A block that was handed out when refusals had been counted up to n is
// not held by the processes of refusals 1 to n: their claims on it follow its
// messages, which follow the refusals, and fail (model: refuse).
// A process sends before it claims; either Receive() and IsEmpty() see that, or
// the process sees the generation that was stored before them. A socket
// provides this by its lock. A word in shared memory must be written and read
// with sequential consistency, as cells are: acquire and release are too
// little.
template <typename I>
concept LeaseInbox = requires(I& inbox) {
  inbox.Receive();
  { inbox.IsEmpty() } -> std::same_as<bool>;
  {
    inbox.columns()
    } -> std::convertible_to<absl::Span<const SharedWord<uint64_t>* const>>;
  { inbox.newest_refusal() } -> std::convertible_to<uint64_t>;
};

// Ownership: keeps only memory between tests. Threads: one at a time.
template <LeaseInbox Inbox, AtomicsPolicy A = StdAtomics,
          typename P = LeaseProtocol>
class FreeTest {
 public:
  using Word = SharedWord<uint64_t>;
  using Columns = absl::Span<const Word* const>;

  // Reclaims those `candidates` that are free. If IsReclaimed() is true
  // afterwards, no process holds or will ever hold the block under a generation
  // published before; the caller may reuse it at once. The others remain
  // candidates. `generations` is indexed by block, and written by the caller
  // alone. Does not block; bounded by the number of candidates times the number
  // of columns, whatever the holders do.
  void Reclaim(Inbox& inbox, Word* generations,
               absl::Span<ReclaimCandidate> candidates) {
    Test(inbox, candidates, P::kFirstTest);  // model: own 2, 3
    bool any = false;
    for (ReclaimCandidate& c : candidates) {
      if (c.verdict.kind != BlockVerdict::kQuiet) continue;
      any = true;
      if (c.generation_bumped) continue;
      const uint64_t now =
          A::Load(generations[c.block], std::memory_order_relaxed);
      A::Store(generations[c.block], now + 1, P::kStoreGeneration);
      c.generation_bumped = true;  // model: gen = 1
    }
    if (any) Test(inbox, candidates, P::kSecondTest);  // model: own 4, 5
  }

  // The number of tests of blocks, and of those not kQuiet.
  uint64_t tests() const { return tests_; }
  uint64_t failures() const { return failures_; }

 private:
  // The attempts of a test that is restarted because a process attached
  // meanwhile.
  static constexpr int kPatience = 4;

  // In the second test only blocks that were quiet in the first matter; reading
  // the others again is harmless.
  void Test(Inbox& inbox, absl::Span<ReclaimCandidate> candidates,
            std::memory_order order) {
    for (int attempt = 0; attempt < kPatience; ++attempt) {
      inbox.Receive();  // model: own 2, 4: receive
      Pass(inbox.columns(), candidates, order);
      Withhold(inbox.newest_refusal(), candidates);
      if (!P::kInboxAfterPasses || inbox.IsEmpty()) return Count(candidates);
    }
    for (ReclaimCandidate& c : candidates) {
      c.verdict = {BlockVerdict::kUnknown, 0};
    }
    Count(candidates);
  }

  // model: withholds
  void Withhold(uint64_t newest_refusal,
                absl::Span<ReclaimCandidate> candidates) {
    for (ReclaimCandidate& c : candidates) {
      if (c.refusals < newest_refusal) {
        c.verdict = {BlockVerdict::kWithheld, 0};
      }
    }
  }

  void Count(absl::Span<const ReclaimCandidate> candidates) {
    tests_ += candidates.size();
    for (const ReclaimCandidate& c : candidates) {
      failures_ += c.verdict.kind != BlockVerdict::kQuiet;
    }
  }

  void Pass(Columns columns, absl::Span<ReclaimCandidate> candidates,
            std::memory_order order) {
    seen_.resize(columns.size() * candidates.size());
    for (ReclaimCandidate& c : candidates) {
      c.verdict = {BlockVerdict::kQuiet, 0};
    }
    // All columns once before any is read again: a block may be forwarded from
    // a process whose cell is read late to one whose cell has been read.
    for (size_t i = 0; i < columns.size(); ++i) {
      ReadFirst(columns[i], static_cast<uint32_t>(i), candidates, order);
    }
    if (P::kPasses < 2) return;
    for (size_t i = 0; i < columns.size(); ++i) {
      ReadAgain(columns[i], static_cast<uint32_t>(i), candidates, order);
    }
  }

  void ReadFirst(const Word* cells, uint32_t column,
                 absl::Span<ReclaimCandidate> candidates,
                 std::memory_order order) {
    uint64_t* seen = &seen_[column * candidates.size()];
    for (size_t b = 0; b < candidates.size(); ++b) {
      const uint64_t cell = A::Load(cells[candidates[b].block], order);
      seen[b] = cell;
      if (LeaseCell::Held(cell) != 0) {
        candidates[b].verdict = {BlockVerdict::kHeld, column};
      }
    }
  }

  void ReadAgain(const Word* cells, uint32_t column,
                 absl::Span<ReclaimCandidate> candidates,
                 std::memory_order order) {
    const uint64_t* seen = &seen_[column * candidates.size()];
    for (size_t b = 0; b < candidates.size(); ++b) {
      if (candidates[b].verdict.kind != BlockVerdict::kQuiet) continue;
      const uint64_t cell = A::Load(cells[candidates[b].block], order);
      if (cell != seen[b]) {
        candidates[b].verdict = {BlockVerdict::kMoved, column};
      }
    }
  }

  std::vector<uint64_t> seen_;  // By column, then candidate.
  uint64_t tests_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_FREE_TEST_H_
