// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/fd_shelf.h"

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

static_assert(FdShelf::kMaxFds == kMaxFdsInMessage);

constexpr char kWhat[] = "a shelf of descriptors";

// In front of the bytes.
struct Header {
  static constexpr uint64_t kMagic = 0x31666c68536e6554;  // "TenShlf1".

  uint64_t magic = kMagic;
  RandomId id;  // Of this message.
  uint64_t fds = 0;
};
static_assert(std::has_unique_object_representations_v<Header>);

struct Inbox {
  char datagram[sizeof(Header) + FdShelf::kMaxBytes];
};

absl::Status CheckSizes(size_t bytes, size_t fds) {
  if (bytes <= FdShelf::kMaxBytes && fds <= FdShelf::kMaxFds) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      bytes, " bytes and ", fds, " descriptors for ", kWhat,
      ", which takes at most ", FdShelf::kMaxBytes, " and ", FdShelf::kMaxFds));
}

// Nothing there: false. With a null header, to remove it: what is not asked
// for, the kernel closes.
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
  TENON_CRASH_POINT("fd_shelf.removed");
  return any;
}

// All that is in front of the message `id`.
absl::Status RemoveUntil(int socket, RandomId id) {
  for (;;) {
    Header front;
    TENON_ASSIGN_OR_RETURN(const bool any, ReceiveFront(socket, &front));
    if (!any || (front.magic == Header::kMagic && front.id == id)) {
      return absl::OkStatus();
    }
    TENON_RETURN_IF_ERROR(RemoveFront(socket).status());
  }
}

absl::Status SendError(absl::Span<const int> fds) {
  if (errno == EBADF) {
    return absl::InvalidArgumentError(absl::StrCat(
        "one of ", fds.size(), " descriptors for ", kWhat, " is not open"));
  }
  return PosixError(errno, "sendmsg",
                    absl::StrCat(kWhat, ", ", fds.size(), " descriptors"));
}

}  // namespace

absl::StatusOr<FdShelf> FdShelf::Create() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return PosixError(errno, "socketpair", kWhat);
  }
  return FdShelf(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

absl::StatusOr<FdShelf> FdShelf::Adopt(UniqueFd&& in, UniqueFd&& out) {
  for (const UniqueFd* end : {&in, &out}) {
    TENON_RETURN_IF_ERROR(
        CheckIsConnectedUnixSocket(end->get(), SOCK_SEQPACKET, kWhat));
  }
  return FdShelf(std::move(in), std::move(out));
}

absl::Status FdShelf::Put(absl::string_view bytes, absl::Span<const int> fds) {
  TENON_RETURN_IF_ERROR(CheckSizes(bytes.size(), fds.size()));
  Header header;
  // Unknown again, if this does not end well.
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
  while (RetryOnEintr([&] {
           return sendmsg(in_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
         }) < 0) {
    if (errno != EAGAIN) return SendError(fds);
    // Full, of what writers left that were killed before they removed anything:
    // there is more than one.
    TENON_ASSIGN_OR_RETURN(const bool any, RemoveFront(out_.get()));
    if (!any) return PosixError(EAGAIN, "sendmsg", kWhat);
    knows_front = false;
  }
  TENON_CRASH_POINT("fd_shelf.sent");
  // Before it lies the last one alone: that need not be looked at.
  if (knows_front) {
    TENON_RETURN_IF_ERROR(RemoveFront(out_.get()).status());
  } else {
    TENON_RETURN_IF_ERROR(RemoveUntil(out_.get(), header.id));
  }
  last_id_ = header.id;
  fork_count_ = ForkCount();
  return absl::OkStatus();
}

absl::StatusOr<ShelfItem> FdShelf::Take(size_t but_last) const {
  // The kernel leaves out descriptors that there is no room for: the last ones.
  // As a rule what is wanted is one, and asking for more would open and close
  // all of them.
  if (but_last > 0) {
    absl::StatusOr<ShelfItem> one = Peek(but_last, CMSG_LEN(sizeof(int)));
    if (!absl::IsResourceExhausted(one.status())) return one;
  }
  return Peek(but_last, sizeof(ControlBuffer));
}

// With so much room for control data.
absl::StatusOr<ShelfItem> FdShelf::Peek(size_t but_last, size_t room) const {
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
    return absl::NotFoundError(absl::StrCat("nothing is on ", kWhat));
  }
  ShelfItem item;
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
        absl::StrCat("what is on ", kWhat, " was not laid there by Put()"));
  }
  const size_t wanted = static_cast<size_t>(header.fds) - but_last;
  if (item.fds.size() > wanted) item.fds.resize(wanted);
  if (item.fds.size() < wanted) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "only ", item.fds.size(), " of ", wanted,
        " descriptors could be "
        "taken from ",
        kWhat,
        ": this process may open no more (RLIMIT_NOFILE; raise it with ulimit "
        "-n)"));
  }
  item.bytes.assign(inbox.datagram + sizeof(header),
                    static_cast<size_t>(size) - sizeof(header));
  return item;
}

void FdShelf::Wake() const {
  const char wake = 1;
  // EAGAIN: so many wakes were not taken that it is full, and so readable.
  RetryOnEintr([&] {
    return send(out_.get(), &wake, sizeof(wake), MSG_DONTWAIT | MSG_NOSIGNAL);
  });
}

void FdShelf::TakeWakes() const {
  char wake;
  while (RetryOnEintr([&] {
           return recv(in_.get(), &wake, sizeof(wake), MSG_DONTWAIT);
         }) > 0) {
  }
}

absl::Status FdShelf::Clear() {
  last_id_ = RandomId();
  return RemoveUntil(out_.get(), RandomId());
}

}  // namespace tenon
