// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FdShelf: descriptors that are laid out for others to take copies of, as often
// as they like, and that outlive whoever laid them there.
//
//   TENON_ASSIGN_OR_RETURN(FdShelf shelf, FdShelf::Create());
//   // ... duplicates of both of its descriptors go to everybody ...
//   TENON_RETURN_IF_ERROR(shelf.Put("who I am", {&pid_fd, 1}));
//
//   TENON_ASSIGN_OR_RETURN(ShelfItem item, theirs.Take());  // In any process.
//
// It is a pair of connected sockets of which all users have both ends. What is
// laid there is a message that nobody receives: Take() peeks at it. Put() first
// sends the new one and then removes what was before, so that at every instant
// the message at the front is whole; Take() sees the former one until then.

#ifndef TENON_IPC_QUEUE_FD_SHELF_H_
#define TENON_IPC_QUEUE_FD_SHELF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// The descriptors are the taker's own, close-on-exec.
struct ShelfItem {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

// Ownership: owns its two descriptors (close-on-exec). What was laid there
//   lives until it is removed, or nobody has the shelf any more.
// Threads: any number may Take(); one at a time may Put() or Clear().
// Processes: one process writes, and when it has died another may, from then on
//   alone: if the first was killed in Put(), what was there before or what it
//   put is there, and the next Put() removes both. Works on in a forked child.
// Trust: for those who trust each other: everybody who has a shelf can remove
//   what is on it. What was not laid there by Put() is kDataLoss. No call
//   blocks.
// Failure: a failed call changes nothing.
class FdShelf {
 public:
  static constexpr size_t kMaxBytes = 4096;
  static constexpr size_t kMaxFds = 253;  // SCM_MAX_FD of the kernel.

  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<FdShelf> Create();

  // Takes over duplicates of both descriptors of one shelf, in the order of
  // fds(); not if it fails. Errors: kInvalidArgument if they cannot be those.
  static absl::StatusOr<FdShelf> Adopt(UniqueFd&& in, UniqueFd&& out);

  FdShelf(FdShelf&&) = default;
  FdShelf& operator=(FdShelf&&) = default;

  // What others need, still owned here.
  std::array<int, 2> fds() const { return {in_.get(), out_.get()}; }

  // Lays `bytes` and duplicates of `fds` there in place of what there was.
  // Errors: kInvalidArgument over a limit, or for an fd that is not open;
  // kResourceExhausted if all processes of the user have too many descriptors
  // on their way or on shelves (ETOOMANYREFS, RLIMIT_NOFILE of them), or there
  // is no memory.
  absl::Status Put(absl::string_view bytes, absl::Span<const int> fds);

  // Copies of what is there, but for its last `but_last` descriptors. Errors:
  // kNotFound if nothing is; kResourceExhausted if this process has no
  // descriptors left for it (those that came are closed); kDataLoss if it is
  // nothing that Put() laid there, or has fewer.
  absl::StatusOr<ShelfItem> Take(size_t but_last = 0) const;

  // Removes what is there.
  absl::Status Clear();

  // The other direction: makes wake_fd() readable in all processes until
  // TakeWakes(). One system call, which needs no descriptor and does not block.
  // Threads: any number may call these.
  void Wake() const;
  int wake_fd() const { return in_.get(); }
  void TakeWakes() const;

  // Gives up both descriptors, in the order of fds(). Nothing else may be
  // called then.
  std::array<UniqueFd, 2> Release() {
    return {std::move(in_), std::move(out_)};
  }

 private:
  FdShelf(UniqueFd in, UniqueFd out)
      : in_(std::move(in)), out_(std::move(out)) {}

  absl::StatusOr<ShelfItem> Peek(size_t but_last, size_t room) const;

  UniqueFd in_;
  UniqueFd out_;
  // Of what this process has put, which lies there alone; zero: what lies there
  // is not known.
  RandomId last_id_;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_FD_SHELF_H_
