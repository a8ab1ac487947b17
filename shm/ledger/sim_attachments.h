// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimAttachments: how processes attach to an arena, detach and attach anew in a
// LeaseSimulation. An attachment is known by its column.
//
// Each claim has a reference to its attachment, and so does the process, until
// it detaches: the last one to drop its reference hangs up the lease. (In the
// code: the shared_ptr in each Hold.) The threads of a process share, as if by
// a mutex, which attachment is the newest, and which was sent: these are not
// words of the simulation, and order nothing in it.

#ifndef TENON_SHM_LEDGER_SIM_ATTACHMENTS_H_
#define TENON_SHM_LEDGER_SIM_ATTACHMENTS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "tenon/shm/base/atomics.h"
#include "tenon/shm/ledger/lease_route.h"
#include "tenon/shm/ledger/sim_inbox.h"
#include "tenon/shm/ledger/sim_processes.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"

namespace tenon {

// It and the words live in the body of a schedule.
template <typename P>
class SimAttachments {
 public:
  using Word = SharedWord<uint64_t>;

  static constexpr int kNone = -1;

  SimAttachments(SimProcesses& processes, const LeaseRoute& route,
                 SimInbox<P>& inbox)
      : processes_(processes), route_(route), inbox_(inbox) {
    for (int p = 0; p < kSimProcesses; ++p) {
      sent_[SimColumn(p, 0)] = ((route.attached | route.before) >> p & 1) != 0;
    }
  }

  void NameWords(Schedule& schedule) const {
    for (int c = 0; c < kSimColumns; ++c) {
      if (route_.HasEnds() && route_.Uses(c)) {
        schedule.Name(references_[c], "references", c);
      }
    }
  }

  // A reference to the newest attachment, which has been sent unless P sends it
  // late; kNone if the process dies before, or the owner has ended.
  int Acquire(int process) {
    const int column = AcquireNewest(process);
    if (P::kAttachLate || Send(column)) return column;
    Drop(column);
    return kNone;
  }

  void Drop(int column) {
    if (!route_.HasEnds()) return;
    const uint64_t before =
        SimAtomics::FetchSub(references_[column], 1, P::kDropReference);
    if (before == kLeft + 1) HangUp(column);
  }

  // Makes claims go through the next attachment. False if they do already, or
  // there is no other.
  bool Leave(int column) {
    const int process = SimProcessOf(column);
    if (column != SimColumn(process, 0) || newest_[process] != 0) return false;
    newest_[process] = 1;
    if (!P::kHangUpWhenReleased) HangUp(column);
    const uint64_t before =
        SimAtomics::FetchAdd(references_[column], kLeft - 1, P::kDropReference);
    if (before == 1) HangUp(column);
    return true;
  }

  // False if the process dies before, or the owner has ended.
  bool Send(int column) {
    const int process = SimProcessOf(column);
    const bool anew = column != SimColumn(process, 0);
    if (anew && !P::kSendAnew) return true;
    for (;;) {
      if (sent_[column]) return true;
      if (MayAttach(column) && !sending_[column]) break;
      if (processes_.MustStop(process)) return false;
      SimAtomics::Pause();
    }
    sending_[column] = true;
    if (route_.refused != 0) refusals_seen_[column] = inbox_.ReadRefusals();
    inbox_.Send(column);
    return sent_[column] = true;
  }

  bool WasSent(int column) const { return sent_[column]; }

  // At a claim. Polls the lease if refusals have been counted since the last
  // call.
  bool FindsShut(int column) {
    const uint64_t now = inbox_.ReadRefusals();
    if (now == refusals_seen_[column]) return false;
    if (inbox_.IsShut(column)) return true;
    refusals_seen_[column] = now;
    return false;
  }

 private:
  // In a count of references: the process has dropped its own.
  static constexpr uint64_t kLeft = uint64_t{1} << 32;

  int AcquireNewest(int process) {
    if (!route_.HasEnds()) return SimColumn(process, 0);
    for (;;) {
      const int newest = P::kClaimThroughNewest ? newest_[process] : 0;
      const int column = SimColumn(process, newest);
      const uint64_t before = SimAtomics::FetchAdd(references_[column], 1,
                                                   std::memory_order_relaxed);
      if ((before & kLeft) == 0 || !P::kClaimThroughNewest) return column;
      Drop(column);
    }
  }

  bool MayAttach(int column) const {
    const int first = SimColumn(SimProcessOf(column), 0);
    if (column == first || !sent_[first]) return true;
    if (route_.limit > 1 || !P::kCheckLimit) return true;
    if (P::kCountUntilShut) return inbox_.IsShut(first);
    return SimAtomics::Load(hung_up_[first], std::memory_order_acquire) != 0;
  }

  void HangUp(int column) {
    if (!sent_[column]) return;
    inbox_.HangUp(column);
    if (route_.limit == 1) {
      SimAtomics::Store(hung_up_[column], 1, P::kNoteHangUp);
    }
  }

  SimProcesses& processes_;
  const LeaseRoute& route_;
  SimInbox<P>& inbox_;
  std::array<Word, kSimColumns> references_{Word(1), Word(1), Word(1), Word(1),
                                            Word(1), Word(1), Word(1), Word(1)};
  std::array<Word, kSimColumns> hung_up_{Word(0), Word(0), Word(0), Word(0),
                                         Word(0), Word(0), Word(0), Word(0)};
  // Of the process alone.
  std::array<int, kSimProcesses> newest_ = {};
  std::array<bool, kSimColumns> sending_ = {};
  std::array<bool, kSimColumns> sent_ = {};
  std::array<uint64_t, kSimColumns> refusals_seen_ = {};
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_SIM_ATTACHMENTS_H_
