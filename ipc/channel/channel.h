// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Channel: bytes and file descriptors from process to process.
//
//   TENON_ASSIGN_OR_RETURN(auto pair, Channel::CreatePair());
//   // One end goes to a child process.
//   const int fd = segment.fd();
//   TENON_RETURN_IF_ERROR(pair.first.Send("weights", {&fd, 1},
//                                         Deadline::After(absl::Seconds(1))));
//
//   TENON_ASSIGN_OR_RETURN(Message message,
//                          pair.second.Receive(Deadline::Never()));
//   // message.bytes == "weights", message.fds[0] is a descriptor of our own.
//
// A message arrives whole or not at all, with all of its descriptors; a
// descriptor in flight survives its sender. Transport is AF_UNIX SOCK_SEQPACKET
// (unix(7)). Do not use it for tensors in the steady state: it costs a system
// call at each end. Unrelated processes connect by listener.h.
//
// Memory order: Receive() of a message sees everything that the sending thread
//   wrote to shared memory before Send().

#ifndef TENON_IPC_CHANNEL_CHANNEL_H_
#define TENON_IPC_CHANNEL_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

class FdsInFlight;
enum class FrameKind : uint16_t;

struct ChannelOptions {
  // The most descriptors, at least 1, that this end has sent and its peer has
  // not received. Unreceived descriptors count against all processes of the
  // user (RLIMIT_NOFILE of them stop every one of them from sending any), so
  // one peer that does not read must not hold more. A segment that carries a
  // large message counts.
  size_t max_fds_in_flight = 253;
  // The largest message that this end receives.
  uint64_t max_message_bytes = uint64_t{1} << 30;
  // Whether descriptors of AF_UNIX sockets may be received: channels that
  // travel, the offer of an arena. Sockets within sockets are a way to make the
  // kernel collect garbage, so a receiver that expects none does not get them.
  bool allow_sockets = false;
};

// Ownership: owns its socket. Destruction closes it, which the peer cannot tell
//   from a death of this process: call Close() to end the stream in order.
// Threads: one thread may send while another receives; two senders, or two
//   receivers, need a lock of their own.
// Processes: inert in a forked child: calls fail with kFailedPrecondition.
// Trust: a frame has a magic number, a version and a length, all validated
//   before use. A message that fails validation costs an error, and the
//   descriptors that came with it are closed, never shut down: a rejected
//   socket keeps working for its other holders. Contents, and the type of each
//   descriptor, are the user's to check. Large messages are copied before they
//   are returned.
// Failure: each function says whether the channel is usable afterwards.
class Channel {
 public:
  // Messages larger than this, without limit, are sent in a segment,
  // transparently; that costs a few more system calls and one of the
  // descriptors.
  static constexpr size_t kMaxBytes = 64 * 1024;
  // The maximum per message.
  static constexpr size_t kMaxFds = 253;  // SCM_MAX_FD of the kernel.

  // Two connected ends, to be used by related processes.
  // Errors: kResourceExhausted at a limit of descriptors; kInvalidArgument for
  // bad options.
  static absl::StatusOr<std::pair<Channel, Channel>> CreatePair(
      const ChannelOptions& options = {});

  // Takes over a connected socket, inherited or received.
  // Errors: kInvalidArgument if it is not a connected AF_UNIX SOCK_SEQPACKET
  // socket, or for bad options.
  static absl::StatusOr<Channel> Adopt(UniqueFd socket,
                                       const ChannelOptions& options = {});

  // Takes back a socket that Release() has returned, here or in the process
  // that this one was forked from; nothing is checked, and no system call made.
  static Channel AdoptReleased(UniqueFd socket,
                               const ChannelOptions& options = {});

  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;
  ~Channel();

  // Sends `bytes` and duplicates of `fds`, which stay the caller's. Blocks
  // while the peer's buffer is full or too many descriptors are in flight,
  // until `deadline`. Never raises SIGPIPE.
  // Errors, all of which send nothing and leave the channel usable:
  //   kInvalidArgument    over kMaxFds or max_fds_in_flight, or an fd that is
  //                       not open
  //   kDeadlineExceeded   the peer does not read
  //   kResourceExhausted  too many descriptors in flight, of this channel (then
  //                       poll() of fd() may report it writable) or of the user
  //                       (ETOOMANYREFS); or no memory
  //   kUnavailable        the peer has died or destroyed its end
  //   kFailedPrecondition after Close()
  absl::Status Send(absl::string_view bytes, absl::Span<const int> fds,
                    Deadline deadline);

  // A message that is ready to be sent; bytes beyond kMaxBytes have been
  // copied. Refers to the bytes and descriptors it was made of, which must
  // outlive it.
  class Prepared {
   private:
    friend class Channel;
    absl::string_view bytes_;
    absl::Span<const int> fds_;
    std::optional<Segment> segment_;
  };

  // The slow half of Send(), for a sender with a lock: it needs no channel, and
  // so no lock. Does not wait for the peer, but copies a large message.
  // Errors: kInvalidArgument over kMaxFds; kResourceExhausted: no memory, or no
  // descriptor for the copy.
  static absl::StatusOr<Prepared> Prepare(absl::string_view bytes,
                                          absl::Span<const int> fds);

  // The other half; as above, without a copy.
  absl::Status Send(const Prepared& message, Deadline deadline);

  // Ends the stream of messages to the peer: after the messages sent before,
  // its Receive() returns kOutOfRange, also if this process dies meanwhile.
  // Send() fails from now on; Receive() still works. Blocks while the peer's
  // buffer is full, until `deadline`. May be repeated. Errors, after which the
  // channel is not closed: Send()'s.
  absl::Status Close(Deadline deadline);

  // Receives the next message, which may have `max_fds` descriptors; blocks
  // until `deadline`. Errors:
  //   kDeadlineExceeded   no message came; usable
  //   kOutOfRange         the end: the peer has called Close(), and all of its
  //                       messages have been received; each time
  //   kUnavailable        the peer has died, or has destroyed its end without
  //                       Close(), and all of its messages have been received
  //   kResourceExhausted  this process cannot take the descriptors (its limit
  //                       of open files), or the message exceeds
  //                       max_message_bytes: the message is lost, descriptors
  //                       that did arrive are closed; usable
  //   kDataLoss           the message is not a frame of this version, has too
  //                       many descriptors, or a socket that is not allowed; it
  //                       is lost likewise; the next message may be good
  absl::StatusOr<Message> Receive(Deadline deadline, size_t max_fds = kMaxFds);

  // The process at the other end; null if unknown. Set by listener.h; for a
  // socketpair by the process that made the pair (peer.h).
  const PeerProcess* peer() const { return peer_.get(); }
  void SetPeer(PeerProcess peer) {
    peer_ = std::make_unique<PeerProcess>(std::move(peer));
  }

  // For poll(): readable when Receive() would not wait, except after it has
  // returned kOutOfRange. Still owned here.
  int fd() const { return socket_.get(); }

  // Releases the socket, to be passed to another process.
  UniqueFd Release() { return std::move(socket_); }

 private:
  Channel(UniqueFd socket, const ChannelOptions& options);

  absl::Status SendFrame(FrameKind kind, absl::string_view payload,
                         absl::Span<const int> fds, Deadline deadline);

  UniqueFd socket_;
  ChannelOptions options_;
  std::unique_ptr<FdsInFlight> in_flight_;
  std::unique_ptr<PeerProcess> peer_;
  uint64_t fork_count_;
  bool closed_ = false;  // By this end.
  bool ended_ = false;   // The peer's end was received.
};

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_CHANNEL_H_
