// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/fd_shelf.h"

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
#include "tenon/ipc/ancillary.h"
#include "tenon/shm/crash_point.h"
#include "tenon/shm/ledger/random_id.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/shm/unix_socket.h"

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

// All that is in front of the message `id`.
absl::Status RemoveUntil(int socket, RandomId id) {
  for (;;) {
    Header front;
    TENON_ASSIGN_OR_RETURN(const bool any, ReceiveFront(socket, &front));
    if (!any || (front.magic == Header::kMagic && front.id == id)) {
      return absl::OkStatus();
    }
    TENON_RETURN_IF_ERROR(ReceiveFront(socket, nullptr).status());
    TENON_CRASH_POINT("fd_shelf.removed");
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

absl::StatusOr<FdShelf> FdShelf::Adopt(UniqueFd in, UniqueFd out) {
  for (const UniqueFd* end : {&in, &out}) {
    TENON_RETURN_IF_ERROR(
        CheckIsConnectedUnixSocket(end->get(), SOCK_SEQPACKET, kWhat));
  }
  return FdShelf(std::move(in), std::move(out));
}

absl::Status FdShelf::Put(absl::string_view bytes, absl::Span<const int> fds) {
  TENON_RETURN_IF_ERROR(CheckSizes(bytes.size(), fds.size()));
  Header header;
  TENON_ASSIGN_OR_RETURN(header.id, RandomId::New());
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
    TENON_ASSIGN_OR_RETURN(const bool any, ReceiveFront(out_.get(), nullptr));
    if (!any) return PosixError(EAGAIN, "sendmsg", kWhat);
  }
  TENON_CRASH_POINT("fd_shelf.sent");
  return RemoveUntil(out_.get(), header.id);
}

absl::StatusOr<ShelfItem> FdShelf::Take() const {
  Inbox inbox;
  iovec into = {inbox.datagram, sizeof(inbox.datagram)};
  ControlBuffer control;
  msghdr message = {};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  AttachRoom(&control, &message);
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
      header.fds > kMaxFds || item.fds.size() > header.fds) {
    return absl::DataLossError(
        absl::StrCat("what is on ", kWhat, " was not laid there by Put()"));
  }
  if (item.fds.size() < header.fds) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "only ", item.fds.size(), " of ", header.fds,
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

absl::Status FdShelf::Clear() { return RemoveUntil(out_.get(), RandomId()); }

}  // namespace tenon
