// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Attachments: an arena owner's record of the processes that may hold its
// blocks. The inbox of FreeTest (free_test.h).
//
// Each of them has sent its column to the arena's socket before its first claim
// (attach_message.h). Its descriptors are checked before they are used. An
// attachment ends with the process, or when its lease hangs up. An attachment
// can be refused in two ways (model: refuse):
//   the message is malformed   a fault of its sender, which no process of Tenon
//                              has; the sender's blocks are not protected
//   the owner cannot be sure   the lease is shut, so that the process attaches
//   of the sender, or it is    anew; until it has hung up or ended, no block is
//   above the limit of its     reclaimed that was handed out before the refusal,
//   process                    because its cells are not read
// A lack of descriptors or memory refuses no message: it stays in the socket,
// and no block is reclaimed before it has been received.

#ifndef TENON_SHM_LEDGER_ATTACHMENTS_H_
#define TENON_SHM_LEDGER_ATTACHMENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/unix_socket.h"
#include "tenon/shm/ledger/attach_message.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {

// A process that is attached, or was until it died.
struct Attachment {
  RandomId column;
  pid_t sender = 0;  // From the kernel's credentials.
  pid_t pid = 0;     // In this process's pid namespace; 0 if not visible there.
  std::string name;  // As set by the process itself.
  PidFd process;
  UniqueFd lease;
  UniqueFd column_fd;
  size_t cells_at = 0;  // In bytes of the column.
  ControlView view;     // Of its cells.
  uint64_t moved = 0;   // See CountMoved().

  const SharedWord<uint64_t>* cells() const {
    return reinterpret_cast<const SharedWord<uint64_t>*>(view.data());
  }
};

// Ownership: owns the socket's two ends and, for each attachment, three
//   descriptors and a mapping of its cells. Its destruction ends the processes'
//   leases.
// Threads: thread-compatible.
// Processes: of the owner. Its forked children must not use it.
// Trust: messages from the socket are untrusted. A flood of attachments, or one
//   that this process lacks the descriptors to receive, stops only reclaiming:
//   see status().
class Attachments {
 public:
  // No more than this many at a time.
  static constexpr size_t kMaxAttached = 1024;
  // No more than this many of one process that have not ended. A process counts
  // its own, but loses count in exec(): a child that it forked before may keep
  // a lease open. So one more is refused and watched until it ends; further
  // ones stay in the socket until then.
  static constexpr size_t kMaxOfOneProcess = 64;

  // `blocks` is the number of cells that each attached process must have.
  // Errors: kResourceExhausted at the limit of descriptors.
  static absl::StatusOr<Attachments> Create(const RandomId& arena,
                                            uint64_t blocks);

  Attachments(Attachments&&) = default;
  Attachments& operator=(Attachments&&) = default;
  ~Attachments();

  // The end to send to processes that shall attach, still owned here; and the
  // kernel's id of it, which is unique among sockets.
  int socket() const { return attach_end_.get(); }
  absl::StatusOr<uint64_t> socket_cookie() const {
    return SocketCookie(attach_end_.get());
  }

  // Receives the pending attachments; if there are any, first removes processes
  // that have ended. Does not block. The descriptors of a faulty message are
  // closed.
  void Receive();
  // Whether no further message has been sent: if not, no block may be
  // reclaimed.
  bool IsEmpty();
  // The value that refused() had after the newest refusal of a process that has
  // not detached or ended: it may hold any block that was handed out before.
  // 0 if there is none. Changes in Receive() and RemoveExited().
  uint64_t newest_refusal() const {
    return unseen_.empty() ? 0 : unseen_.back().number;
  }
  // Names the process of that refusal by its pid, and the reason; empty if
  // there is none.
  std::string DescribeRefused() const;
  // The cells of the attached processes not known to be dead, each of them
  // reserved for the blocks of Reserve().
  absl::Span<const SharedWord<uint64_t>* const> columns() const {
    return columns_;
  }
  // Parallel to columns().
  absl::Span<const Attachment> attached() const { return attached_; }

  // Makes the cells of blocks [first, first + count), and those of earlier
  // calls, readable in each column, including later ones.
  // Errors: kResourceExhausted naming the limit.
  absl::Status Reserve(uint64_t first, uint64_t count);

  // Counts a test that failed because the process at this index claimed and
  // released meanwhile.
  void CountMoved(size_t index) { ++attached_[index].moved; }

  // Removes processes that have died or detached. Indexes change. Returns their
  // number, including refused ones. One system call for each RLIMIT_NOFILE
  // descriptors.
  size_t RemoveExited();

  // Calls `ended` in RemoveExited() for each process that is removed, while its
  // cells can be read; with null for a refused process, whose cells cannot.
  // Null: calls nothing.
  using Ended = std::function<void(const Attachment* ended)>;
  void OnEnd(Ended ended) { ended_ = std::move(ended); }

  // The reason why no block can be reclaimed now: a message could not be
  // received because a limit here is exhausted (descriptors, mappings, number
  // of processes). Names the process by its pid. OK otherwise. Updated by each
  // Receive().
  const absl::Status& status() const { return status_; }
  // The number of refused messages, and the reason for the last one.
  uint64_t refused() const { return refused_; }
  const absl::Status& last_refusal() const { return last_refusal_; }
  // Publishes refused() in `word` from now on, so that processes check their
  // leases; not owned. A refusal is counted after its lease is shut.
  void PublishRefused(SharedWord<uint64_t>* word) { refused_word_ = word; }

 private:
  struct Packet;

  // A live process that was refused, and whose cells cannot be read.
  struct Unseen {
    pid_t sender = 0;
    PidFd process;
    UniqueFd lease;
    absl::Status why;
    uint64_t number = 0;  // refused(), once it was refused.
  };

  Attachments(const RandomId& arena, uint64_t blocks, UniqueFd inbox,
              UniqueFd attach_end);

  // The first packet with its descriptors, without removing it.
  enum class Peeked { kNothing, kPacket, kCannot };
  Peeked Peek(Packet& packet);
  void RemoveFirst();
  // Errors: temporary ones, of this process's limits.
  absl::Status Handle(Packet& packet);
  absl::Status CheckMessage(const Packet& packet) const;
  absl::Status Attach(Packet& packet);
  absl::Status AboveLimit(const Packet& packet) const;
  absl::Status MakeRoomFor(const Packet& packet);
  size_t CountOf(pid_t sender) const;
  void Refuse(absl::Status why);
  void RefuseUnseen(Unseen unseen);
  void Remove(size_t index);

  RandomId arena_;
  uint64_t blocks_;
  UniqueFd inbox_;
  UniqueFd attach_end_;
  std::vector<Attachment> attached_;
  std::vector<const SharedWord<uint64_t>*> columns_;
  std::vector<Unseen> unseen_;             // In the order of their refusals.
  std::map<uint64_t, uint64_t> reserved_;  // First -> end; disjoint.
  uint64_t fork_count_ = ForkCount();
  absl::Status status_;
  uint64_t refused_ = 0;
  SharedWord<uint64_t>* refused_word_ = nullptr;
  Ended ended_;
  absl::Status last_refusal_;
};

// Sends the request to the owner, through the socket of its offer. Never
// blocks.
// Errors: kUnavailable if the owner has died or closed the arena;
// kResourceExhausted if its inbox is full, or at a limit of descriptors.
struct AttachRequest {
  RandomId arena;
  uint64_t first_cell;
  uint64_t cells;
  int column;
  int process;
  int lease;
};
absl::Status SendAttach(int socket, const AttachRequest& request);

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_ATTACHMENTS_H_
