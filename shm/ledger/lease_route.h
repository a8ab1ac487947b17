// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The input of a simulation of the lease protocol: a route with its events
// (LeaseRoute), under the correct rules or wrong ones (SimLeaseProtocol).

#ifndef TENON_SHM_LEDGER_LEASE_ROUTE_H_
#define TENON_SHM_LEDGER_LEASE_ROUTE_H_

#include <algorithm>
#include <atomic>
#include <vector>

#include "tenon/shm/ledger/lease.h"

namespace tenon {

// Each process has two columns at most, one for each of its attachments.
constexpr int kSimProcesses = 4;
constexpr int kSimAttachments = 2;
constexpr int kSimColumns = kSimProcesses * kSimAttachments;

constexpr int SimColumn(int process, int attachment) {
  return process * kSimAttachments + attachment;
}
constexpr int SimProcessOf(int column) { return column / kSimAttachments; }

// In a route: processes 1 and 2 race for the item of a queue.
constexpr int kQueue = -1;

// Sets of processes: bit p is process p.
struct LeaseRoute {
  std::vector<int> hops;  // Processes or kQueue; the first is 0, the owner.
  bool reversed = false;  // The columns are read from the last to the first.

  int detaching = 0;  // These detach once, at any time, and attach anew.
  int refused = 0;    // The owner refuses the first attachment of these.
  int limit = 2;      // Attachments of one process at a time.
  int attached = 1;   // These are attached before the first message.
  // These have attached for an earlier block. The owner receives that at any
  // time: before it takes the block from its shelf, or later.
  int before = 0;
  bool retired = false;  // The segment, once the block is reclaimed.
  bool moving = false;   // Process 1 gives its cells to another arena.

  // Does an attachment end before its process?
  bool HasEnds() const { return detaching != 0 || refused != 0 || moving; }
  bool Uses(int column) const {
    const int process = SimProcessOf(column);
    if (column != SimColumn(process, 0) && !HasEnds()) return false;
    return std::any_of(hops.begin(), hops.end(), [&](int hop) {
      return hop == process ||
             (hop == kQueue && (process == 1 || process == 2));
    });
  }
};

// The correct protocol of the users of a lease. A wrong variant hides one of
// these values, or one of LeaseProtocol's.
struct SimLeaseProtocol : LeaseProtocol {
  static constexpr bool kAcknowledgeFirst = false;  // Then claim.
  static constexpr bool kDropEarly = false;   // Before the acknowledgement.
  static constexpr bool kAttachLate = false;  // After the acknowledgement.
  static constexpr bool kTakeFirst = false;   // From the queue, then claim.
  static constexpr bool kTakeBySwap = true;   // Else by a load and a store.
  static constexpr std::memory_order kAcknowledge = std::memory_order_release;
  static constexpr std::memory_order kTake = std::memory_order_acq_rel;
  // The owner's socket. A call of the kernel takes the lock of the socket,
  // which is a read-modify-write even if the socket is empty.
  static constexpr bool kSocketHasLock = true;
  static constexpr std::memory_order kSocketSend = std::memory_order_acq_rel;
  static constexpr std::memory_order kSocketRead = std::memory_order_acq_rel;

  // Detach. Each claim has a reference to its attachment; the last one to drop
  // its reference hangs up.
  static constexpr bool kHangUpWhenReleased = true;  // Else on detaching.
  static constexpr bool kClaimThroughNewest = true;  // Else the first one.
  static constexpr bool kSendAnew = true;            // The second column too.
  static constexpr bool kEndIsOfOne = true;          // Else of its process.
  static constexpr bool kEndsBetweenTests = true;    // Else amid them, too.
  // Its cells are assigned, and sent, to another arena once it has detached and
  // the owner has shut its end.
  static constexpr bool kGiveDetachedOnly = true;
  static constexpr bool kGiveWhenShut = true;
  static constexpr bool kSendToOtherArena = true;
  static constexpr std::memory_order kDropReference = std::memory_order_acq_rel;
  // The lease. Shutting an end down takes the lock of the socket; a poll of it
  // without a timeout is a load without any order.
  static constexpr std::memory_order kHangUp = std::memory_order_acq_rel;
  static constexpr std::memory_order kShut = std::memory_order_acq_rel;

  // Limit. A process counts its attachments until it has hung up; the owner
  // polls the leases before it refuses one for the limit.
  static constexpr bool kCheckLimit = true;
  static constexpr bool kCountUntilShut = false;  // By the owner.
  static constexpr bool kEndsSeenAtLimit = true;
  static constexpr bool kReceiveUntested = true;  // While no test runs.
  // What a thread does after a hang-up by another thread of its process happens
  // after it: their mutex.
  static constexpr std::memory_order kNoteHangUp = std::memory_order_release;

  // Refuse. A process reads the number of refusals at each claim, and polls its
  // lease if that has changed, and now and then.
  static constexpr bool kPollAtClaims = true;
  static constexpr bool kPollNowAndThen = true;
  static constexpr bool kRefusedWithholds = true;  // Older blocks.
  static constexpr bool kRefusedWatched = true;    // For its end.
  // The owner notes the number when it takes a block from its shelf.
  static constexpr bool kRefusalsWhenTaken = true;  // Else at the release.
  static constexpr bool kShutThenCount = true;
  static constexpr std::memory_order kCountRefusal = std::memory_order_release;
  static constexpr std::memory_order kReadRefusals = std::memory_order_acquire;

  // Retire.
  static constexpr bool kRetireReclaimed = true;
  static constexpr bool kRetireNewGeneration = true;
  static constexpr bool kGenerationGoesOn = true;  // In the new segment.
  static constexpr std::memory_order kRetire = std::memory_order_release;
  static constexpr std::memory_order kSweep = std::memory_order_acquire;
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_LEASE_ROUTE_H_
