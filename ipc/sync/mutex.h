// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Mutex: a lock that processes share, and that outlives its holders.
//
//   TENON_ASSIGN_OR_RETURN(Mutex mutex, Mutex::Create());
//   const int fd = mutex.fd();  // Send it to a peer:
//   TENON_ASSIGN_OR_RETURN(Mutex theirs, Mutex::Adopt(std::move(received)));
//   TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, theirs.Lock(deadline));
//   if (guard.owner_died()) {
//     Repair(data);  // Writes of the dead holder may be incomplete.
//     TENON_RETURN_IF_ERROR(guard.MakeConsistent());
//   }
//
// It is a pthread mutex, robust and process-shared. A thread holds it: only
// that thread may unlock. For units that one process acquires and another one
// releases there is Semaphore.

#ifndef TENON_IPC_SYNC_MUTEX_H_
#define TENON_IPC_SYNC_MUTEX_H_

#include <cstdint>
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

struct MutexLayout;
template <typename Layout>
class SyncBlock;

struct MutexOptions {
  // Whether the holding thread may lock it again; then it is free when all
  // guards are gone. Otherwise a second lock is an error.
  bool recursive = false;
  SegmentOptions segment = {};
};

// Ownership: as Value (shm/value/value.h): owns a mapping, the descriptor, and
//   the name, if it made one. A moved-from mutex is only good to be destroyed
//   or assigned to.
// Threads, processes: any number, of one pid namespace. In a forked child every
//   call is kFailedPrecondition: send it the descriptor.
// Memory order: a holder sees everything that former holders wrote before they
//   unlocked or died.
// Trust: for groups that trust each other. A process that writes arbitrary
//   bytes can crash its users (robust_mutex.h).
// Failure: a holder that is killed, or a thread that ends, at any instruction,
//   frees it at once; the next holder is told by owner_died(). A waiter that is
//   killed leaves no trace. A stopped holder keeps it.
// Limits: a thread holds at most 2,048 robust locks at once: its mutexes (a
//   recursive one counts once) and its slots of conditions and barriers. The
//   kernel releases that many when a thread dies (ROBUST_LIST_LIMIT); one more
//   is refused, as it could stay locked for ever. Robust pthread mutexes of
//   other libraries take part of the same limit and are not counted here.
class Mutex {
 public:
  // The lock, held. Belongs to the thread that locked, which must destroy or
  // unlock it before the Mutex is destroyed.
  class Guard {
   public:
    Guard(Guard&& other) noexcept
        : layout_(std::exchange(other.layout_, nullptr)),
          fork_count_(other.fork_count_),
          owner_died_(other.owner_died_) {}
    Guard& operator=(Guard&& other) noexcept;
    ~Guard() {
      if (layout_ != nullptr) Drop();
    }

    // False once unlocked or moved from.
    bool owns() const { return layout_ != nullptr; }

    // Whether a holder died, and MakeConsistent() was not called since: the
    // data that the mutex protects may be inconsistent. If this guard is
    // unlocked in this state, no process gets the mutex again; if its process
    // dies, the next holder is told the same.
    bool owner_died() const { return owner_died_; }
    // Errors: kFailedPrecondition unless owner_died(), or on another thread.
    absl::Status MakeConsistent();

    // Errors: kFailedPrecondition if it is not held, or by another thread, or
    // by the parent of this process.
    absl::Status Unlock();

   private:
    friend class Mutex;
    friend class Condition;
    Guard(MutexLayout* layout, bool owner_died);
    void Drop();

    MutexLayout* layout_;
    uint64_t fork_count_;
    bool owner_died_;
  };

  // Errors: Segment::CreateSharedWritable()'s; kFailedPrecondition if the pid
  // namespace is unknown (no /proc).
  static absl::StatusOr<Mutex> Create(const MutexOptions& options = {});

  // Opens a mutex that another process has sent or named.
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if it is not a
  // Mutex; kFailedPrecondition in another pid namespace than its creator's.
  static absl::StatusOr<Mutex> Adopt(UniqueFd fd);
  static absl::StatusOr<Mutex> Open(absl::string_view name);

  Mutex(Mutex&&) noexcept;
  Mutex& operator=(Mutex&&) noexcept;
  ~Mutex();

  // -1 under kFileSystem: send name().
  int fd() const;
  const std::string& name() const;

  // Blocks until it is free or `deadline` has passed; with Passed() it tries
  // once. Not in order of arrival.
  // Errors: kDeadlineExceeded naming the holder; kFailedPrecondition if this
  // thread holds it already and it is not recursive, and in a forked child;
  // kResourceExhausted at once if this thread holds 2,048 robust locks;
  // kDataLoss for ever, whatever the deadline, once a guard with owner_died()
  // was unlocked.
  absl::StatusOr<Guard> Lock(Deadline deadline) const;

  // Whether it is held; a snapshot.
  absl::StatusOr<bool> IsLocked() const;
  // "a Mutex, held by thread 17" or "a Mutex, free".
  std::string DebugString() const;

 private:
  friend class Condition;

  using Block = std::unique_ptr<SyncBlock<MutexLayout>>;

  explicit Mutex(Block block);
  static absl::StatusOr<Mutex> Wrap(absl::StatusOr<Block> block);
  static absl::Status Describe(int error, const MutexLayout& layout);

  Block block_;
  MutexLayout* layout_;  // Of `block_`.
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_MUTEX_H_
