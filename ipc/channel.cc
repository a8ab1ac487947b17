// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/ancillary.h"
#include "tenon/ipc/frame.h"
#include "tenon/ipc/socket_checks.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

static_assert(Channel::kMaxFds == kMaxFdsInMessage);

// Since Linux 6.5, and younger than some C libraries.
constexpr int kSoPassPidFd = 76;

// What recvmsg() fills.
struct Inbox {
  char datagram[sizeof(FrameHeader) + Channel::kMaxBytes];
  ControlBuffer control;
};

absl::Status CheckUsable(int socket, uint64_t fork_count) {
  ABSL_RAW_CHECK(socket >= 0,
                 "Channel used after it was moved from or released");
  return CheckNotForked(fork_count, "channel");
}

absl::Status PeerIsGone() {
  return absl::UnavailableError(
      "channel: the peer has closed its end or has died");
}

absl::Status WaitFor(int socket, short event, Deadline deadline) {
  // Asked here too, so that somebody else who uses the same socket and is
  // always faster cannot keep the caller's loop alive.
  pollfd fd = {.fd = socket, .events = event, .revents = 0};
  int ready = 0;
  if (!deadline.has_passed()) {
    TENON_ASSIGN_OR_RETURN(ready, PollUntil(&fd, 1, deadline));
  }
  if (ready > 0) return absl::OkStatus();
  return absl::DeadlineExceededError(
      event == POLLIN
          ? "channel: the peer has sent nothing"
          : "channel: the buffer is full, as the peer does not read");
}

// ---- Send ----

absl::Status CheckLimits(absl::string_view bytes, absl::Span<const int> fds) {
  if (bytes.size() > Channel::kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "channel: a message of ", bytes.size(), " bytes; one carries at most ",
        Channel::kMaxBytes, ", more goes into a segment"));
  }
  if (fds.size() > Channel::kMaxFds) {
    return absl::InvalidArgumentError(
        absl::StrCat("channel: a message with ", fds.size(),
                     " descriptors; one carries at most ", Channel::kMaxFds,
                     " (SCM_MAX_FD of the kernel)"));
  }
  return absl::OkStatus();
}

// Which of `fds` made sendmsg() fail with EBADF.
absl::Status NotOpen(absl::Span<const int> fds) {
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fcntl(fds[i], F_GETFD) >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("channel: descriptor ", i + 1, " of ", fds.size(),
                     " to be sent, ", fds[i], ", is not open"));
  }
  return absl::InvalidArgumentError(
      "channel: a descriptor to be sent was not open");
}

absl::Status SendError(int error_number, size_t size,
                       absl::Span<const int> fds) {
  switch (error_number) {
    case EPIPE:
    case ECONNRESET:
      return PeerIsGone();
    case EBADF:
      return NotOpen(fds);
    case EMSGSIZE:
      return absl::ResourceExhaustedError(absl::StrCat(
          "channel: a frame of ", size, " bytes is more than the send buffer ",
          "of this socket takes; raise SO_SNDBUF, or, if it has the default, ",
          "sysctl -w net.core.wmem_default=212992"));
    default:
      return PosixError(error_number, "sendmsg",
                        absl::StrCat("a channel, ", size, " bytes, ",
                                     fds.size(), " descriptors"));
  }
}

// ---- Receive ----

// Waits for a datagram and takes it; returns its size.
absl::StatusOr<size_t> TakeDatagram(int socket, msghdr* message,
                                    Deadline deadline) {
  bool was_reset = false;
  for (;;) {
    const ssize_t size = RetryOnEintr([&] {
      return recvmsg(socket, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    });
    if (size >= 0) return static_cast<size_t>(size);
    // A peer that dies with messages of ours unread is reported once, before
    // what it had sent, which is still there.
    if (errno == ECONNRESET && !std::exchange(was_reset, true)) continue;
    if (errno != EAGAIN) return PosixError(errno, "recvmsg", "a channel");
    TENON_RETURN_IF_ERROR(WaitFor(socket, POLLIN, deadline));
  }
}

absl::Status CheckFlags(int flags, const Ancillary& ancillary) {
  if (flags & MSG_CTRUNC) {
    return PosixError(EMFILE, "recvmsg",
                      absl::StrCat("a channel; the message is lost, as only ",
                                   ancillary.fds.size(),
                                   " of its descriptors could be taken"));
  }
  if (flags & MSG_TRUNC) {
    return absl::DataLossError(absl::StrCat(
        "the peer sent something that is not a frame: it has more than ",
        sizeof(Inbox::datagram), " bytes"));
  }
  if (ancillary.has_others || ancillary.credentials) {
    return absl::DataLossError(
        "the message came with control data other than descriptors "
        "(SO_PASSCRED or the like is set on the socket)");
  }
  return absl::OkStatus();
}

// Nothing was read: the end, or, which Send() never makes, an empty datagram.
// It was the end if the peer is gone and nothing is left to read.
absl::Status EndOrEmpty(int socket) {
  pollfd fd = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int gone, PollUntil(&fd, 1, Deadline::Passed()));
  int bytes_left = 0;
  if (ioctl(socket, FIONREAD, &bytes_left) != 0) {
    return PosixError(errno, "ioctl", "FIONREAD of a channel");
  }
  if (gone > 0 && bytes_left == 0) return PeerIsGone();
  return absl::DataLossError(
      "the peer sent something that is not a frame: it has 0 bytes");
}

}  // namespace

absl::StatusOr<std::pair<Channel, Channel>> Channel::CreatePair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return PosixError(errno, "socketpair", "AF_UNIX, SOCK_SEQPACKET");
  }
  return std::make_pair(Channel(UniqueFd(fds[0])), Channel(UniqueFd(fds[1])));
}

absl::StatusOr<Channel> Channel::Adopt(UniqueFd socket) {
  const int fd = socket.get();
  TENON_RETURN_IF_ERROR(CheckChannelSocket(fd));
  // An inherited descriptor has lost close-on-exec to get here. Its options
  // are its former owner's; an old kernel does not know all of them.
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int off = 0;
  for (const int option : {SO_PASSCRED, SO_PASSSEC, kSoPassPidFd}) {
    setsockopt(fd, SOL_SOCKET, option, &off, sizeof(off));
  }
  return Channel(std::move(socket));
}

absl::Status Channel::Send(absl::string_view bytes, absl::Span<const int> fds,
                           Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable(socket_.get(), fork_count_));
  TENON_RETURN_IF_ERROR(CheckLimits(bytes, fds));
  FrameHeader header = {.payload_bytes = static_cast<uint32_t>(bytes.size()),
                        .fd_count = static_cast<uint16_t>(fds.size())};
  iovec parts[] = {{&header, sizeof(header)},
                   {const_cast<char*>(bytes.data()), bytes.size()}};
  msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ControlBuffer control;
  AttachFds(fds, &control, &message);
  for (;;) {
    const ssize_t sent = RetryOnEintr([&] {
      return sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    });
    if (sent >= 0) return absl::OkStatus();
    if (errno != EAGAIN) {
      return SendError(errno, sizeof(header) + bytes.size(), fds);
    }
    TENON_RETURN_IF_ERROR(WaitFor(socket_.get(), POLLOUT, deadline));
  }
}

absl::StatusOr<Message> Channel::Receive(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable(socket_.get(), fork_count_));
  auto inbox = std::make_unique_for_overwrite<Inbox>();
  iovec part = {inbox->datagram, sizeof(inbox->datagram)};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  AttachRoom(&inbox->control, &message);
  TENON_ASSIGN_OR_RETURN(const size_t size,
                         TakeDatagram(socket_.get(), &message, deadline));
  Ancillary ancillary = TakeAncillary(&message);
  TENON_RETURN_IF_ERROR(CheckFlags(message.msg_flags, ancillary));
  if (size == 0 && ancillary.fds.empty()) return EndOrEmpty(socket_.get());
  TENON_ASSIGN_OR_RETURN(const Frame frame,
                         ParseFrame(absl::string_view(inbox->datagram, size),
                                    ancillary.fds.size()));
  return Message{.bytes = std::string(frame.payload),
                 .fds = std::move(ancillary.fds)};
}

}  // namespace tenon
