// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Channel: bytes and file descriptors from process to process.
//
//   TENON_ASSIGN_OR_RETURN(auto pair, Channel::CreatePair());
//   // ... one end goes to a child process ...
//   const int fd = segment.fd();
//   TENON_RETURN_IF_ERROR(pair.first.Send("weights", {&fd, 1},
//                                         Deadline::After(absl::Seconds(1))));
//
//   TENON_ASSIGN_OR_RETURN(Message message,
//                          channel.Receive(Deadline::Never()));
//   // message.bytes == "weights", message.fds[0] is a descriptor of our own.
//
// A message arrives whole or not at all, with all of its descriptors; an fd in
// flight survives its sender. Over AF_UNIX SOCK_SEQPACKET (unix(7)). For
// tensors in the steady state this is the wrong tool: it costs a system call on
// each side.

#ifndef TENON_IPC_CHANNEL_H_
#define TENON_IPC_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {

// What Receive() gives. The descriptors are close-on-exec.
struct Message {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

// Ownership: owns its socket; closing it (destruction) tells the peer.
// Threads: one thread may send while another receives; two senders, or two
//   receivers, need a lock of their own.
// Processes: inert in a forked child: calls fail with kFailedPrecondition.
// Trust: a frame has a magic number, a version and a length, all checked before
//   anything is used; whatever does not fit costs an error and the descriptors
//   that came with it are closed. Contents are the user's to check.
// Failure: each function says whether the channel is usable afterwards.
class Channel {
 public:
  // The most that one message carries.
  static constexpr size_t kMaxBytes = 64 * 1024;
  static constexpr size_t kMaxFds = 253;  // SCM_MAX_FD of the kernel.

  // Two connected ends, to be used by related processes.
  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<std::pair<Channel, Channel>> CreatePair();

  // Takes over a connected socket, inherited or received.
  // Errors: kInvalidArgument if it is not a connected AF_UNIX SOCK_SEQPACKET
  // socket.
  static absl::StatusOr<Channel> Adopt(UniqueFd socket);

  Channel(Channel&&) = default;
  Channel& operator=(Channel&&) = default;

  // Sends `bytes` and duplicates of `fds`, which stay the caller's. Blocks
  // while the peer's buffer is full, until `deadline`. Never raises SIGPIPE.
  // Errors, all of which send nothing and leave the channel usable:
  //   kInvalidArgument    over kMaxBytes or kMaxFds, or an fd that is not open
  //   kDeadlineExceeded   the peer does not read
  //   kResourceExhausted  too many descriptors in flight (ETOOMANYREFS, a limit
  //                       per user) or no memory
  //   kUnavailable        the peer has closed its end or died
  absl::Status Send(absl::string_view bytes, absl::Span<const int> fds,
                    Deadline deadline);

  // Receives the next message; blocks until `deadline`.
  // Errors:
  //   kDeadlineExceeded   nothing came; usable
  //   kUnavailable        the peer has closed its end or died, and everything
  //                       it sent has been received
  //   kResourceExhausted  this process cannot take the descriptors (its limit
  //                       of open files): the message is lost, what did arrive
  //                       of it is closed; usable
  //   kDataLoss           the peer sent something that is not a frame of this
  //                       version; lost likewise; the next message may be good
  absl::StatusOr<Message> Receive(Deadline deadline);

  // For poll(): readable when Receive() would not wait. Still owned here.
  int fd() const { return socket_.get(); }

  // Gives up the socket, to be handed to another process.
  UniqueFd Release() { return std::move(socket_); }

 private:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_H_
