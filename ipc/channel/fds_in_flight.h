// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FdsInFlight: bounds the descriptors that a socket has sent and its peer has
// not received.
//
//   TENON_RETURN_IF_ERROR(in_flight.MakeRoom(socket, fds.size(), deadline));
//   ... sendmsg() ...
//   in_flight.Sent(datagram_bytes, fds.size());
//
// No message returns credit: the kernel reports how much of a socket's sent
// data is unread (SIOCOUTQ), and as messages are read in order, the unread ones
// are the last. So a peer can withhold credit only by not reading, and when it
// dies the socket reports that.
//
// The kernel counts memory; Cost() is that cost of a datagram, or a little
// less. So the number counted as in flight may be slightly too high: credit may
// return a few messages late, but never while the descriptors are unread.

#ifndef TENON_IPC_CHANNEL_FDS_IN_FLIGHT_H_
#define TENON_IPC_CHANNEL_FDS_IN_FLIGHT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Threads: thread-compatible. Failure: a failed call changes nothing.
class FdsInFlight {
 public:
  explicit FdsInFlight(size_t limit) : limit_(limit) {}

  // Waits until `count` more, at most the limit, may be sent on `socket`. Calls
  // the kernel only if its own count leaves no room.
  // Errors: kResourceExhausted naming the number in flight if there is no room
  // until `deadline`, or if there is no descriptor left to wait with;
  // ioctl()'s.
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
  uint64_t sent_ = 0;  // The cost of all datagrams, at least.
  size_t count_ = 0;
  std::vector<Batch> batches_;  // In order; those that may be unread.
};

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_FDS_IN_FLIGHT_H_
