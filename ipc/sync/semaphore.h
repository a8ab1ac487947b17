// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Semaphore and BoundedSemaphore: a number of units that processes share.
//
//   TENON_ASSIGN_OR_RETURN(Semaphore slots, Semaphore::Create(4));
//   const int fd = slots.fd();  // Send it to a peer:
//   TENON_ASSIGN_OR_RETURN(Semaphore theirs,
//                          Semaphore::Adopt(std::move(received)));
//   TENON_RETURN_IF_ERROR(theirs.Acquire(deadline));
//   // Work.
//   TENON_RETURN_IF_ERROR(theirs.Release());
//
// A unit has no owner: one process may release a unit that another has
// acquired, and more units may be released than were acquired, except of a
// BoundedSemaphore. So the units of a process that dies do not return by
// themselves: a process that notices the death (its parent, by its pidfd)
// releases them. A Mutex is released with its holder's death.

#ifndef TENON_IPC_SYNC_SEMAPHORE_H_
#define TENON_IPC_SYNC_SEMAPHORE_H_

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

template <typename Layout>
class SyncBlock;

// Ownership: as Value (shm/value/value.h): owns a mapping, the descriptor, and
//   the name, if it made one. A moved-from semaphore is only good to be
//   destroyed or assigned to.
// Threads, processes: any number, of any pid namespaces. In a forked child
//   every call is kFailedPrecondition: send it the descriptor.
// Memory order: Acquire() of a unit sees everything written before the
//   Release() of that unit.
// Trust: any process of the group may acquire and release, and write arbitrary
//   bytes: the result is a wrong number of units, never a crash; a wait ends by
//   its deadline.
// Failure: the number is one word, so a killed process has made a call or not:
//   no unit is lost, doubled or half taken, and no process is blocked. Its
//   acquired units stay acquired. If a process is killed in Release() between
//   adding and waking, or is woken and then killed or stopped before it takes
//   the unit, the others find the unit within 100 ms.
class Semaphore {
 public:
  static constexpr uint32_t kMaxValue = 0x7fffffff;

  // Errors: kInvalidArgument for a value over kMaxValue;
  // Segment::CreateSharedWritable()'s.
  static absl::StatusOr<Semaphore> Create(uint32_t value,
                                          const SegmentOptions& options = {});
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if it is not a
  // Semaphore.
  static absl::StatusOr<Semaphore> Adopt(UniqueFd fd);
  static absl::StatusOr<Semaphore> Open(absl::string_view name);

  Semaphore(Semaphore&&) noexcept;
  Semaphore& operator=(Semaphore&&) noexcept;
  ~Semaphore();

  // -1 under kFileSystem: send name().
  int fd() const;
  const std::string& name() const;

  // Takes one unit. Blocks until there is one or `deadline` has passed; with
  // Passed() it tries once. Not in order of arrival.
  // Errors: kDeadlineExceeded; kFailedPrecondition in a forked child, here and
  // below.
  absl::Status Acquire(Deadline deadline) const;

  // Adds `count` units, and wakes as many. Does not block.
  // Errors: kOutOfRange, and nothing is added, above kMaxValue.
  absl::Status Release(uint32_t count = 1) const;

  // The number of units; a snapshot.
  absl::StatusOr<uint32_t> GetValue() const;

 private:
  friend class BoundedSemaphore;

  struct Layout;
  using Block = std::unique_ptr<SyncBlock<Layout>>;

  explicit Semaphore(Block block);
  static absl::StatusOr<Semaphore> Create(uint32_t value, bool bounded,
                                          const SegmentOptions& options);
  static absl::StatusOr<Semaphore> Check(absl::StatusOr<Block> block,
                                         bool bounded);

  Block block_;
  Layout* layout_;  // Of `block_`.
};

// A Semaphore that never has more units than at its creation. Otherwise as
// Semaphore.
class BoundedSemaphore {
 public:
  static absl::StatusOr<BoundedSemaphore> Create(
      uint32_t value, const SegmentOptions& options = {});
  static absl::StatusOr<BoundedSemaphore> Adopt(UniqueFd fd);
  static absl::StatusOr<BoundedSemaphore> Open(absl::string_view name);

  // -1 under kFileSystem: send name().
  int fd() const { return semaphore_.fd(); }
  const std::string& name() const { return semaphore_.name(); }

  absl::Status Acquire(Deadline deadline) const {
    return semaphore_.Acquire(deadline);
  }
  // Errors: kFailedPrecondition, and nothing is added, if there would be more
  // than at its creation.
  absl::Status Release(uint32_t count = 1) const {
    return semaphore_.Release(count);
  }
  absl::StatusOr<uint32_t> GetValue() const { return semaphore_.GetValue(); }

 private:
  explicit BoundedSemaphore(Semaphore semaphore)
      : semaphore_(std::move(semaphore)) {}
  static absl::StatusOr<BoundedSemaphore> Wrap(
      absl::StatusOr<Semaphore> semaphore);

  Semaphore semaphore_;
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_SEMAPHORE_H_
