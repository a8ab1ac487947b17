// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FdsInFlight: bounds the descriptors that a socket has sent and its peer has
// not received.
//
//   TENON_RETURN_IF_ERROR(in_flight.MakeRoom(socket, fds.size(), deadline));
//   ... sendmsg() ...
//   in_flight.Sent(datagram_bytes, fds.size());
//
// No message gives credit back: the kernel knows how much of what a socket has
// sent is unread (SIOCOUTQ), and as messages are read in their order, the
// unread ones are the last. So nothing that the peer does or fails to do, short
// of not reading, keeps credit away, and when it dies the socket says so.
//
// The kernel counts memory: what a datagram costs there, or a little less, is
// known here (Cost()). So the number counted as in flight may be a little more
// than is: credit may come back a few messages late, but never while the
// descriptors are unread.

#ifndef TENON_IPC_CHANNEL_FDS_IN_FLIGHT_H_
#define TENON_IPC_CHANNEL_FDS_IN_FLIGHT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Threads: thread-compatible. Failure: no error changes anything.
class FdsInFlight {
 public:
  explicit FdsInFlight(size_t limit) : limit_(limit) {}

  // Waits until `count` more, at most the limit, may be sent on `socket`. Calls
  // the kernel only if by its own count there is no room.
  // Errors: kResourceExhausted naming the number in flight if that lasts until
  // `deadline`, or if there is no descriptor left to wait with; ioctl()'s.
  absl::Status MakeRoom(int socket, size_t count, Deadline deadline);

  // A datagram of `bytes` bytes with `count` descriptors has been sent.
  void Sent(size_t bytes, size_t count);

  // The least that a datagram of `bytes` bytes costs while it is unread.
  static uint64_t Cost(size_t bytes);

 private:
  struct Batch {
    uint64_t sent_before;
    size_t fds;
  };

  bool HasRoom(size_t count) const { return count_ + count <= limit_; }
  absl::Status Update(int socket);
  absl::Status TooMany(size_t count) const;

  size_t limit_;
  uint64_t sent_ = 0;  // What all datagrams cost, at least.
  size_t count_ = 0;
  std::vector<Batch> batches_;  // In their order; those that may be unread.
};

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_FDS_IN_FLIGHT_H_
