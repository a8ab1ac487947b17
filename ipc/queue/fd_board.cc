// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/fd_board.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/ancillary.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/unix_socket.h"

namespace tenon {
namespace {

static_assert(FdBoard::kMaxFds == kMaxFdsInMessage);

constexpr char kWhat[] = "an FdBoard";

// Precedes the bytes.
struct Header {
  static constexpr uint64_t kMagic = 0x31666c68536e6554;  // "TenShlf1".

  uint64_t magic = kMagic;
  RandomId id;  // Of this message.
  uint64_t fds = 0;
};
static_assert(std::has_unique_object_representations_v<Header>);

struct Inbox {
  char datagram[sizeof(Header) + FdBoard::kMaxBytes];
};

absl::Status CheckSizes(size_t bytes, size_t fds) {
  if (bytes <= FdBoard::kMaxBytes && fds <= FdBoard::kMaxFds) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("FdBoard::Publish(): ", bytes, " bytes and ", fds,
                   " descriptors; want at most ", FdBoard::kMaxBytes, " and ",
                   FdBoard::kMaxFds));
}

// More than a socket can hold. A board whose ends belong to different sockets
// seems to hold any number, empty ones.
constexpr int kMostMessages = 1 << 16;

absl::Status TooManyMessages() {
  return absl::DataLossError(
      absl::StrCat(kWhat, ": more than ", kMostMessages,
                   " messages: its two ends belong to different sockets, or "
                   "another process keeps sending to it"));
}

// False if there is no message. A null header removes the message: the kernel
// closes descriptors that are not asked for.
absl::StatusOr<bool> ReceiveFront(int socket, Header* header) {
  iovec into = {header, header == nullptr ? 0 : sizeof(*header)};
  msghdr message = {};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  const int flags = MSG_DONTWAIT | (header == nullptr ? 0 : MSG_PEEK);
  if (RetryOnEintr([&] { return recvmsg(socket, &message, flags); }) >= 0) {
    return true;
  }
  if (errno == EAGAIN) return false;
  return PosixError(errno, "recvmsg", kWhat);
}

absl::StatusOr<bool> RemoveFront(int socket) {
  TENON_ASSIGN_OR_RETURN(const bool any, ReceiveFront(socket, nullptr));
  TENON_CRASH_POINT("fd_board.removed");
  return any;
}

// Removes all messages before message `id`.
absl::Status RemoveUntil(int socket, RandomId id) {
  for (int i = 0; i < kMostMessages; ++i) {
    Header front;
    TENON_ASSIGN_OR_RETURN(const bool any, ReceiveFront(socket, &front));
    if (!any || (front.magic == Header::kMagic && front.id == id)) {
      return absl::OkStatus();
    }
    TENON_RETURN_IF_ERROR(RemoveFront(socket).status());
  }
  return TooManyMessages();
}

absl::Status SendError(absl::Span<const int> fds) {
  if (errno == EBADF) {
    return absl::InvalidArgumentError(absl::StrCat(
        "FdBoard::Publish(): one of ", fds.size(), " descriptors is not open"));
  }
  return PosixError(errno, "sendmsg",
                    absl::StrCat(kWhat, ", ", fds.size(), " descriptors"));
}

}  // namespace

absl::StatusOr<FdBoard> FdBoard::Create() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return PosixError(errno, "socketpair", kWhat);
  }
  return FdBoard(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

absl::StatusOr<FdBoard> FdBoard::Adopt(UniqueFd&& in, UniqueFd&& out) {
  for (const UniqueFd* end : {&in, &out}) {
    TENON_RETURN_IF_ERROR(
        CheckIsConnectedUnixSocket(end->get(), SOCK_SEQPACKET, kWhat));
  }
  return FdBoard(std::move(in), std::move(out));
}

absl::Status FdBoard::Publish(absl::string_view bytes,
                              absl::Span<const int> fds) {
  TENON_RETURN_IF_ERROR(CheckSizes(bytes.size(), fds.size()));
  Header header;
  // Stays unknown if this fails.
  const RandomId last = std::exchange(last_id_, RandomId());
  bool knows_front = !last.is_zero() && fork_count_ == ForkCount();
  if (knows_front) {
    header.id = {last.high, last.low + 1};
  } else {
    TENON_ASSIGN_OR_RETURN(header.id, RandomId::New());
  }
  header.fds = fds.size();
  iovec from[2] = {{&header, sizeof(header)},
                   {const_cast<char*>(bytes.data()), bytes.size()}};
  ControlBuffer control;
  msghdr message = {};
  message.msg_iov = from;
  message.msg_iovlen = 2;
  AttachFds(fds, &control, &message);
  for (int i = 0;
       RetryOnEintr([&] {
         return sendmsg(in_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
       }) < 0;
       ++i) {
    if (errno != EAGAIN) return SendError(fds);
    if (i == kMostMessages) return TooManyMessages();
    // Full of messages of publishers that were killed before they removed any:
    // there is more than one.
    TENON_ASSIGN_OR_RETURN(const bool any, RemoveFront(out_.get()));
    if (!any) return PosixError(EAGAIN, "sendmsg", kWhat);
    knows_front = false;
  }
  TENON_CRASH_POINT("fd_board.sent");
  // Only the last item precedes it: it can be removed unread.
  if (knows_front) {
    TENON_RETURN_IF_ERROR(RemoveFront(out_.get()).status());
  } else {
    TENON_RETURN_IF_ERROR(RemoveUntil(out_.get(), header.id));
  }
  last_id_ = header.id;
  fork_count_ = ForkCount();
  return absl::OkStatus();
}

absl::StatusOr<Message> FdBoard::Read(size_t but_last) const {
  // If there is no room for all descriptors the kernel leaves out the last
  // ones. As a rule a single one is wanted; receiving more would open and close
  // all of them.
  if (but_last > 0) {
    absl::StatusOr<Message> one = Receive(but_last, CMSG_LEN(sizeof(int)));
    if (!absl::IsResourceExhausted(one.status())) return one;
  }
  return Receive(but_last, sizeof(ControlBuffer));
}

// With `room` bytes for control data.
absl::StatusOr<Message> FdBoard::Receive(size_t but_last, size_t room) const {
  Inbox inbox;
  iovec into = {inbox.datagram, sizeof(inbox.datagram)};
  ControlBuffer control;
  msghdr message = {};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  AttachRoom(&control, &message);
  message.msg_controllen = room;
  const ssize_t size = RetryOnEintr([&] {
    return recvmsg(out_.get(), &message,
                   MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  });
  if (size < 0) {
    if (errno != EAGAIN) return PosixError(errno, "recvmsg", kWhat);
    return absl::NotFoundError("FdBoard::Read(): nothing is published");
  }
  Message item;
  item.fds = TakeAncillary(&message).fds;
  Header header;
  if (static_cast<size_t>(size) >= sizeof(header)) {
    std::memcpy(static_cast<void*>(&header), inbox.datagram, sizeof(header));
  }
  if (static_cast<size_t>(size) < sizeof(header) ||
      header.magic != Header::kMagic || (message.msg_flags & MSG_TRUNC) != 0 ||
      header.fds > kMaxFds || item.fds.size() > header.fds ||
      header.fds < but_last) {
    return absl::DataLossError(
        "FdBoard::Read(): the message on the board is malformed: Publish() did "
        "not send it");
  }
  const size_t wanted = static_cast<size_t>(header.fds) - but_last;
  if (item.fds.size() > wanted) item.fds.resize(wanted);
  if (item.fds.size() < wanted) {
    // The kernel has delivered all that were sent.
    if ((message.msg_flags & MSG_CTRUNC) == 0) {
      return absl::DataLossError(absl::StrCat(
          "FdBoard::Read(): the message on the board is malformed: it has ",
          item.fds.size(), " descriptors; its header says ", wanted));
    }
    return PosixError(EMFILE, "recvmsg",
                      absl::StrCat(kWhat, ": ", item.fds.size(), " of ", wanted,
                                   " descriptors"));
  }
  item.bytes.assign(inbox.datagram + sizeof(header),
                    static_cast<size_t>(size) - sizeof(header));
  return item;
}

void FdBoard::Wake() const {
  const char wake = 1;
  // EAGAIN: it is full of wakes, and so readable.
  RetryOnEintr([&] {
    return send(out_.get(), &wake, sizeof(wake), MSG_DONTWAIT | MSG_NOSIGNAL);
  });
}

void FdBoard::TakeWakes() const {
  char wake;
  while (RetryOnEintr([&] {
           return recv(in_.get(), &wake, sizeof(wake), MSG_DONTWAIT);
         }) > 0) {
  }
}

absl::Status FdBoard::Clear() {
  last_id_ = RandomId();
  return RemoveUntil(out_.get(), RandomId());
}

}  // namespace tenon
