// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/fds_in_flight.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// Waits for the peer to read. The socket may be writable meanwhile, so poll()
// would not wait; edge-triggered epoll reports each time that memory of the
// socket is freed.
class ReadingPeer {
 public:
  absl::Status Watch(int socket) {
    epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.valid()) return PosixError(errno, "epoll_create1", "a channel");
    epoll_event events = {.events = EPOLLOUT | EPOLLET, .data = {}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &events) == 0) {
      return absl::OkStatus();
    }
    return PosixError(errno, "epoll_ctl", "a channel");
  }

  bool is_watching() const { return epoll_.valid(); }

  absl::Status Wait(Deadline deadline) const {
    pollfd fd = {.fd = epoll_.get(), .events = POLLIN, .revents = 0};
    TENON_RETURN_IF_ERROR(PollUntil({&fd, 1}, deadline).status());
    epoll_event event;
    // A signal only causes one more check.
    epoll_wait(epoll_.get(), &event, 1, 0);
    return absl::OkStatus();
  }

 private:
  UniqueFd epoll_;
};

bool IsGone(int socket) {
  pollfd fd = {.fd = socket, .events = 0, .revents = 0};
  return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

absl::Status FdsInFlight::MakeRoom(int socket, size_t count,
                                   Deadline deadline) {
  if (HasRoom(count)) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(Update(socket));
  ReadingPeer peer;
  while (!HasRoom(count)) {
    // sendmsg() reports that the peer is gone.
    if (IsGone(socket)) return absl::OkStatus();
    if (deadline.has_passed()) return TooMany(count);
    if (peer.is_watching()) {
      TENON_RETURN_IF_ERROR(peer.Wait(deadline));
    } else {
      TENON_RETURN_IF_ERROR(peer.Watch(socket));
    }
    TENON_RETURN_IF_ERROR(Update(socket));
  }
  return absl::OkStatus();
}

// A struct sk_buff, and memory in sizes of powers of two for the bytes and a
// struct skb_shared_info; of large datagrams a part is in pages.
uint64_t FdsInFlight::Cost(size_t bytes) {
  constexpr size_t kBuffer = 256, kSharedInfo = 320, kLine = 64;
  constexpr size_t kLargest = 16384, kSmallest = 512;
  const size_t linear = (bytes + kLine - 1) / kLine * kLine + kSharedInfo;
  if (linear > kLargest) return bytes + kSmallest;
  return kBuffer + std::max(std::bit_ceil(linear), kSmallest);
}

void FdsInFlight::Sent(size_t bytes, size_t count) {
  if (count > 0) batches_.push_back({.sent_before = sent_, .fds = count});
  sent_ += Cost(bytes);
  count_ += count;
}

absl::Status FdsInFlight::Update(int socket) {
  if (batches_.empty()) return absl::OkStatus();
  int unread = 0;
  if (ioctl(socket, SIOCOUTQ, &unread) != 0) {
    return PosixError(errno, "ioctl", "SIOCOUTQ of a channel");
  }
  // Batches after which more has been sent than is unread have been read.
  const auto first_unread =
      std::find_if(batches_.begin(), batches_.end(), [&](const Batch& batch) {
        return sent_ - batch.sent_before <= static_cast<uint64_t>(unread);
      });
  for (auto read = batches_.begin(); read != first_unread; ++read) {
    count_ -= read->fds;
  }
  batches_.erase(batches_.begin(), first_unread);
  return absl::OkStatus();
}

absl::Status FdsInFlight::TooMany(size_t count) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "channel: ", count_, " descriptors are in flight in ", batches_.size(),
      " messages that the peer has not received; ", count,
      " more exceed the limit of ", limit_,
      " (max_fds_in_flight of the channel's options)"));
}

}  // namespace tenon
