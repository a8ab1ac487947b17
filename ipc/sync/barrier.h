// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Barrier: a place where a fixed number of threads, of any processes, wait for
// each other.
//
//   TENON_ASSIGN_OR_RETURN(Barrier barrier, Barrier::Create(4));
//   const int fd = barrier.fd();  // Send it to a peer:
//   TENON_ASSIGN_OR_RETURN(Barrier theirs,
//                          Barrier::Adopt(std::move(received)));
//   TENON_ASSIGN_OR_RETURN(const size_t index, theirs.Wait(deadline));
//   if (index == 0) SaveCheckpoint();  // One participant of each round.
//
// A party that dies is found out, and the others get an error, if it dies
// within Wait(), or at any time after Join():
//
//   TENON_ASSIGN_OR_RETURN(Barrier::Seat seat, theirs.Join(deadline));
//   for (int round = 0; round < rounds; ++round) {
//     TENON_RETURN_IF_ERROR(seat.Wait(deadline).status());
//   }

#ifndef TENON_IPC_SYNC_BARRIER_H_
#define TENON_IPC_SYNC_BARRIER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/ipc/sync/internal/robust_row.h"
#include "tenon/ipc/sync/internal/sync_block.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {

// Ownership: as Value (shm/value/value.h): owns a mapping, the descriptor, and
// the
//   name, if it made one. A moved-from barrier is only good to be destroyed or
//   assigned to.
// Threads, processes: any number, of one pid namespace; a party is a thread in
//   Wait(). What each did before Wait() is seen by all after it. In a forked
//   child every call is kFailedPrecondition: send it the descriptor.
// Trust: for groups that trust each other, as Mutex.
// Failure: a barrier breaks if a party's deadline passes, if its action fails
//   or throws, by Abort(), and if a party is killed in Wait() or with a Seat,
//   at whatever instruction: who waits is told within 100 ms. In a broken
//   barrier every Wait() is kAborted until Reset(); the message says which of
//   these broke it. A party that dies outside of Wait() and has not joined is
//   not known to anybody: then the others' deadlines break the barrier. One
//   that is stopped is only slow; if that is in the middle of arriving, calls
//   of others may last 100 ms longer than their deadlines.
// Limits: a Seat, and a party in Wait(), count towards the robust locks that
//   its thread may hold (mutex.h).
class Barrier {
  struct Layout;

 public:
  static constexpr size_t kMaxParties = 128;

  // Called by the last party to arrive, before any of them goes on. Must be
  // short, as everybody waits for it, deadlines or not, and must not use the
  // barrier. An error breaks the barrier. So does an exception, which becomes
  // kUnknown with its text and does not leave Wait(), and the end of the thread
  // (pthread_exit()).
  using Action = std::function<absl::Status()>;

  // The place of a thread that takes part from now on: its death, whether it
  // waits or not, breaks the barrier. To be used and destroyed by the thread
  // that joined, before the Barrier is destroyed; then it leaves in peace.
  class Seat {
   public:
    Seat(Seat&& other) noexcept
        : barrier_(other.barrier_), row_(std::exchange(other.row_, nullptr)) {}
    Seat& operator=(Seat&& other) noexcept;
    ~Seat() { Leave(); }

    // As Barrier::Wait().
    absl::StatusOr<size_t> Wait(Deadline deadline,
                                const Action& action = {}) const;

   private:
    friend class Barrier;
    Seat(const Barrier* barrier, RobustRow* row)
        : barrier_(barrier), row_(row) {}
    void Leave();

    const Barrier* barrier_;
    RobustRow* row_;
  };

  // For `parties` threads. Errors: kInvalidArgument for none or more than
  // kMaxParties; Segment::CreateSharedWritable()'s; kFailedPrecondition if the
  // pid namespace cannot be told.
  static absl::StatusOr<Barrier> Create(size_t parties,
                                        const SegmentOptions& options = {});
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if it is no
  // Barrier; kFailedPrecondition in another pid namespace.
  static absl::StatusOr<Barrier> Adopt(UniqueFd fd);
  static absl::StatusOr<Barrier> Open(absl::string_view name);

  // -1 under kFileSystem: send name().
  int fd() const { return block_.fd(); }
  const std::string& name() const { return block_.name(); }

  // Blocks until all parties have arrived. Returns how many arrived before this
  // one: each party of a round gets another number, from 0 on.
  // Errors: kAborted if it is broken or breaks meanwhile; kDeadlineExceeded,
  // and it breaks; what `action` returned, or kUnknown if it threw, to the
  // party that called it, and it breaks; kResourceExhausted, and it does not
  // break, if far more threads than parties are in it, or if this thread holds
  // 2,047 robust locks (2,048 in a Seat, which is one of them): a call takes up
  // to two; kFailedPrecondition in a forked child, here and below.
  absl::StatusOr<size_t> Wait(Deadline deadline,
                              const Action& action = {}) const;

  // This barrier object must stay where it is as long as the seat is there.
  // Errors: kDeadlineExceeded if somebody is in the middle of a call, stopped,
  // until `deadline`, here and below; kResourceExhausted as Wait().
  absl::StatusOr<Seat> Join(Deadline deadline) const;

  // Breaks it: who waits gets kAborted. Errors: kResourceExhausted if this
  // thread holds 2,048 robust locks, here and below.
  absl::Status Abort(Deadline deadline) const;
  // Makes it new: who waits gets kAborted, who comes later starts a round. Dead
  // parties are forgotten.
  absl::Status Reset(Deadline deadline) const;

  size_t parties() const { return parties_; }
  // How many wait now.
  absl::StatusOr<size_t> CountWaiting() const;
  absl::StatusOr<bool> IsBroken() const;

 private:
  // Of a row. Those from kDied on end a wait with an error and say why; they
  // are what `broken` says, too.
  static constexpr uint32_t kJoined = 1;
  static constexpr uint32_t kWaiting = 2;
  static constexpr uint32_t kPassed = 3;
  static constexpr uint32_t kDied = 4;
  static constexpr uint32_t kLate = 5;
  static constexpr uint32_t kActionFailed = 6;
  static constexpr uint32_t kAborted = 7;
  static constexpr uint32_t kReset = 8;

  // Who is slow to leave a round still has a row in the next one.
  static constexpr size_t kRows = 2 * kMaxParties;

  struct Layout {
    static constexpr uint64_t kKind = 0x726961426e6f6e54;  // "TnonBair"
    static constexpr char kName[] = "a Barrier";
    SharedWord<uint64_t> kind;
    uint64_t pid_namespace;
    uint64_t parties;
    SharedWord<uint32_t> broken;  // Why it is; 0 if it is not.
    // What the rows that wait are about to become, or 0.
    SharedWord<uint32_t> verdict;
    SharedWord<uint64_t> used;  // Rows beyond were never taken.
    RobustMutex mutex;          // For all but what the words alone tell.
    alignas(64) std::array<RobustRow, kRows> rows;
  };

  explicit Barrier(SyncBlock<Layout> block)
      : block_(std::move(block)), parties_(block_->parties) {}
  static absl::StatusOr<Barrier> Wrap(absl::StatusOr<SyncBlock<Layout>> block);

  static absl::Status Broken(uint32_t why);

  absl::Status Lock(absl::string_view call, Deadline deadline) const;
  void Unlock() const;
  void Repair() const;
  size_t used() const;
  absl::StatusOr<RobustRow*> TakeRow(absl::string_view call, uint32_t as) const;
  size_t CountRows(uint32_t state) const;
  bool SomebodyDied() const;
  uint32_t broken() const;
  void Break(uint32_t why) const;
  void Decide(uint32_t verdict) const;
  absl::StatusOr<size_t> WaitIn(RobustRow* row, Deadline deadline,
                                const Action& action) const;
  absl::Status Arrive(RobustRow& row, size_t index, const Action& action) const;
  absl::Status Sleep(RobustRow& row, Deadline deadline) const;
  absl::Status GiveUp(RobustRow& row) const;
  static absl::Status Outcome(const RobustRow& row);

  SyncBlock<Layout> block_;
  size_t parties_;
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_BARRIER_H_
