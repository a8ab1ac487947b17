// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The lease protocol, the owner's half: is a block free, and take it back.
//
// Blocks that the owner has let go of are tested in batches. One test receives
// what processes that have attached since have sent, reads the cells of all
// attached processes twice, and looks whether more has come meanwhile. If a
// block's cells were the same both times and held nothing, there was one
// instant, between the passes, at which nobody held it. Then the generation
// goes up, so that whatever still names the block is refused, and the same test
// once more finds those that had claimed it before they could see that.
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

// What a test found of one block.
struct BlockVerdict {
  enum Kind : uint8_t {
    kQuiet,    // Nobody holds it, and nobody claimed it during the test.
    kHeld,     // `column` holds it.
    kMoved,    // `column` claimed and released it during the test.
    kUnknown,  // More processes attach than the test had patience for.
  };
  Kind kind = kUnknown;
  uint32_t column = 0;  // Index into the inbox's columns().
};

// Where a candidate for taking back stands. The caller keeps it, from one try
// to the next.
struct TakeBackCandidate {
  uint32_t block = 0;
  bool generation_bumped = false;
  BlockVerdict verdict;

  // Nobody holds the block, nor ever will under a generation handed out before.
  bool IsTakenBack() const {
    return generation_bumped && verdict.kind == BlockVerdict::kQuiet;
  }
};

// What the owner knows of the attached processes. Their cells are const words,
// indexed by block.
//   Receive()   takes in what has been sent to the owner until now
//   IsEmpty()   whether nothing more has been sent
//   columns()   of the processes that are attached and not known to be dead;
//               changes in Receive() only
// A process sends before it claims; either Receive() and IsEmpty() see that, or
// the process sees the generation that was stored before them. A socket does
// this by its lock. A word in shared memory must be written and read with
// sequential consistency, as cells are: acquire and release are too little.
template <typename I>
concept LeaseInbox = requires(I& inbox) {
  inbox.Receive();
  { inbox.IsEmpty() } -> std::same_as<bool>;
  {
    inbox.columns()
    } -> std::convertible_to<absl::Span<const SharedWord<uint64_t>* const>>;
};

// Ownership: holds memory between tests, nothing else. Threads: one at a time.
template <LeaseInbox Inbox, AtomicsPolicy A = StdAtomics,
          typename P = LeaseProtocol>
class FreeTest {
 public:
  using Word = SharedWord<uint64_t>;
  using Columns = absl::Span<const Word* const>;

  // Takes back what of `candidates` can be. Of those for which IsTakenBack() is
  // true afterwards, nobody holds or will ever hold the block under a
  // generation handed out before; the caller may reuse it at once. The others
  // remain candidates. `generations` is indexed by block, and written by the
  // caller alone. Does not block; bounded by the number of candidates times the
  // number of columns, whatever the holders do.
  void TakeBack(Inbox& inbox, Word* generations,
                absl::Span<TakeBackCandidate> candidates) {
    Test(inbox, candidates, P::kFirstTest);  // model: own 2, 3
    bool any = false;
    for (TakeBackCandidate& c : candidates) {
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

  // How often a block was tested, and how often it was not kQuiet.
  uint64_t tests() const { return tests_; }
  uint64_t failures() const { return failures_; }

 private:
  // How often a test begins anew because a process attached meanwhile.
  static constexpr int kPatience = 4;

  // In the second test only what was quiet in the first matters; to read the
  // others again does no harm.
  void Test(Inbox& inbox, absl::Span<TakeBackCandidate> candidates,
            std::memory_order order) {
    for (int attempt = 0; attempt < kPatience; ++attempt) {
      inbox.Receive();  // model: own 2, 4: receive
      Pass(inbox.columns(), candidates, order);
      if (!P::kInboxAfterPasses || inbox.IsEmpty()) return Count(candidates);
    }
    for (TakeBackCandidate& c : candidates) {
      c.verdict = {BlockVerdict::kUnknown, 0};
    }
    Count(candidates);
  }

  void Count(absl::Span<const TakeBackCandidate> candidates) {
    tests_ += candidates.size();
    for (const TakeBackCandidate& c : candidates) {
      failures_ += c.verdict.kind != BlockVerdict::kQuiet;
    }
  }

  void Pass(Columns columns, absl::Span<TakeBackCandidate> candidates,
            std::memory_order order) {
    seen_.resize(columns.size() * candidates.size());
    for (TakeBackCandidate& c : candidates) {
      c.verdict = {BlockVerdict::kQuiet, 0};
    }
    // All columns once before any is read again: a block may run from one
    // whose cell is read late to one whose cell has been read.
    for (size_t i = 0; i < columns.size(); ++i) {
      ReadFirst(columns[i], static_cast<uint32_t>(i), candidates, order);
    }
    if (P::kPasses < 2) return;
    for (size_t i = 0; i < columns.size(); ++i) {
      ReadAgain(columns[i], static_cast<uint32_t>(i), candidates, order);
    }
  }

  void ReadFirst(const Word* cells, uint32_t column,
                 absl::Span<TakeBackCandidate> candidates,
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
                 absl::Span<TakeBackCandidate> candidates,
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
