// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimInbox: an arena owner's record of attachments in a LeaseSimulation, with
// the socket and the leases, which it shares with the attached processes. See
// LeaseInbox (free_test.h).

#ifndef TENON_SHM_LEDGER_SIM_INBOX_H_
#define TENON_SHM_LEDGER_SIM_INBOX_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/ledger/lease_route.h"
#include "tenon/shm/ledger/sim_processes.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"

namespace tenon {

// It and the words live in the body of a schedule.
template <typename P>
class SimInbox {
 public:
  using Word = SharedWord<uint64_t>;

  // `cells` has a word for each column.
  SimInbox(SimProcesses& processes, const LeaseRoute& route, const Word* cells)
      : processes_(processes), route_(route), cells_(cells) {
    for (int p = 0; p < kSimProcesses; ++p) {
      if ((route.attached >> p & 1) == 0) continue;
      received_ |= Bit(SimColumn(p, 0));
      state_[SimColumn(p, 0)] = kAttached;
    }
    uint64_t sent = received_;
    for (int p = 0; p < kSimProcesses; ++p) {
      if ((route.before >> p & 1) != 0) sent |= Bit(SimColumn(p, 0));
    }
    *socket_.address() = sent;
  }

  void NameWords(Schedule& schedule) const {
    schedule.Name(socket_, "socket");
    if (route_.refused != 0) schedule.Name(refusals_, "refusals");
    for (int c = 0; c < kSimColumns; ++c) {
      if (route_.HasEnds() && route_.Uses(c)) {
        schedule.Name(leases_[c], "lease", c);
      }
    }
  }

  // --- By attaching processes. ---

  void Send(int column) {
    SimAtomics::FetchAdd(socket_, Bit(column), P::kSocketSend);
  }
  void HangUp(int column) {
    SimAtomics::FetchAdd(leases_[column], kHungUp, P::kHangUp);
  }
  bool IsShut(int column) const { return (Poll(column) & kShut) != 0; }
  uint64_t ReadRefusals() const {
    return SimAtomics::Load(refusals_, P::kReadRefusals);
  }

  // --- By the owner. ---

  void Receive() {
    if (route_.HasEnds()) SeeEnds();
    const uint64_t before = received_;
    received_ = ReadSocket();
    for (int c = 0; c < kSimColumns; ++c) {
      if ((received_ & ~before & Bit(c)) != 0) Attach(c);
    }
    Collect();
  }

  bool IsEmpty() { return ReadSocket() == received_; }

  uint64_t newest_refusal() const {
    uint64_t newest = 0;
    for (int c = 0; c < kSimColumns; ++c) {
      if (state_[c] == kRefused) newest = std::max(newest, refusal_[c]);
    }
    return P::kRefusedWithholds ? newest : 0;
  }
  // When a block is taken from its shelf.
  uint64_t CountRefusals() const {
    return SimAtomics::Load(refusals_, std::memory_order_relaxed);
  }

  absl::Span<const Word* const> columns() const {
    return absl::MakeConstSpan(columns_.data(), count_);
  }

  // From the next Receive() on, ended columns are ignored.
  void SeeEnds() {
    for (int c = 0; c < kSimColumns; ++c) SeeEnd(c);
  }

  // The value that a test reads from a cell with `value`, if the owner ignores
  // ended columns during a test: these do not seem to move.
  uint64_t ReadAmid(const Word& cell, uint64_t value) {
    for (int c = 0; c < kSimColumns; ++c) {
      if (cells_ + c != &cell) continue;
      SeeEnd(c);
      if (state_[c] != kEnded) return read_[c] = value;
      return read_[c] & ~uint64_t{UINT32_MAX};  // No claims are held.
    }
    return value;
  }

 private:
  enum State : uint8_t { kUnknown, kAttached, kRefused, kEnded };

  // Of a lease.
  static constexpr uint64_t kShut = 1;    // By the owner, once.
  static constexpr uint64_t kHungUp = 2;  // By the process; counted.

  static uint64_t Bit(int column) { return uint64_t{1} << column; }

  uint64_t ReadSocket() {
    if (!P::kSocketHasLock) return SimAtomics::Load(socket_, P::kSocketRead);
    return SimAtomics::FetchAdd(socket_, 0, P::kSocketRead);
  }

  uint64_t Poll(int column) const {
    return SimAtomics::Load(leases_[column], std::memory_order_relaxed);
  }

  void Attach(int column) {
    const int process = SimProcessOf(column);
    const bool first = column == SimColumn(process, 0);
    state_[column] = kAttached;
    if (CountOf(process) > route_.limit && P::kEndsSeenAtLimit) SeeEnds();
    if (state_[column] == kEnded) return;
    const bool refused = first && (route_.refused >> process & 1) != 0;
    if (CountOf(process) <= route_.limit && !refused) return;
    state_[column] = kRefused;
    refusal_[column] = ++count_refused_;
    if (P::kShutThenCount) Shut(column);
    SimAtomics::Store(refusals_, count_refused_, P::kCountRefusal);
    if (!P::kShutThenCount) Shut(column);
  }

  int CountOf(int process) const {
    int count = 0;
    for (int i = 0; i < kSimAttachments; ++i) {
      const State state = state_[SimColumn(process, i)];
      count += state == kAttached || state == kRefused;
    }
    return count;
  }

  bool IsWatched(int column) const {
    const State state = state_[column];
    return state == kAttached || (state == kRefused && P::kRefusedWatched);
  }

  void SeeEnd(int column) {
    if (!IsWatched(column) || !HasEnded(column)) return;
    const int first = SimColumn(SimProcessOf(column), 0);
    for (int c = first; c < first + kSimAttachments; ++c) {
      if (c == column || !P::kEndIsOfOne) End(c);
    }
  }

  bool HasEnded(int column) {
    if (route_.HasEnds() && Poll(column) >= kHungUp) return true;
    return processes_.IsDead(SimProcessOf(column));
  }

  void End(int column) {
    if (state_[column] == kUnknown || state_[column] == kEnded) return;
    if (route_.HasEnds()) Shut(column);
    state_[column] = kEnded;
  }

  // Takes the lock, also of a lease that is already shut: steps before the
  // hang-up happen before the owner's steps from now on.
  void Shut(int column) {
    SimAtomics::FetchAdd(leases_[column], shut_[column] ? 0 : kShut, P::kShut);
    shut_[column] = true;
  }

  void Collect() {
    count_ = 0;
    for (int i = 0; i < kSimColumns; ++i) {
      const int c = route_.reversed ? kSimColumns - 1 - i : i;
      if (state_[c] == kAttached) columns_[count_++] = cells_ + c;
    }
  }

  SimProcesses& processes_;
  const LeaseRoute& route_;
  const Word* const cells_;
  Word socket_{0};    // Bit c: column c was sent.
  Word refusals_{0};  // So many.
  std::array<Word, kSimColumns> leases_{Word(0), Word(0), Word(0), Word(0),
                                        Word(0), Word(0), Word(0), Word(0)};

  // Of the owner alone.
  uint64_t received_ = 0;
  std::array<State, kSimColumns> state_ = {};
  std::array<bool, kSimColumns> shut_ = {};
  uint64_t count_refused_ = 0;
  std::array<uint64_t, kSimColumns> refusal_ = {};  // Their numbers.
  std::array<uint64_t, kSimColumns> read_ = {};
  std::array<const Word*, kSimColumns> columns_ = {};
  size_t count_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_SIM_INBOX_H_
