// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FdBoard: descriptors published for other processes, which receive copies as
// often as they like, also after the publisher has died.
//
//   TENON_ASSIGN_OR_RETURN(FdBoard board, FdBoard::Create());
//   // Duplicates of both of its descriptors go to each process of the group.
//   TENON_RETURN_IF_ERROR(board.Publish("a name", {&pid_fd, 1}));
//
//   TENON_ASSIGN_OR_RETURN(Message item, theirs.Read());  // Any process.
//
// A board is a pair of connected sockets; every user has both ends. The
// published item is a message that is never received: Read() peeks at it.
// Publish() first sends the new message and then removes the former one, so
// that the message at the front is complete at every instant; Read() sees the
// former one until then.

#ifndef TENON_IPC_QUEUE_FD_BOARD_H_
#define TENON_IPC_QUEUE_FD_BOARD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Ownership: owns its two descriptors (close-on-exec). A published item exists
//   until it is removed, or until no process has the board any more; a reader's
//   copy of it, a Message, belongs to the reader.
// Threads: any number may call Read(); one at a time may call Publish() or
//   Clear().
// Processes: one process publishes. After its death another one may, alone from
//   then on: if the first was killed in Publish(), the board has the former
//   item or the new one, and the next Publish() removes both. Usable in a
//   forked child.
// Trust: for groups that trust each other: each process that has a board can
//   remove its item. A message that Publish() did not send is kDataLoss. No
//   call blocks.
// Failure: a failed call changes nothing.
class FdBoard {
 public:
  static constexpr size_t kMaxBytes = 4096;
  static constexpr size_t kMaxFds = 253;  // SCM_MAX_FD of the kernel.

  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<FdBoard> Create();

  // Takes over duplicates of both descriptors of one board, in the order of
  // fds(); if it fails it takes neither. Errors: kInvalidArgument if they are
  // not connected AF_UNIX SOCK_SEQPACKET sockets.
  static absl::StatusOr<FdBoard> Adopt(UniqueFd&& in, UniqueFd&& out);

  FdBoard(FdBoard&&) = default;
  FdBoard& operator=(FdBoard&&) = default;

  // The descriptors that peers need; still owned here.
  std::array<int, 2> fds() const { return {in_.get(), out_.get()}; }

  // Replaces the published item by `bytes` and duplicates of `fds`. Errors:
  // kInvalidArgument over a limit, or for an fd that is not open;
  // kResourceExhausted if all processes of the user have too many descriptors
  // in flight or published (ETOOMANYREFS, at RLIMIT_NOFILE), or there is no
  // memory.
  absl::Status Publish(absl::string_view bytes, absl::Span<const int> fds);

  // Copies of the published item without its last `but_last` descriptors.
  // Errors: kNotFound if none is published; kResourceExhausted if this process
  // may open no more descriptors (those received are closed); kDataLoss if
  // Publish() did not send it, or it has fewer descriptors.
  absl::StatusOr<Message> Read(size_t but_last = 0) const;

  // Removes the published item.
  absl::Status Clear();

  // The other direction: makes wake_fd() readable in all processes until
  // TakeWakes(). One system call, which needs no descriptor and does not block.
  // Threads: any number may call these.
  void Wake() const;
  int wake_fd() const { return in_.get(); }
  void TakeWakes() const;

  // Releases both descriptors, in the order of fds(); the board is unusable
  // afterwards.
  std::array<UniqueFd, 2> Release() {
    return {std::move(in_), std::move(out_)};
  }

 private:
  FdBoard(UniqueFd in, UniqueFd out)
      : in_(std::move(in)), out_(std::move(out)) {}

  absl::StatusOr<Message> Receive(size_t but_last, size_t room) const;

  UniqueFd in_;
  UniqueFd out_;
  // Of the item that this process has published, if it is the only message on
  // the board; zero if that is unknown.
  RandomId last_id_;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_FD_BOARD_H_
