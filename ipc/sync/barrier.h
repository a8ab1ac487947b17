// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Barrier: a meeting point where a fixed number of threads, of any processes,
// wait for each other.
//
//   TENON_ASSIGN_OR_RETURN(Barrier barrier, Barrier::Create(4));
//   const int fd = barrier.fd();  // Send it to a peer:
//   TENON_ASSIGN_OR_RETURN(Barrier theirs,
//                          Barrier::Adopt(std::move(received)));
//   TENON_ASSIGN_OR_RETURN(const size_t index, theirs.Wait(deadline));
//   if (index == 0) SaveCheckpoint();  // One participant of each round.
//
// The death of a participant is noticed, and the others get an error, if it
// dies within Wait(), or at any time after Join():
//
//   TENON_ASSIGN_OR_RETURN(Barrier::Seat seat, theirs.Join(deadline));
//   for (int round = 0; round < rounds; ++round) {
//     TENON_RETURN_IF_ERROR(seat.Wait(deadline).status());
//   }

#ifndef TENON_IPC_SYNC_BARRIER_H_
#define TENON_IPC_SYNC_BARRIER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {

struct RobustSlot;
template <typename Layout>
class SyncBlock;

// Ownership: as Value (shm/value/value.h): owns a mapping, the descriptor, and
//   the name, if it made one. A moved-from barrier is only good to be destroyed
//   or assigned to.
// Threads, processes: any number, of one pid namespace; a participant is a
//   thread in Wait(). In a forked child every call is kFailedPrecondition: send
//   it the descriptor.
// Memory order: everything that a participant wrote before Wait() is visible to
//   all participants of the round after Wait().
// Trust: for groups that trust each other, as Mutex.
// Failure: a barrier breaks if a participant's deadline passes, if its action
//   fails or throws, by Abort(), and if a participant is killed in Wait() or
//   with a Seat, at any instruction: waiters are told within 100 ms. In a
//   broken barrier every Wait() is kAborted until Reset(); the message names
//   the cause. The death of a participant outside of Wait() that has not joined
//   is not noticed: the deadlines of the others then break the barrier. A
//   stopped participant is only slow; if it is stopped while it arrives, calls
//   of others may last 100 ms longer than their deadlines.
// Limits: a Seat, and a participant in Wait(), count towards the robust locks
//   that its thread may hold (mutex.h).
class Barrier {
 public:
  static constexpr size_t kMaxParties = 128;

  // Called by the last participant to arrive, before any of them continues.
  // Must be short, as all participants wait for it regardless of deadlines, and
  // must not use the barrier. An error breaks the barrier. So does an
  // exception, which becomes kUnknown with its text and does not leave Wait(),
  // and the end of the thread (pthread_exit()).
  using Action = std::function<absl::Status()>;

  // The membership of a thread from Join() on: its death, in a wait or not,
  // breaks the barrier. Used and destroyed by the thread that joined, before
  // the Barrier is destroyed; destruction leaves without breaking it.
  class Seat {
   public:
    Seat(Seat&& other) noexcept
        : barrier_(other.barrier_),
          slot_(std::exchange(other.slot_, nullptr)) {}
    Seat& operator=(Seat&& other) noexcept;
    ~Seat() { Leave(); }

    // As Barrier::Wait().
    absl::StatusOr<size_t> Wait(Deadline deadline,
                                const Action& action = {}) const;

   private:
    friend class Barrier;
    Seat(const Barrier* barrier, RobustSlot* slot)
        : barrier_(barrier), slot_(slot) {}
    void Leave();

    const Barrier* barrier_;
    RobustSlot* slot_;
  };

  // For `parties` threads. Errors: kInvalidArgument for none or more than
  // kMaxParties; Segment::CreateSharedWritable()'s; kFailedPrecondition if the
  // pid namespace is unknown.
  static absl::StatusOr<Barrier> Create(size_t parties,
                                        const SegmentOptions& options = {});
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if it is no
  // Barrier; kFailedPrecondition in another pid namespace.
  static absl::StatusOr<Barrier> Adopt(UniqueFd fd);
  static absl::StatusOr<Barrier> Open(absl::string_view name);

  Barrier(Barrier&&) noexcept;
  Barrier& operator=(Barrier&&) noexcept;
  ~Barrier();

  // -1 under kFileSystem: send name().
  int fd() const;
  const std::string& name() const;

  // Blocks until all participants have arrived. Returns the number that arrived
  // before this one: unique within a round, from 0 on.
  // Errors: kAborted if it is broken or breaks meanwhile; kDeadlineExceeded,
  // and it breaks; the error of `action`, or kUnknown if it threw, to the
  // participant that called it, and it breaks; kResourceExhausted, and it does
  // not break, if far more threads than `parties` are in it, or if this thread
  // holds 2,047 robust locks (2,048 in a Seat, which is one of them): a call
  // takes up to two; kFailedPrecondition in a forked child, here and below.
  absl::StatusOr<size_t> Wait(Deadline deadline,
                              const Action& action = {}) const;

  // This barrier object must stay at its address as long as the seat exists.
  // Errors: kDeadlineExceeded if a participant is stopped in the middle of a
  // call until `deadline`, here and below; kResourceExhausted as Wait().
  absl::StatusOr<Seat> Join(Deadline deadline) const;

  // Breaks it: waiters get kAborted. Errors: kResourceExhausted if this thread
  // holds 2,048 robust locks, here and below.
  absl::Status Abort(Deadline deadline) const;
  // Renews it: waiters get kAborted, later arrivals start a round. Dead
  // participants are forgotten.
  absl::Status Reset(Deadline deadline) const;

  size_t parties() const { return parties_; }
  // The number of present waiters.
  absl::StatusOr<size_t> CountWaiting() const;
  absl::StatusOr<bool> IsBroken() const;

 private:
  // States of a slot. Those from kDied on end a wait with an error and name its
  // cause; `broken` has the same values.
  static constexpr uint32_t kJoined = 1;
  static constexpr uint32_t kWaiting = 2;
  static constexpr uint32_t kPassed = 3;
  static constexpr uint32_t kDied = 4;
  static constexpr uint32_t kLate = 5;
  static constexpr uint32_t kActionFailed = 6;
  static constexpr uint32_t kAborted = 7;
  static constexpr uint32_t kReset = 8;

  // A participant that is slow to leave a round still has a slot in the next
  // one.
  static constexpr size_t kSlots = 2 * kMaxParties;

  struct Layout;
  using Block = std::unique_ptr<SyncBlock<Layout>>;

  explicit Barrier(Block block);
  static absl::StatusOr<Barrier> Wrap(absl::StatusOr<Block> block);

  static absl::Status Broken(uint32_t why);

  absl::Status Lock(absl::string_view call, Deadline deadline) const;
  void Unlock() const;
  void Repair() const;
  size_t used() const;
  absl::StatusOr<RobustSlot*> TakeSlot(absl::string_view call,
                                       uint32_t as) const;
  size_t CountSlots(uint32_t state) const;
  bool AnyDied() const;
  uint32_t broken() const;
  void Break(uint32_t why) const;
  void Decide(uint32_t verdict) const;
  absl::StatusOr<size_t> WaitIn(RobustSlot* slot, Deadline deadline,
                                const Action& action) const;
  absl::Status Arrive(RobustSlot& slot, size_t index,
                      const Action& action) const;
  absl::Status Sleep(RobustSlot& slot, Deadline deadline) const;
  absl::Status BreakLate(RobustSlot& slot) const;
  static absl::Status Outcome(const RobustSlot& slot);

  Block block_;
  Layout* layout_;  // Of `block_`.
  size_t parties_;
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_BARRIER_H_
