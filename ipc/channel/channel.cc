// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/ancillary.h"
#include "tenon/ipc/channel/fds_in_flight.h"
#include "tenon/ipc/channel/frame.h"
#include "tenon/ipc/channel/large_message.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/unix_socket.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {
namespace {

static_assert(Channel::kMaxFds == kMaxFdsInMessage);

// Since Linux 6.5, and younger than some C libraries.
constexpr int kSoPassPidFd = 76;

// The buffers of recvmsg(). A small message touches the first page or two.
struct Inbox {
  ControlBuffer control;
  char datagram[sizeof(FrameHeader) + Channel::kMaxBytes];
};

absl::Status CheckUsable(int socket, uint64_t fork_count) {
  TENON_CHECK(socket >= 0, "Channel used after it was moved from or released");
  return CheckNotForked(fork_count, "channel");
}

absl::Status PeerIsGone() {
  return absl::UnavailableError(
      "channel: the peer has died, or has destroyed its end without Close()");
}

absl::Status EndOfStream() {
  return absl::OutOfRangeError(
      "channel: the peer has closed it, and all messages were received");
}

absl::Status CheckNotClosed(bool closed) {
  if (!closed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "Channel::Send(): this end of the channel is closed");
}

absl::Status WaitFor(int socket, short event, Deadline deadline) {
  // Checked here too, so that another reader of the same socket that is always
  // faster cannot keep the caller's loop alive.
  pollfd fd = {.fd = socket, .events = event, .revents = 0};
  int ready = 0;
  if (!deadline.has_passed()) {
    TENON_ASSIGN_OR_RETURN(ready, PollUntil({&fd, 1}, deadline));
  }
  if (ready > 0) return absl::OkStatus();
  return absl::DeadlineExceededError(
      event == POLLIN
          ? "channel: the peer has sent no message before the deadline"
          : "channel: the buffer is full: the peer does not read");
}

// ---- Send ----

// `count` without the segment that carries the bytes of a large message.
absl::Status CheckFds(size_t count, bool is_large, size_t max_in_flight) {
  if (is_large) ++count;
  if (count > Channel::kMaxFds) {
    return absl::InvalidArgumentError(
        absl::StrCat("Channel::Send(): a message with ", count, " descriptors",
                     is_large ? " (one of them carries its bytes)" : "",
                     " exceeds the limit of ", Channel::kMaxFds,
                     " (SCM_MAX_FD of the kernel)"));
  }
  if (count > max_in_flight) {
    return absl::InvalidArgumentError(absl::StrCat(
        "channel: a message with ", count, " descriptors; at most ",
        max_in_flight,
        " may be in flight (max_fds_in_flight of the channel's options)"));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ChannelOptions& options) {
  if (options.max_fds_in_flight > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "channel: max_fds_in_flight is 0; want at least 1");
}

// Which of `fds` made sendmsg() fail with EBADF.
absl::Status NotOpen(absl::Span<const int> fds) {
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fcntl(fds[i], F_GETFD) >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Channel::Send(): descriptor ", i + 1, " of ", fds.size(),
                     " (", fds[i], ") is not open"));
  }
  return absl::InvalidArgumentError(
      "Channel::Send(): one of the descriptors was not open");
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
      return absl::ResourceExhaustedError(
          absl::StrCat("Channel::Send(): a frame of ", size,
                       " bytes exceeds the send buffer of this socket; raise "
                       "SO_SNDBUF, or, if it has ",
                       "the default, sysctl -w net.core.wmem_default=212992"));
    default:
      return PosixError(error_number, "sendmsg",
                        absl::StrCat("a channel, ", size, " bytes, ",
                                     fds.size(), " descriptors"));
  }
}

// ---- Receive ----

absl::Status CheckCount(size_t count, size_t max_fds) {
  if (count <= max_fds) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("Channel::Receive(): the peer sent a message with ", count,
                   " descriptors; this call accepts at most ", max_fds));
}

// Queries sockets only, never a file system, which may be the peer's.
bool IsUnixSocket(const UniqueFd& fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  return getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
         domain == AF_UNIX;
}

absl::Status CheckNoSockets(const std::vector<UniqueFd>& fds) {
  if (std::none_of(fds.begin(), fds.end(), IsUnixSocket)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      "Channel::Receive(): the peer sent an AF_UNIX socket, which this channel "
      "does not accept (allow_sockets of its options)");
}

// Waits for a datagram and takes it; returns its size.
absl::StatusOr<size_t> TakeDatagram(int socket, msghdr* message,
                                    Deadline deadline) {
  // Without a deadline the kernel waits in the same call, unless another thread
  // has set O_NONBLOCK.
  const int flags = MSG_CMSG_CLOEXEC | (deadline.is_never() ? 0 : MSG_DONTWAIT);
  bool was_reset = false;
  for (;;) {
    const ssize_t size =
        RetryOnEintr([&] { return recvmsg(socket, message, flags); });
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
                      absl::StrCat("a channel; the message is lost: only ",
                                   ancillary.fds.size(),
                                   " of its descriptors could be taken"));
  }
  if (flags & MSG_TRUNC) {
    return absl::DataLossError(
        absl::StrCat("the peer sent a malformed frame: it exceeds ",
                     sizeof(Inbox::datagram), " bytes"));
  }
  if (ancillary.has_others || ancillary.credentials) {
    return absl::DataLossError(
        "Channel::Receive(): the message came with control data other than "
        "descriptors "
        "(SO_PASSCRED or a similar option is set on the socket)");
  }
  return absl::OkStatus();
}

// The limits of one message.
struct Expected {
  size_t max_fds;
  const ChannelOptions& options;
};

// The message that was received. On errors the descriptors stay where they are.
absl::StatusOr<Message> Open(absl::string_view datagram, int flags,
                             const Expected& expected, Ancillary* ancillary) {
  TENON_RETURN_IF_ERROR(CheckFlags(flags, *ancillary));
  std::vector<UniqueFd>& fds = ancillary->fds;
  TENON_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(datagram, fds.size()));
  if (frame.is_end) return EndOfStream();
  const size_t carriers = frame.segment_bytes > 0 ? 1 : 0;
  TENON_RETURN_IF_ERROR(CheckCount(fds.size() - carriers, expected.max_fds));
  if (!expected.options.allow_sockets) {
    TENON_RETURN_IF_ERROR(CheckNoSockets(fds));
  }
  if (carriers == 0) {
    return Message{.bytes = std::string(frame.payload), .fds = std::move(fds)};
  }
  TENON_ASSIGN_OR_RETURN(std::string bytes,
                         LoadMessage(&fds[0], frame.segment_bytes,
                                     expected.options.max_message_bytes));
  fds.erase(fds.begin());
  return Message{.bytes = std::move(bytes), .fds = std::move(fds)};
}

// Nothing was read: the end of the channel, or an empty datagram, which Send()
// never makes. It was the end if the peer is gone and no data is left.
absl::Status EndOrEmpty(int socket) {
  pollfd fd = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int gone,
                         PollUntil({&fd, 1}, Deadline::Passed()));
  int bytes_left = 0;
  if (ioctl(socket, FIONREAD, &bytes_left) != 0) {
    return PosixError(errno, "ioctl", "FIONREAD of a channel");
  }
  if (gone > 0 && bytes_left == 0) return PeerIsGone();
  return absl::DataLossError("the peer sent a malformed frame: it has 0 bytes");
}

}  // namespace

Channel::Channel(UniqueFd socket, const ChannelOptions& options)
    : socket_(std::move(socket)),
      options_(options),
      in_flight_(std::make_unique<FdsInFlight>(options.max_fds_in_flight)),
      fork_count_(ForkCount()) {}
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

absl::StatusOr<std::pair<Channel, Channel>> Channel::CreatePair(
    const ChannelOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return PosixError(errno, "socketpair", "AF_UNIX, SOCK_SEQPACKET");
  }
  return std::make_pair(Channel(UniqueFd(fds[0]), options),
                        Channel(UniqueFd(fds[1]), options));
}

absl::StatusOr<Channel> Channel::Adopt(UniqueFd socket,
                                       const ChannelOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  const int fd = socket.get();
  TENON_RETURN_IF_ERROR(CheckIsConnectedUnixSocket(
      fd, SOCK_SEQPACKET,
      absl::StrCat("file descriptor ", fd, " cannot become a channel: it")));
  // An inherited descriptor has lost close-on-exec to get here. Its options
  // are its former owner's; an old kernel does not know all of them.
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int off = 0;
  for (const int option : {SO_PASSCRED, SO_PASSSEC, kSoPassPidFd}) {
    setsockopt(fd, SOL_SOCKET, option, &off, sizeof(off));
  }
  return Channel(std::move(socket), options);
}

Channel Channel::AdoptReleased(UniqueFd socket, const ChannelOptions& options) {
  TENON_CHECK(CheckOptions(options).ok(), "max_fds_in_flight is 0");
  return Channel(std::move(socket), options);
}

absl::StatusOr<Channel::Prepared> Channel::Prepare(absl::string_view bytes,
                                                   absl::Span<const int> fds) {
  const bool is_large = bytes.size() > kMaxBytes;
  TENON_RETURN_IF_ERROR(CheckFds(fds.size(), is_large, kMaxFds));
  Prepared message;
  message.bytes_ = bytes;
  message.fds_ = fds;
  if (is_large) {
    TENON_ASSIGN_OR_RETURN(message.segment_, StoreMessage(bytes));
    TENON_CRASH_POINT("channel.segment_filled");
  }
  return message;
}

absl::Status Channel::Send(absl::string_view bytes, absl::Span<const int> fds,
                           Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable(socket_.get(), fork_count_));
  TENON_RETURN_IF_ERROR(CheckNotClosed(closed_));
  TENON_RETURN_IF_ERROR(CheckFds(fds.size(), bytes.size() > kMaxBytes,
                                 options_.max_fds_in_flight));
  TENON_ASSIGN_OR_RETURN(const Prepared message, Prepare(bytes, fds));
  return Send(message, deadline);
}

absl::Status Channel::Send(const Prepared& message, Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable(socket_.get(), fork_count_));
  TENON_RETURN_IF_ERROR(CheckNotClosed(closed_));
  const absl::Span<const int> fds = message.fds_;
  TENON_RETURN_IF_ERROR(CheckFds(fds.size(), message.segment_.has_value(),
                                 options_.max_fds_in_flight));
  if (!message.segment_) {
    return SendFrame(FrameKind::kBytes, message.bytes_, fds, deadline);
  }
  std::vector<int> all = {message.segment_->fd()};
  all.insert(all.end(), fds.begin(), fds.end());
  const uint64_t size = message.bytes_.size();
  return SendFrame(
      FrameKind::kBytesInSegment,
      absl::string_view(reinterpret_cast<const char*>(&size), sizeof(size)),
      all, deadline);
}

absl::Status Channel::Close(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable(socket_.get(), fork_count_));
  if (closed_) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(SendFrame(FrameKind::kEnd, "", {}, deadline));
  closed_ = true;
  return absl::OkStatus();
}

absl::Status Channel::SendFrame(FrameKind kind, absl::string_view payload,
                                absl::Span<const int> fds, Deadline deadline) {
  FrameHeader header = {.payload_bytes = static_cast<uint32_t>(payload.size()),
                        .fd_count = static_cast<uint16_t>(fds.size()),
                        .kind = kind};
  iovec parts[] = {{&header, sizeof(header)},
                   {const_cast<char*>(payload.data()), payload.size()}};
  msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ControlBuffer control;
  AttachFds(fds, &control, &message);
  if (!fds.empty()) {
    TENON_RETURN_IF_ERROR(
        in_flight_->MakeRoom(socket_.get(), fds.size(), deadline));
  }
  for (;;) {
    const ssize_t sent = RetryOnEintr([&] {
      return sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    });
    if (sent >= 0) break;
    if (errno != EAGAIN) {
      return SendError(errno, sizeof(header) + payload.size(), fds);
    }
    TENON_RETURN_IF_ERROR(WaitFor(socket_.get(), POLLOUT, deadline));
  }
  TENON_CRASH_POINT("channel.sent");
  in_flight_->Sent(sizeof(header) + payload.size(), fds.size());
  return absl::OkStatus();
}

absl::StatusOr<Message> Channel::Receive(Deadline deadline, size_t max_fds) {
  TENON_RETURN_IF_ERROR(CheckUsable(socket_.get(), fork_count_));
  if (ended_) return EndOfStream();
  auto inbox = std::make_unique_for_overwrite<Inbox>();
  iovec part = {inbox->datagram, sizeof(inbox->datagram)};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  AttachRoom(&inbox->control, &message);
  TENON_ASSIGN_OR_RETURN(const size_t size,
                         TakeDatagram(socket_.get(), &message, deadline));
  Ancillary ancillary = TakeAncillary(&message);
  TENON_CRASH_POINT("channel.received");
  if (size == 0 && ancillary.fds.empty() &&
      (message.msg_flags & MSG_CTRUNC) == 0) {
    return EndOrEmpty(socket_.get());
  }
  absl::StatusOr<Message> result =
      Open(absl::string_view(inbox->datagram, size), message.msg_flags,
           {.max_fds = max_fds, .options = options_}, &ancillary);
  ended_ = absl::IsOutOfRange(result.status());
  // Not inspected before: see received_fd.h.
  if (!result.ok()) ReceivedFds unseen(std::move(ancillary.fds));
  return result;
}

}  // namespace tenon
