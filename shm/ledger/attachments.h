// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Attachments: what an arena's owner knows of the processes that may hold its
// blocks. The inbox of FreeTest (free_test.h).
//
// Each of them has sent its column to the arena's socket before its first claim
// (attach_message.h). Its descriptors are checked before they are used. An
// attachment ends with the process, or when its lease hangs up. An attachment
// can be refused in three ways (model: refuse):
//   the message is malformed   a fault of its sender, which no process of Tenon
//                              has; the sender's blocks are not protected
//   above the limit            the same: the sender has to count. Its lease is
//                              shut
//   the owner cannot be sure   the lease is shut, so that the process attaches
//   who sent it                anew; until it has hung up or ended nothing is
//                              reclaimed, because its cells cannot be read
// For want of descriptors or memory nothing is refused: the message stays in
// the socket, and nothing is reclaimed before it has been received.

#ifndef TENON_SHM_LEDGER_ATTACHMENTS_H_
#define TENON_SHM_LEDGER_ATTACHMENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/unix_socket.h"
#include "tenon/shm/ledger/attach_message.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {

// One process that is attached, or was until it died.
struct Attachment {
  RandomId column;
  pid_t sender = 0;  // As the kernel said.
  pid_t pid = 0;     // In this process's pid namespace; 0 if not visible there.
  std::string name;  // As the process calls itself.
  PidFd process;
  UniqueFd lease;
  UniqueFd column_fd;
  size_t cells_at = 0;  // In bytes of the column.
  ControlView view;     // Of its cells.
  uint64_t moved = 0;   // See NoteMoved().

  const SharedWord<uint64_t>* cells() const {
    return reinterpret_cast<const SharedWord<uint64_t>*>(view.data());
  }
};

// Ownership: owns the socket's two ends and, for each attachment, three
//   descriptors and a mapping of its cells. When destroyed, the processes'
//   leases end.
// Threads: thread-compatible.
// Processes: of the owner. Its forked children must not use it.
// Trust: what comes through the socket is anybody's word. A flood of
//   attachments, or one that this process has no descriptors left to receive,
//   ends nothing but taking back: see status().
class Attachments {
 public:
  // No more than this many at a time.
  static constexpr size_t kMaxAttached = 1024;
  // No more than this many of one process that have not ended: what is beyond
  // is refused.
  static constexpr size_t kMaxOfOneProcess = 64;

  // `blocks` is how many cells each attached process must have.
  // Errors: kResourceExhausted at the limit of descriptors.
  static absl::StatusOr<Attachments> Create(const RandomId& arena,
                                            uint64_t blocks);

  Attachments(Attachments&&) = default;
  Attachments& operator=(Attachments&&) = default;
  ~Attachments();

  // The end to be sent to whoever shall attach; still owned here. And the
  // kernel's own name for it, which no other socket ever has.
  int socket() const { return attach_end_.get(); }
  absl::StatusOr<uint64_t> socket_cookie() const {
    return SocketCookie(attach_end_.get());
  }

  // Takes in the processes that have attached until now; if there are any,
  // those that have ended are buried first. Does not block. What was received
  // of a faulty message is closed.
  void Receive();
  // Whether nothing more has been sent, and the cells of each process that
  // attached can be read: if not, nothing may be reclaimed.
  bool IsEmpty();
  // The cells of the attached processes not known to be dead, each of them
  // reserved for the blocks that Reserve() named.
  absl::Span<const SharedWord<uint64_t>* const> columns() const {
    return columns_;
  }
  // Parallel to columns().
  absl::Span<const Attachment> attached() const { return attached_; }

  // Makes sure that the cells of blocks [first, first + count), and those named
  // before, can be read in each column, also in those that come later.
  // Errors: kResourceExhausted naming the limit.
  absl::Status Reserve(uint64_t first, uint64_t count);

  // Counts a test that failed because the process at this index claimed and
  // released meanwhile.
  void NoteMoved(size_t index) { ++attached_[index].moved; }

  // Passes over the columns of processes that have died or detached. Indexes
  // change. Returns how many there were, the refused among them. One system
  // call for each RLIMIT_NOFILE descriptors.
  size_t BuryEnded();

  // Why nothing can be reclaimed now: a message could not be received, for want
  // of something here (descriptors, mappings, too many processes), or a live
  // process was refused. Names the process by its pid. OK if nothing is wrong.
  // Determined anew by each Receive().
  const absl::Status& status() const { return status_; }
  // Messages that were refused, and why the last one was.
  uint64_t refused() const { return refused_; }
  const absl::Status& last_refusal() const { return last_refusal_; }
  // Where refused() is published from now on, so that processes check their
  // leases; not owned. After a lease is shut its refusal is counted.
  void PublishRefused(SharedWord<uint64_t>* word) { refused_word_ = word; }

 private:
  struct Packet;

  // A live process that was refused, and whose cells cannot be read.
  struct Unseen {
    pid_t sender = 0;
    PidFd process;
    UniqueFd lease;
    absl::Status why;
  };

  Attachments(const RandomId& arena, uint64_t blocks, UniqueFd inbox,
              UniqueFd attach_end);

  // The first packet with its descriptors, without removing it.
  enum class Peeked { kNothing, kPacket, kCannot };
  Peeked Peek(Packet& packet);
  void ReceivePackets();
  void RemoveFirst();
  // Errors: what hinders this process, and may go better later.
  absl::Status Handle(Packet& packet);
  absl::Status CheckMessage(const Packet& packet) const;
  absl::Status Attach(Packet& packet);
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
  std::vector<Unseen> unseen_;
  std::map<uint64_t, uint64_t> reserved_;  // First -> end; disjoint.
  uint64_t fork_count_ = ForkCount();
  absl::Status status_;
  uint64_t refused_ = 0;
  SharedWord<uint64_t>* refused_word_ = nullptr;
  absl::Status last_refusal_;
};

// Tells the owner, through the socket that it gave. Nobody is waited for.
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
