// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Stress of the lease protocol on real processors: members, which are threads
// or processes, send blocks to each other at random. Member 0 owns the blocks:
// it writes, sends and reclaims them continuously; the other members check the
// bytes of blocks they hold, forward some of them, and release them.
//
//   StressOwner owner(*shared, cells);  // `shared` is zeroed.
//   std::thread worker(
//       [&] { StressMember(*shared, cells, owner.Join()).Run(); });
//   while (!Enough()) owner.Step();
//   owner.Drain();
//   owner.End();
//   worker.join();
//
// A member that has been killed is never replaced under its number.

#ifndef TENON_SHM_LEDGER_LEASE_STRESS_H_
#define TENON_SHM_LEDGER_LEASE_STRESS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/ledger/free_test.h"
#include "tenon/shm/ledger/lease.h"

namespace tenon {

// In memory that all members share. Initially zero.
struct StressShared {
  using Word = SharedWord<uint64_t>;

  static constexpr size_t kMembers = 32;
  static constexpr size_t kBlocks = 8;
  static constexpr size_t kBlockWords = 64;
  static constexpr size_t kSlots = 2;

  enum Phase : uint64_t { kRun = 0, kDrain, kEnd };
  enum Life : uint64_t { kNotYet = 0, kAlive, kDead };
  enum State : uint64_t { kEmpty = 0, kSent, kAcknowledged };

  // Written by the sender, except the step from kSent to kAcknowledged.
  struct Message {
    Word state;
    uint64_t block;
    uint64_t generation;
  };

  Word phase;
  std::array<Word, kMembers> life;      // Written by the owner.
  std::array<Word, kMembers> attached;  // Each by its member.
  std::array<Word, kBlocks> generations;
  std::array<std::array<uint64_t, kBlockWords>, kBlocks> bytes;
  // [from][to]
  std::array<std::array<std::array<Message, kSlots>, kMembers>, kMembers>
      messages;
  // Counters of successes and failures.
  Word claims;
  Word losses;       // Claims that failed.
  Word wrong_bytes;  // In a block that was held.
};

// StdAtomics that now and then yield first, so that steps of the protocol are
// interrupted more often than by chance.
struct YieldingAtomics {
  template <SharedWordValue T>
  static T Load(const SharedWord<T>& word, std::memory_order order) {
    MayYield();
    return StdAtomics::Load(word, order);
  }
  template <SharedWordValue T>
  static void Store(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    MayYield();
    StdAtomics::Store(word, value, order);
  }
  template <SharedWordValue T>
  static T FetchAdd(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    MayYield();
    return StdAtomics::FetchAdd(word, value, order);
  }
  template <SharedWordValue T>
  static T FetchSub(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    MayYield();
    return StdAtomics::FetchSub(word, value, order);
  }
  template <SharedWordValue T>
  static bool CompareExchange(SharedWord<T>& word, T& expected,
                              std::type_identity_t<T> value,
                              std::memory_order order) {
    MayYield();
    return StdAtomics::CompareExchange(word, expected, value, order);
  }
  static void Fence(std::memory_order order) { StdAtomics::Fence(order); }
  static void Pause() { StdAtomics::Pause(); }

 private:
  static void MayYield();
};

static_assert(AtomicsPolicy<YieldingAtomics>);

// By member: a cell for each block, in memory of that member.
using StressCells = std::array<StressShared::Word*, StressShared::kMembers>;

// Threads: one. Processes: the one that makes it.
class StressMember {
 public:
  StressMember(StressShared& shared, const StressCells& cells, size_t self);

  // Steps until the end, and yields when idle.
  void Run();

  // Receives the messages sent to this member and releases blocks whose time is
  // over. Returns whether there was any work.
  bool Step();

  // Claims a block for itself and sends it to another member, or just holds it
  // for a while. False if the claim failed.
  bool Begin(uint64_t block, uint64_t generation);

 private:
  using Message = StressShared::Message;

  // One claim.
  struct Hold {
    uint64_t block = 0;
    uint64_t generation = 0;
    Message* sent = nullptr;  // Held until this is acknowledged.
    size_t to = 0;
    uint64_t steps = 0;  // Held for this many more steps.
  };

  bool Receive(Message& message);
  bool Claim(uint64_t block, uint64_t generation);
  void HoldOrForward(uint64_t block, uint64_t generation);
  bool Forward(Hold& hold);
  bool MayLetGo(Hold& hold);
  void Check(uint64_t block, uint64_t generation);
  bool Is(size_t member, StressShared::Life life) const;

  StressShared& shared_;
  const StressCells& cells_;
  const size_t self_;
  std::vector<Hold> holds_;
  std::minstd_rand random_;
};

// Threads: one. Processes: the one that makes it.
class StressOwner {
 public:
  StressOwner(StressShared& shared, const StressCells& cells);

  // Adds a member, to which messages may be sent from now on. Returns its
  // number.
  size_t Join();
  bool HasRoom() const { return joined_ < StressShared::kMembers; }
  // The member has ended, and its writes are visible.
  void Remove(size_t member);

  // Sends all available blocks, acts as a member, and reclaims free blocks.
  void Step();
  // No block is sent or forwarded any more. True once all are reclaimed; false
  // at `deadline`.
  bool Drain(Deadline deadline);
  // Members return from Run().
  void End();

  uint64_t reclaimed() const { return reclaimed_; }
  uint64_t tests() const { return free_test_.tests(); }
  uint64_t failures() const { return free_test_.failures(); }

 private:
  // See LeaseInbox. An attachment is a word of memory.
  class Inbox {
   public:
    Inbox(const StressShared& shared, const StressCells& cells)
        : shared_(shared), cells_(cells) {}
    void Receive();
    bool IsEmpty() const;
    absl::Span<const StressShared::Word* const> columns() const {
      return columns_;
    }
    uint64_t newest_refusal() const { return 0; }
    void Remove(size_t member) { removed_[member] = true; }

   private:
    bool HasSent(size_t member) const;

    const StressShared& shared_;
    const StressCells& cells_;
    std::array<bool, StressShared::kMembers> received_ = {true};
    std::array<bool, StressShared::kMembers> removed_ = {};
    std::vector<const StressShared::Word*> columns_;
  };

  void SendOut(uint64_t block);
  void Reclaim();

  StressShared& shared_;
  StressMember self_;
  Inbox inbox_;
  FreeTest<Inbox, YieldingAtomics> free_test_;
  std::vector<uint64_t> here_;  // Blocks.
  std::vector<ReclaimCandidate> out_;
  size_t joined_ = 1;
  uint64_t reclaimed_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_LEASE_STRESS_H_
