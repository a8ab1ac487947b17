// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Condition: waits, with a Mutex, for an action of another process.
//
//   // One process:
//   TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex.Lock(deadline));
//   TENON_RETURN_IF_ERROR(condition.WaitFor(
//       guard, [&] { return !items.empty(); }, deadline));
//
//   // Another:
//   TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex.Lock(deadline));
//   items.push_back(item);
//   TENON_RETURN_IF_ERROR(condition.Notify(guard).status());
//
// It does not use a pthread condition: those block for ever once a waiter was
// killed.

#ifndef TENON_IPC_SYNC_CONDITION_H_
#define TENON_IPC_SYNC_CONDITION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {

class RobustMutex;
struct RobustSlot;
template <typename Layout>
class SyncBlock;

// Ownership: as Value (shm/value/value.h): owns a mapping, the descriptor, and
//   the name, if it made one. Refers to no Mutex: all users use the same one,
//   which is not recursive. A moved-from condition is only good to be destroyed
//   or assigned to.
// Threads, processes: any number, of one pid namespace; up to kMaxWaiters wait
//   at once. In a forked child every call is kFailedPrecondition.
// Memory order: that of the mutex: a waiter sees everything that the notifier
//   wrote before it unlocked.
// Trust: for groups that trust each other, as Mutex.
// Failure: a notification goes to the longest waiter that is alive. If that one
//   is killed before it has the mutex again, another waiter gets the
//   notification, within 100 ms. If a process is killed that holds the mutex,
//   also in Notify(), a waiter gets the mutex with owner_died() within 100 ms.
//   If the mutex is unlocked without a repair after that, all waiters get
//   kDataLoss within 100 ms, whatever their deadlines. A waiter that is stopped
//   after its notification keeps it.
// Limits: a waiter's slot counts towards the robust locks that its thread may
//   hold (mutex.h), until Wait() returns.
class Condition {
 public:
  static constexpr size_t kMaxWaiters = 256;

  // Errors: Segment::CreateSharedWritable()'s; kFailedPrecondition if the pid
  // namespace is unknown.
  static absl::StatusOr<Condition> Create(const SegmentOptions& options = {});
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if it is no
  // Condition; kFailedPrecondition in another pid namespace.
  static absl::StatusOr<Condition> Adopt(UniqueFd fd);
  static absl::StatusOr<Condition> Open(absl::string_view name);

  Condition(Condition&&) noexcept;
  Condition& operator=(Condition&&) noexcept;
  ~Condition();

  // -1 under kFileSystem: send name().
  int fd() const;
  const std::string& name() const;

  // Unlocks the mutex, waits to be notified, and locks it again: the deadline
  // bounds the wait to be notified, not the one for the mutex. Returns OK
  // exactly if it was notified, or if a holder of the mutex died: then
  // guard.owner_died().
  // Errors: kDeadlineExceeded; kFailedPrecondition, and nothing was done, if
  // the guard does not own the mutex, it is recursive, or owner_died();
  // kResourceExhausted, and nothing was done, if kMaxWaiters wait, or if this
  // thread holds 2,048 robust locks, the mutex included; kDataLoss, and the
  // guard owns nothing, if the mutex can never be locked again, within 100 ms.
  absl::Status Wait(Mutex::Guard& guard, Deadline deadline) const;

  // Waits until `is_true`, which is called with the mutex held.
  // Errors: kDeadlineExceeded if it is still false then; kAborted if a holder
  // died, and guard.owner_died(): repair the data first; those of Wait().
  absl::Status WaitFor(Mutex::Guard& guard, absl::FunctionRef<bool()> is_true,
                       Deadline deadline) const;

  // Wakes the `count` longest waiters; each continues once it gets the mutex.
  // Returns the number notified, which is smaller if fewer wait. Does not
  // block.
  // Errors: kFailedPrecondition if the guard does not own the mutex.
  absl::StatusOr<size_t> Notify(const Mutex::Guard& guard,
                                size_t count = 1) const;
  absl::StatusOr<size_t> NotifyAll(const Mutex::Guard& guard) const {
    return Notify(guard, kMaxWaiters);
  }

  // The number of waiters without a notification. Errors: as Notify().
  absl::StatusOr<size_t> CountWaiters(const Mutex::Guard& guard) const;

 private:
  // States of a slot.
  static constexpr uint32_t kWaiting = 1;
  static constexpr uint32_t kNotified = 2;

  struct Layout;
  using Block = std::unique_ptr<SyncBlock<Layout>>;

  explicit Condition(Block block);
  static absl::StatusOr<Condition> Wrap(absl::StatusOr<Block> block);

  absl::Status CheckGuard(const Mutex::Guard& guard) const;
  size_t used() const;
  absl::StatusOr<RobustSlot*> TakeSlot() const;
  RobustSlot* OldestWaiter() const;
  bool NotifyOldest() const;
  void HandleDeadWaiters() const;
  bool AnyDied(const RobustMutex& mutex) const;
  int Sleep(RobustSlot& slot, RobustMutex& mutex, Deadline deadline) const;
  int InheritFromDead(RobustSlot& slot, RobustMutex& mutex) const;

  Block block_;
  Layout* layout_;  // Of `block_`.
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_CONDITION_H_
