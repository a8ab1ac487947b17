// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LeaseSimulation: the lease protocol under the seeded scheduler, for one
// block. The claims, releases and tests are those of lease.h and free_test.h;
// messages, the owner's socket and the order of calls are simulated here.
//
// As in the reference model, the owner (process 0) sends the block along a
// route, whose first hop is the owner's own hold. At each hop somebody attaches
// if he has not, claims, checks, acknowledges, forwards, waits until he may let
// go, and releases. A hop may be a queue, at which two consumers race.
//
// Each hop is a logical thread, so that a process can be at two hops at once.
// A process whose thread was killed is dying: its other threads run on to their
// next wait, as after SIGKILL, and it is dead when all have ended.

#ifndef TENON_SHM_LEDGER_LEASE_SIMULATION_H_
#define TENON_SHM_LEDGER_LEASE_SIMULATION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tenon/shm/atomics.h"
#include "tenon/shm/ledger/free_test.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"

namespace tenon {

// The right protocol of those who use the lease: what each hop does, and when.
// Wrong variants hide one of these or of LeaseProtocol's.
struct SimLeaseProtocol : LeaseProtocol {
  static constexpr bool kAcknowledgeFirst = false;  // Then claim.
  static constexpr bool kDropEarly = false;   // Before the acknowledgement.
  static constexpr bool kAttachLate = false;  // After the acknowledgement.
  static constexpr bool kTakeFirst = false;   // From the queue, then claim.
  static constexpr bool kTakeBySwap = true;   // Else by a load and a store.
  static constexpr std::memory_order kAcknowledge = std::memory_order_release;
  static constexpr std::memory_order kTake = std::memory_order_acq_rel;
  // The owner's socket. A call of the kernel takes the lock of the socket,
  // which is a read-modify-write also where nothing is found.
  static constexpr bool kSocketHasLock = true;
  static constexpr std::memory_order kSocketSend = std::memory_order_acq_rel;
  static constexpr std::memory_order kSocketLook = std::memory_order_acq_rel;
};

// In a route: processes 1 and 2 race for the item of a queue.
constexpr int kQueue = -1;

struct LeaseRoute {
  std::vector<int> hops;  // Processes or kQueue; the first is 0, the owner.
  bool reversed = false;  // The columns are read from the last to the first.
};

constexpr size_t kSimProcesses = 4;

// The owner's socket, and what it has received: see LeaseInbox.
template <typename P>
class SimInbox {
 public:
  using Word = SharedWord<uint64_t>;

  SimInbox(const Word* cells, bool reversed)
      : cells_(cells), reversed_(reversed) {}

  // Sends the column of `process`.
  void Send(int process) {
    SimAtomics::FetchAdd(socket_, Bit(process), P::kSocketSend);
  }

  void Receive() {
    received_ = Look();
    Collect();
  }
  bool IsEmpty() { return Look() == received_; }
  absl::Span<const Word* const> columns() const {
    return absl::MakeConstSpan(columns_.data(), count_);
  }

  int process(uint32_t column) const { return processes_[column]; }
  // From the next Receive() on, its column is passed over.
  void Bury(int process) { buried_ |= Bit(process); }

  Word& socket() { return socket_; }

 private:
  static uint64_t Bit(int process) { return uint64_t{1} << process; }

  uint64_t Look() {
    if (!P::kSocketHasLock) return SimAtomics::Load(socket_, P::kSocketLook);
    return SimAtomics::FetchAdd(socket_, 0, P::kSocketLook);
  }

  void Collect() {
    count_ = 0;
    for (size_t i = 0; i < kSimProcesses; ++i) {
      const int p = static_cast<int>(reversed_ ? kSimProcesses - 1 - i : i);
      if ((received_ & ~buried_ & Bit(p)) == 0) continue;
      columns_[count_] = cells_ + p;
      processes_[count_++] = p;
    }
  }

  const Word* const cells_;
  const bool reversed_;
  Word socket_{1};  // Bit p: process p has sent; the owner is attached.
  uint64_t received_ = 1;
  uint64_t buried_ = 0;
  std::array<const Word*, kSimProcesses> columns_ = {};
  std::array<int, kSimProcesses> processes_ = {};
  size_t count_ = 0;
};

template <typename P>
class LeaseSimulation {
 public:
  // Names the words. Lives in the body, as long as the schedule.
  LeaseSimulation(Schedule& schedule, const LeaseRoute& route)
      : schedule_(schedule), route_(route), inbox_(&cells_[0], route.reversed) {
    schedule.Name(generation_, "gen");
    schedule.Name(inbox_.socket(), "socket");
    for (size_t h = 0; h < route.hops.size(); ++h) {
      schedule.Name(take_[h], "take", static_cast<int>(h));
    }
    for (size_t p = 0; p < kSimProcesses; ++p) {
      schedule.Name(cells_[p], "cell", static_cast<int>(p));
    }
  }

  void Run() {
    schedule_.AddThread("owner", [this] { Own(); });
    for (size_t h = 0; h < route_.hops.size(); ++h) {
      if (route_.hops[h] == kQueue) {
        AddSeat("consumer 1", h, 1);
        AddSeat("consumer 2", h, 2);
      } else {
        AddSeat(kHopNames[h], h, route_.hops[h]);
      }
    }
    schedule_.Run();
    TENON_SIM_CHECK(block_is_back_);
  }

 private:
  using Word = SharedWord<uint64_t>;
  using TheLease = Lease<SimAtomics, P>;

  static constexpr size_t kMaxHops = 6;
  static constexpr const char* kHopNames[kMaxHops] = {
      "hop 0", "hop 1", "hop 2", "hop 3", "hop 4", "hop 5"};
  // Of a hop's word, as in the model.
  static constexpr uint64_t kSent = 1;
  static constexpr uint64_t kAcknowledged = 2;

  // One process at one hop: a logical thread.
  struct Seat {
    size_t hop = 0;
    int process = 0;
    int thread = 0;
    bool has = false;  // A good claim. Beside the simulation, for the checks.
  };

  void AddSeat(const char* name, size_t hop, int process) {
    Seat& seat = seats_[seat_count_++];
    seat.hop = hop;
    seat.process = process;
    auto sit = [this, &seat] { Sit(seat); };
    seat.thread = process == 0 ? schedule_.AddThread(name, sit)
                               : schedule_.AddKillableThread(name, sit);
  }

  absl::Span<Seat> seats() {
    return absl::MakeSpan(seats_.data(), seat_count_);
  }

  // --- A process at a hop. ---

  void Sit(Seat& seat) {
    if (!WaitForMessage(seat)) return;
    const bool at_queue = route_.hops[seat.hop] == kQueue;
    if (!(at_queue ? TakeFromQueue(seat) : Take(seat))) return;
    TENON_SIM_CHECK(bytes_ == 1);
    if (seat.hop + 1 < route_.hops.size() && !Forward(seat)) {
      seat.has = false;
      return;
    }
    TENON_SIM_CHECK(bytes_ == 1);
    seat.has = false;
    const bool was_held = TheLease::Release(cells_[seat.process]);
    TENON_SIM_CHECK(was_held);
  }

  // False if there will be none, or none any more.
  bool WaitForMessage(const Seat& seat) {
    Word& take = take_[seat.hop];
    while (SimAtomics::Load(take, std::memory_order_acquire) == 0) {
      if (IsDying(seat.process)) return false;
      if (seat.hop > 0 && AllHaveEnded(seat.hop - 1)) break;
      SimAtomics::Pause();
    }
    return SimAtomics::Load(take, std::memory_order_acquire) == kSent;
  }

  bool Take(Seat& seat) {
    if (!P::kAttachLate) Attach(seat.process);
    if (P::kAcknowledgeFirst) Acknowledge(seat.hop);
    seat.has = TheLease::Claim(cells_[seat.process], generation_, 0);
    CheckClaim(seat);
    if (!P::kAcknowledgeFirst) Acknowledge(seat.hop);
    if (P::kAttachLate) Attach(seat.process);
    return seat.has;
  }

  // Who loses the race gives his claim back. Who wins it without a claim
  // reports the loss.
  bool TakeFromQueue(Seat& seat) {
    Attach(seat.process);
    if (P::kTakeFirst && !WinsItem(seat.hop)) return false;
    const bool good = TheLease::Claim(cells_[seat.process], generation_, 0);
    if (!P::kTakeFirst && !WinsItem(seat.hop)) {
      if (good) TheLease::Release(cells_[seat.process]);
      return false;
    }
    seat.has = good;
    CheckClaim(seat);
    return good;
  }

  void CheckClaim(const Seat& seat) {
    const bool fails_with_all_alive =
        !seat.has && !schedule_.anyone_was_killed();
    TENON_SIM_CHECK(!fails_with_all_alive);
  }

  bool WinsItem(size_t hop) {
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

  void Attach(int process) {
    if (attached_[process]) return;
    inbox_.Send(process);
    attached_[process] = true;
  }

  void Acknowledge(size_t hop) {
    SimAtomics::Store(take_[hop], kAcknowledged, P::kAcknowledge);
  }

  // Returns when `seat` may let go; false if it dies.
  bool Forward(const Seat& seat) {
    SimAtomics::Store(take_[seat.hop + 1], kSent, std::memory_order_release);
    while (!MayLetGo(seat.hop + 1)) {
      if (IsDying(seat.process)) return false;
      SimAtomics::Pause();
    }
    return true;
  }

  bool MayLetGo(size_t hop) {
    return P::kDropEarly ||
           SimAtomics::Load(take_[hop], std::memory_order_acquire) ==
               kAcknowledged ||
           AllHaveEnded(hop);
  }

  bool AllHaveEnded(size_t hop) {
    for (const Seat& seat : seats()) {
      if (seat.hop == hop && !schedule_.HasEnded(seat.thread)) return false;
    }
    return true;
  }

  bool IsDying(int process) {
    for (const Seat& seat : seats()) {
      if (seat.process == process && schedule_.was_killed(seat.thread)) {
        return true;
      }
    }
    return false;
  }

  // --- The owner. ---

  void Own() {
    bytes_ = 1;
    SimAtomics::Store(take_[0], kSent, std::memory_order_release);
    while (!MayLetGo(0)) SimAtomics::Pause();
    while (!TakesBack()) SimAtomics::Pause();
    for (const Seat& seat : seats()) {
      const bool reused_while_held =
          seat.has && !schedule_.was_killed(seat.thread);
      TENON_SIM_CHECK(!reused_while_held);
    }
    bytes_ = 2;
    block_is_back_ = true;
  }

  bool TakesBack() {
    free_test_.TakeBack(inbox_, &generation_, absl::MakeSpan(&candidate_, 1));
    const BlockVerdict& verdict = candidate_.verdict;
    if (verdict.kind == BlockVerdict::kHeld) {
      BuryIfDead(inbox_.process(verdict.column));
    }
    return candidate_.IsTakenBack();
  }

  void BuryIfDead(int process) {
    for (const Seat& seat : seats()) {
      if (seat.process == process && !schedule_.HasEnded(seat.thread)) return;
    }
    if (IsDying(process)) inbox_.Bury(process);
  }

  Schedule& schedule_;
  const LeaseRoute& route_;
  Word generation_{0};
  std::array<Word, kSimProcesses> cells_{Word(0), Word(0), Word(0), Word(0)};
  std::array<Word, kMaxHops> take_{Word(0), Word(0), Word(0),
                                   Word(0), Word(0), Word(0)};
  SimVar<uint64_t> bytes_{"bytes"};
  SimInbox<P> inbox_;
  FreeTest<SimInbox<P>, SimAtomics, P> free_test_;
  TakeBackCandidate candidate_;
  std::array<bool, kSimProcesses> attached_ = {true};
  std::array<Seat, kMaxHops> seats_;
  size_t seat_count_ = 0;
  // Beside the simulation, for the checks.
  int delivered_ = 0;
  bool block_is_back_ = false;
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_LEASE_SIMULATION_H_
