// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LeaseSimulation: the lease protocol under the seeded scheduler, for one
// block. The claims, releases and tests are those of lease.h and free_test.h;
// messages, sockets, leases and the order of calls are simulated.
//
// As in the reference model, the owner (process 0) sends the block along a
// route, whose first hop is the owner's own hold. At each hop a process
// attaches if it has not, claims, checks, acknowledges, forwards, waits until
// it may release, and releases. A hop may be a queue, at which two consumers
// race. LeaseRoute defines further events, which run in further threads:
//
//   refuser    receives attachments for the owner, before the block is sent or
//              later; with the owner's other thread it has a lock in common
//   detacher   detaches its process, at any time
//   watcher    checks now and then whether the lease is shut
//   mover      detaches process 1, gives its cells to another arena, and holds
//              a block of that arena until this one has reclaimed its block
//   sweeper    unmaps the retired segment in its process
//   newcomer   receives the first block of the segment to which the number of
//              the retired block was given

#ifndef TENON_SHM_LEDGER_LEASE_SIMULATION_H_
#define TENON_SHM_LEDGER_LEASE_SIMULATION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/ledger/free_test.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/ledger/lease_route.h"
#include "tenon/shm/ledger/sim_attachments.h"
#include "tenon/shm/ledger/sim_inbox.h"
#include "tenon/shm/ledger/sim_processes.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"

namespace tenon {

template <typename P>
class LeaseSimulation {
 public:
  // Names the words. Lives in the body, as long as the schedule.
  LeaseSimulation(Schedule& schedule, const LeaseRoute& route)
      : schedule_(schedule),
        route_(route),
        processes_(schedule),
        inbox_(processes_, route, &cells_[0]),
        attachments_(processes_, route, inbox_),
        other_(processes_, &cells_[0]) {
    schedule.Name(generation_, "gen");
    inbox_.NameWords(schedule);
    attachments_.NameWords(schedule);
    for (size_t h = 0; h < route.hops.size(); ++h) {
      schedule.Name(take_[h], "take", static_cast<int>(h));
    }
    for (int c = 0; c < kSimColumns; ++c) {
      if (route.Uses(c)) schedule.Name(cells_[c], "cell", c);
    }
    OwnerAtomics::inbox = &inbox_;
  }

  void Run() {
    processes_.AddOwner([this] { Own(); });
    if (route_.before != 0) {
      schedule_.AddThread("refuser", [this] { ReceiveEarly(); });
    }
    for (size_t h = 0; h < route_.hops.size(); ++h) {
      AddHop(static_cast<int>(h), route_.hops[h]);
    }
    for (int p = 0; p < kSimProcesses; ++p) AddDetacherOrWatcher(p);
    if (route_.moving) AddMover();
    if (route_.retired) AddSweeperAndNewcomer();
    schedule_.Run();
    TENON_SIM_CHECK(block_is_back_);
  }

 private:
  using Word = SharedWord<uint64_t>;
  using TheLease = Lease<SimAtomics, P>;
  using TheInbox = SimInbox<P>;
  using Attachments = SimAttachments<P>;

  static constexpr size_t kMaxHops = 6;
  static constexpr const char* kHopNames[kMaxHops] = {
      "hop 0", "hop 1", "hop 2", "hop 3", "hop 4", "hop 5"};
  static constexpr const char* kDetacherNames[kSimProcesses] = {
      "detacher 0", "detacher 1", "detacher 2", "detacher 3"};
  static constexpr const char* kWatcherNames[kSimProcesses] = {
      "watcher 0", "watcher 1", "watcher 2", "watcher 3"};
  // Of a message's word, as in the model.
  static constexpr uint64_t kSent = 1;
  static constexpr uint64_t kAcknowledged = 2;

  // The atomics with which the owner reads cells. In one wrong variant the
  // owner ignores the columns whose ends it sees during a test: they seem
  // quiet.
  struct OwnerAtomics : SimAtomics {
    static inline TheInbox* inbox = nullptr;

    template <SharedWordValue T>
    static T Load(const SharedWord<T>& word, std::memory_order order) {
      const T value = SimAtomics::Load(word, order);
      if constexpr (!P::kEndsBetweenTests && std::is_same_v<T, uint64_t>) {
        return inbox->ReadAmid(word, value);
      }
      return value;
    }
  };

  using TheFreeTest = FreeTest<TheInbox, OwnerAtomics, P>;

  // Another arena, to which process 1 assigns cells.
  struct OtherArena {
    OtherArena(SimProcesses& processes, const Word* cells)
        : inbox(processes, route, cells) {}

    const LeaseRoute route = {.attached = 0};
    Word generation{0};
    Word take{0};
    SimVar<uint64_t> bytes{"other bytes"};
    TheInbox inbox;
    TheFreeTest free_test;
    ReclaimCandidate candidate;
  };

  void AddHop(int hop, int process) {
    auto receive = [this](SimThread& self) { ReceiveAt(self); };
    if (process == kQueue) {
      processes_.Add("consumer 1", 1, hop, receive);
      processes_.Add("consumer 2", 2, hop, receive);
    } else {
      processes_.Add(kHopNames[hop], process, hop, receive);
    }
  }

  void AddDetacherOrWatcher(int process) {
    if ((route_.detaching >> process & 1) != 0) {
      processes_.Add(kDetacherNames[process], process, SimThread::kNoHop,
                     [this](SimThread& self) { Detach(self); });
    } else if ((route_.refused >> process & 1) != 0 && P::kPollNowAndThen) {
      processes_.Add(kWatcherNames[process], process, SimThread::kNoHop,
                     [this](SimThread& self) { Watch(self); });
    }
  }

  void AddMover() {
    processes_.Add("mover", 1, SimThread::kNoHop,
                   [this](SimThread& self) { Move(self); });
    schedule_.AddThread("other owner", [this] { OwnOther(); });
  }

  void AddSweeperAndNewcomer() {
    const int last = route_.hops.back() == kQueue ? 1 : route_.hops.back();
    processes_.Add("sweeper", last, SimThread::kNoHop,
                   [this](SimThread& self) { Sweep(self); });
    processes_.Add("newcomer", last, SimThread::kNoHop,
                   [this](SimThread& self) { ReceiveNew(self); });
  }

  // --- A process at a hop. ---

  void ReceiveAt(SimThread& self) {
    if (!WaitForMessage(self)) return;
    const bool at_queue = route_.hops[self.hop] == kQueue;
    if (!(at_queue ? TakeFromQueue(self) : Take(self))) return;
    CheckBytes(self);
    if (!IsLast(self) && !Forward(self)) {
      self.has = false;
      return;
    }
    CheckBytes(self);
    self.has = false;
    Release(self);
  }

  bool IsLast(const SimThread& self) const {
    return self.hop + 1 == static_cast<int>(route_.hops.size());
  }

  void CheckBytes(const SimThread& self) {
    if (route_.retired) TENON_SIM_CHECK(unmapped_[self.process] == 0);
    TENON_SIM_CHECK(bytes_ == 1);
  }

  // False if there is no message, or it was acknowledged already.
  bool WaitForMessage(const SimThread& self) {
    Word& take = take_[self.hop];
    while (SimAtomics::Load(take, std::memory_order_acquire) == 0) {
      if (processes_.IsDying(self.process)) return false;
      if (self.hop > 0 && processes_.HopHasEnded(self.hop - 1)) break;
      SimAtomics::Pause();
    }
    return SimAtomics::Load(take, std::memory_order_acquire) == kSent;
  }

  bool Take(SimThread& self) {
    if (P::kAcknowledgeFirst) Acknowledge(self.hop);
    self.has = Claim(self, 0);
    if (self.column == Attachments::kNone) return false;
    CheckClaim(self);
    if (!P::kAcknowledgeFirst) Acknowledge(self.hop);
    if (P::kAttachLate) attachments_.Send(self.column);
    return self.has;
  }

  // A consumer that loses the race releases. One that wins it without a claim
  // reports the loss.
  bool TakeFromQueue(SimThread& self) {
    if (P::kTakeFirst && !WinsItem(self.hop)) return false;
    const bool good = Claim(self, 0);
    if (self.column == Attachments::kNone) return false;
    if (!P::kTakeFirst && !WinsItem(self.hop)) {
      if (good) Release(self);
      return false;
    }
    self.has = good;
    CheckClaim(self);
    return good;
  }

  // Claims through the newest attachment that is not seen to be shut. If the
  // process dies before, or has no such attachment, the column is kNone.
  bool Claim(SimThread& self, uint64_t generation) {
    for (;;) {
      self.column = attachments_.Acquire(self.process);
      if (self.column == Attachments::kNone) return false;
      if (!TheLease::Claim(cells_[self.column], generation_, generation)) {
        attachments_.Drop(self.column);
        return false;
      }
      if (!FindsShut(self.column)) return true;
      Release(self);
      attachments_.Leave(self.column);
    }
  }

  bool FindsShut(int column) {
    return P::kPollAtClaims && route_.refused != 0 &&
           attachments_.FindsShut(column);
  }

  void Release(const SimThread& self) {
    const bool was_held = TheLease::Release(cells_[self.column]);
    TENON_SIM_CHECK(was_held);
    attachments_.Drop(self.column);
  }

  void CheckClaim(const SimThread& self) {
    const bool fails_with_all_alive =
        !self.has && !schedule_.anyone_was_killed();
    TENON_SIM_CHECK(!fails_with_all_alive);
    const bool retired_while_held = self.has && is_retired_;
    TENON_SIM_CHECK(!retired_while_held);
  }

  bool WinsItem(int hop) {
    uint64_t expected = kSent;
    if (P::kTakeBySwap) {
      if (!SimAtomics::CompareExchange(take_[hop], expected, kAcknowledged,
                                       P::kTake)) {
        return false;
      }
    } else {
      if (SimAtomics::Load(take_[hop], std::memory_order_acquire) != expected) {
        return false;
      }
      Acknowledge(hop);
    }
    const bool delivered_twice = ++delivered_ > 1;
    TENON_SIM_CHECK(!delivered_twice);
    return true;
  }

  void Acknowledge(int hop) {
    SimAtomics::Store(take_[hop], kAcknowledged, P::kAcknowledge);
  }

  // Returns when the sender may release; false if it dies.
  bool Forward(const SimThread& self) {
    SimAtomics::Store(take_[self.hop + 1], kSent, std::memory_order_release);
    while (!MayRelease(self.hop + 1)) {
      if (processes_.IsDying(self.process)) return false;
      SimAtomics::Pause();
    }
    return true;
  }

  bool MayRelease(int hop) {
    return P::kDropEarly || IsAcknowledged(take_[hop]) ||
           processes_.HopHasEnded(hop);
  }

  static bool IsAcknowledged(const Word& take) {
    return SimAtomics::Load(take, std::memory_order_acquire) == kAcknowledged;
  }

  // --- Other threads of a process. ---

  void Detach(const SimThread& self) {
    if (WaitForAttachment(self)) attachments_.Leave(First(self));
  }

  // False if the process receives no more messages and has none.
  bool WaitForAttachment(const SimThread& self) {
    while (!attachments_.WasSent(First(self))) {
      if (processes_.IsDying(self.process)) return false;
      if (processes_.HasReceivedAll(self.process)) break;
      SimAtomics::Pause();
    }
    return attachments_.WasSent(First(self));
  }

  static int First(const SimThread& self) { return SimColumn(self.process, 0); }

  void Watch(const SimThread& self) {
    while (!inbox_.IsShut(First(self))) {
      if (processes_.MustStop(self.process)) return;
      SimAtomics::Pause();
    }
    attachments_.Leave(First(self));
  }

  void Move(SimThread& self) {
    if (GivesCells(self) && ClaimOther(self)) HoldOther(self);
    self.has = false;
  }

  bool ClaimOther(SimThread& self) {
    self.column = First(self);
    if (P::kSendToOtherArena) other_.inbox.Send(self.column);
    while (SimAtomics::Load(other_.take, std::memory_order_acquire) != kSent) {
      if (processes_.IsDying(self.process)) return false;
      SimAtomics::Pause();
    }
    self.has = TheLease::Claim(cells_[self.column], other_.generation, 0);
    const bool other_claim_fails = !self.has;
    TENON_SIM_CHECK(!other_claim_fails);
    SimAtomics::Store(other_.take, kAcknowledged, P::kAcknowledge);
    return true;
  }

  void HoldOther(SimThread& self) {
    TENON_SIM_CHECK(other_.bytes == 1);
    while (!processes_.OwnerHasEnded()) {
      if (processes_.IsDying(self.process)) return;
      SimAtomics::Pause();
    }
    TENON_SIM_CHECK(other_.bytes == 1);
    self.has = false;
    TheLease::Release(cells_[self.column]);
  }

  // Returns when the owner does not read the first column any more, or has
  // ended. False if the process dies before.
  bool GivesCells(const SimThread& self) {
    const bool attached = WaitForAttachment(self);
    if (processes_.IsDying(self.process)) return false;
    if (!P::kGiveDetachedOnly) return true;
    attachments_.Leave(First(self));
    while (P::kGiveWhenShut && attached && !inbox_.IsShut(First(self))) {
      if (processes_.MustStop(self.process)) break;
      SimAtomics::Pause();
    }
    return !processes_.IsDying(self.process);
  }

  void Sweep(const SimThread& self) {
    while (SimAtomics::Load(retired_, P::kSweep) == 0) {
      if (processes_.IsDying(self.process)) return;
      SimAtomics::Pause();
    }
    unmapped_[self.process] = 1;
  }

  // As at a hop, for another message, which names the new generation.
  void ReceiveNew(SimThread& self) {
    while (SimAtomics::Load(new_take_, std::memory_order_acquire) != kSent) {
      if (processes_.IsDying(self.process)) return;
      SimAtomics::Pause();
    }
    const bool new_claim_fails = !Claim(self, new_generation_);
    if (self.column == Attachments::kNone) return;
    TENON_SIM_CHECK(!new_claim_fails);
    self.has = true;
    SimAtomics::Store(new_take_, kAcknowledged, P::kAcknowledge);
    TENON_SIM_CHECK(new_bytes_ == 1);
    self.has = false;
    Release(self);
  }

  // --- The owner. ---

  void Own() {
    if (P::kRefusalsWhenTaken) CountRefusals();
    bytes_ = 1;
    SimAtomics::Store(take_[0], kSent, std::memory_order_release);
    while (!MayRelease(0)) {
      if (route_.limit == 1 && P::kReceiveUntested) inbox_.Receive();
      SimAtomics::Pause();
    }
    if (!P::kRefusalsWhenTaken) CountRefusals();
    if (route_.retired) {
      Retire();
    } else {
      Reclaim(generation_);
      const bool reused_while_held = processes_.AnyHas();
      TENON_SIM_CHECK(!reused_while_held);
      bytes_ = 2;
    }
    block_is_back_ = true;
  }

  void CountRefusals() {
    if (route_.before != 0) refusals_ = inbox_.CountRefusals();
  }

  void Reclaim(Word& generation) {
    ReclaimCandidate candidate = {.refusals = refusals_};
    for (;;) {
      LockInbox();
      const bool reclaimed =
          TakesBack(inbox_, free_test_, generation, candidate);
      UnlockInbox();
      if (reclaimed) return;
      SimAtomics::Pause();
    }
  }

  void ReceiveEarly() {
    LockInbox();
    inbox_.Receive();
    UnlockInbox();
  }

  // The arena's mutex.
  void LockInbox() {
    if (route_.before == 0) return;
    for (;;) {
      uint64_t unlocked = 0;
      if (SimAtomics::CompareExchange(mutex_, unlocked, 1,
                                      std::memory_order_acq_rel)) {
        return;
      }
      SimAtomics::Pause();
    }
  }
  void UnlockInbox() {
    if (route_.before == 0) return;
    SimAtomics::Store(mutex_, 0, std::memory_order_release);
  }

  static bool TakesBack(TheInbox& inbox, TheFreeTest& test, Word& generation,
                        ReclaimCandidate& candidate) {
    test.Reclaim(inbox, &generation, absl::MakeSpan(&candidate, 1));
    if (candidate.verdict.kind == BlockVerdict::kHeld) inbox.SeeEnds();
    return candidate.IsReclaimed();
  }

  // Waits until the receiver has acknowledged, or ended.
  void WaitFor(const Word& take, const SimThread& receiver) {
    while (!IsAcknowledged(take) && !schedule_.HasEnded(receiver.thread)) {
      SimAtomics::Pause();
    }
  }

  bool Has(const SimThread& thread) const {
    return thread.has && !schedule_.was_killed(thread.thread);
  }

  // The owner never writes into the segment again.
  void Retire() {
    if (P::kRetireReclaimed) {
      Reclaim(P::kRetireNewGeneration ? generation_ : unread_generation_);
    }
    const bool retired_while_held = processes_.AnyHas();
    TENON_SIM_CHECK(!retired_while_held);
    is_retired_ = true;
    SimAtomics::Store(retired_, 1, P::kRetire);
    UseNumberAgain();
  }

  // The block's number is reused in a new segment, and a message about it is
  // sent.
  void UseNumberAgain() {
    if (!P::kGenerationGoesOn) {
      SimAtomics::Store(generation_, 0, std::memory_order_relaxed);
    }
    new_generation_ = SimAtomics::Load(generation_, std::memory_order_relaxed);
    new_bytes_ = 1;
    SimAtomics::Store(new_take_, kSent, std::memory_order_release);
    const SimThread& newcomer = processes_.threads().back();
    WaitFor(new_take_, newcomer);
    Reclaim(generation_);
    const bool reused_while_held = Has(newcomer);
    TENON_SIM_CHECK(!reused_while_held);
    new_bytes_ = 2;
  }

  // --- The owner of the other arena. ---

  void OwnOther() {
    other_.bytes = 1;
    SimAtomics::Store(other_.take, kSent, std::memory_order_release);
    const SimThread& mover = processes_.threads().back();
    WaitFor(other_.take, mover);
    while (!TakesBack(other_.inbox, other_.free_test, other_.generation,
                      other_.candidate)) {
      SimAtomics::Pause();
    }
    const bool reused_while_held = Has(mover);
    TENON_SIM_CHECK(!reused_while_held);
    other_.bytes = 2;
  }

  Schedule& schedule_;
  const LeaseRoute& route_;
  Word generation_{0};
  std::array<Word, kSimColumns> cells_{Word(0), Word(0), Word(0), Word(0),
                                       Word(0), Word(0), Word(0), Word(0)};
  std::array<Word, kMaxHops> take_{Word(0), Word(0), Word(0),
                                   Word(0), Word(0), Word(0)};
  SimVar<uint64_t> bytes_{"bytes"};
  SimProcesses processes_;
  TheInbox inbox_;
  Attachments attachments_;
  TheFreeTest free_test_;
  Word mutex_{0};          // Of the owner's threads.
  uint64_t refusals_ = 0;  // Counted when the block was taken.

  // Of a retired segment.
  Word retired_{0};
  Word unread_generation_{0};
  std::array<SimVar<int>, kSimProcesses> unmapped_;
  Word new_take_{0};
  uint64_t new_generation_ = 0;  // In the message.
  SimVar<uint64_t> new_bytes_{"new bytes"};

  OtherArena other_;

  // Beside the simulation, for the checks.
  int delivered_ = 0;
  bool block_is_back_ = false;
  bool is_retired_ = false;
};

struct LeaseExploration {
  LeaseRoute route;
  int max_kills = 0;
  uint64_t schedules = 0;
};

template <typename P>
ExploreResult ExploreLease(const LeaseExploration& e) {
  const ExploreOptions options = {.schedules = e.schedules,
                                  .schedule = {.max_kills = e.max_kills}};
  return Explore(options, [&](Schedule& schedule) {
    LeaseSimulation<P>(schedule, e.route).Run();
  });
}
using LeaseExplorer = ExploreResult (*)(const LeaseExploration&);

// A variant: the socket is a word of shared memory, and no system call checks
// that it is empty.
struct SocketIsAWord : SimLeaseProtocol {
  static constexpr bool kSocketHasLock = false;
  static constexpr auto kSocketSend = std::memory_order_seq_cst;
  static constexpr auto kSocketRead = std::memory_order_seq_cst;
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_LEASE_SIMULATION_H_
