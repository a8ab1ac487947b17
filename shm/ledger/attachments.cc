// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/attachments.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/poll_all.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/unix_socket.h"
#include "tenon/shm/ledger/attach_message.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {
namespace {

constexpr char kInbox[] = "the inbox of an arena";
constexpr char kColumnName[] = "a received column of the ledger";
// A hostile sender may put this many into a packet; the buffer has room for all
// of them, so that a truncated packet always means that a limit was hit.
constexpr size_t kMaxFds = 253;
// From Linux 6.5; headers may lack them.
constexpr int kPassPidFd = 76;  // SO_PASSPIDFD
constexpr int kScmPidFd = 4;    // SCM_PIDFD
// Packets received in one Receive().
constexpr int kMaxPackets = 256;

// Name and id of a column, copied and checked.
absl::StatusOr<ColumnHeader> ReadHeader(int column) {
  ColumnHeader header;
  const ssize_t got =
      RetryOnEintr([&] { return pread(column, &header, sizeof(header), 0); });
  if (got < 0) return PosixError(errno, "pread", "a received column");
  if (got != sizeof(header) || header.magic != ColumnLayout::kMagic) {
    return absl::InvalidArgumentError(
        "the received file is not a column of a ledger");
  }
  if (header.version != ColumnLayout::Version()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a column of version ", header.version,
                     "; this program has version ", ColumnLayout::Version()));
  }
  return header;
}

std::string NameIn(const ColumnHeader& header) {
  std::string name(header.name, strnlen(header.name, sizeof(header.name)));
  for (char& c : name) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return name;
}

absl::Status CheckCells(const AttachMessage& message, uint64_t blocks) {
  if (message.cells == blocks && message.cells <= ColumnLayout::kCells &&
      message.first_cell <= ColumnLayout::kCells - message.cells &&
      message.first_cell % ColumnLayout::kCellsAlignment == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "attach message: invalid range of ", message.cells, " cells from ",
      message.first_cell, " for ", blocks, " blocks"));
}

// Checks that each has the type of its position, before any other query of it:
// a read of a foreign file may never return.
absl::Status CheckFds(const ReceivedFds& fds) {
  if (fds.size() < AttachMessage::kFds) {
    return absl::InvalidArgumentError(
        absl::StrCat("attach message: got ", fds.size(), " descriptors; want ",
                     AttachMessage::kFds));
  }
  TENON_RETURN_IF_ERROR(
      CheckIsUnixSocket(fds[AttachMessage::kLease], SOCK_STREAM, "the lease"));
  TENON_RETURN_IF_ERROR(PidFd::Check(fds[AttachMessage::kProcess]));
  return CheckIsControlMemory(fds[AttachMessage::kColumn], kColumnName)
      .status();
}

// For descriptors that the packet, which stays in the inbox, also keeps open.
bool AllCloseAtOnce(const ReceivedFds& fds) {
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i] < 0 || ClosesAtOnce(fds[i])) continue;
    if (!CheckIsUnixSocket(fds[i], SOCK_STREAM, "a lease").ok()) return false;
  }
  return true;
}

absl::Status ReserveIn(int column, size_t cells_at, uint64_t first,
                       uint64_t end) {
  return ReserveControlMemory(
      column,
      {cells_at + first * sizeof(uint64_t), (end - first) * sizeof(uint64_t)},
      kColumnName);
}

// Shut down before it is closed: a forked child of this process may hold it
// open.
void EndLease(UniqueFd lease) {
  shutdown(lease.get(), SHUT_RDWR);
  CloseReceived(std::move(lease));
}

template <typename List>
size_t CountIn(const List& list, pid_t sender) {
  if (sender == 0) return 0;
  return static_cast<size_t>(std::count_if(
      list.begin(), list.end(),
      [sender](const auto& one) { return one.sender == sender; }));
}

// Errors of this file's checks of a packet; other errors may be this process's
// fault.
bool IsSendersFault(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
}

// Never waits for the owner, which may be stopped.
absl::Status Send(int socket, const AttachMessage& message,
                  absl::Span<const int> fds) {
  iovec bytes = {const_cast<AttachMessage*>(&message), sizeof(message)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  if (RetryOnEintr([&] {
        return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
      }) >= 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  switch (error) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return absl::UnavailableError(
          "the owner of the arena has died or closed it");
    case EAGAIN:
      return absl::ResourceExhaustedError(
          "the inbox of the arena is full: its owner has not read it since "
          "many "
          "processes attached");
    default:
      return PosixError(error, "sendmsg", kInbox);
  }
}

}  // namespace

struct Attachments::Packet {
  AttachMessage message;
  size_t bytes = 0;
  bool truncated = false;
  pid_t sender = 0;  // From the kernel; 0 if not visible here.
  // The kernel's pidfd of the sender, from Linux 6.5; -errno if it has none.
  int vouched_error = 0;
  UniqueFd vouched;
  ReceivedFds fds;
};

Attachments::Attachments(const RandomId& arena, uint64_t blocks, UniqueFd inbox,
                         UniqueFd attach_end)
    : arena_(arena),
      blocks_(blocks),
      inbox_(std::move(inbox)),
      attach_end_(std::move(attach_end)) {}

Attachments::~Attachments() {
  if (fork_count_ != ForkCount()) return;
  while (!attached_.empty()) Remove(attached_.size() - 1);
  for (Unseen& unseen : unseen_) EndLease(std::move(unseen.lease));
  unseen_.clear();
  if (!inbox_.valid()) return;
  // Receives unread packets, so that their descriptors are not closed,
  // unchecked, with the socket.
  shutdown(inbox_.get(), SHUT_RD);
  attach_end_.Reset();  // Room for one descriptor.
  for (int i = 0; i < kMaxPackets; ++i) {
    Packet packet;
    if (Peek(packet) != Peeked::kPacket) break;
    // Its sender learns at once that the arena has ended. The lease comes
    // first: it is present even if only one descriptor could be received.
    if (CheckMessage(packet).ok() && packet.fds.size() > 0 &&
        CheckIsUnixSocket(packet.fds[AttachMessage::kLease], SOCK_STREAM,
                          "the lease")
            .ok()) {
      EndLease(packet.fds.Take(AttachMessage::kLease));
    }
    if (packet.truncated) break;
    RemoveFirst();
  }
  // Shut and empty: closing it closes no descriptor in it.
  if (IsEmpty()) inbox_.Reset();
  CloseReceived(std::move(inbox_));
}

absl::StatusOr<Attachments> Attachments::Create(const RandomId& arena,
                                                uint64_t blocks) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 ends) != 0) {
    return PosixError(errno, "socketpair", kInbox);
  }
  UniqueFd inbox(ends[0]);
  UniqueFd attach_end(ends[1]);
  // Each packet then comes with credentials, and the end of the stream does
  // not: a packet of 0 bytes cannot be mistaken for it.
  const int on = 1;
  if (setsockopt(inbox.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
    return PosixError(errno, "setsockopt(SO_PASSCRED)", kInbox);
  }
  // If unsupported (before Linux 6.5) processes are identified by their
  // credentials.
  setsockopt(inbox.get(), SOL_SOCKET, kPassPidFd, &on, sizeof(on));
  return Attachments(arena, blocks, std::move(inbox), std::move(attach_end));
}

void Attachments::Receive() {
  status_ = absl::OkStatus();
  for (int i = 0; i < kMaxPackets; ++i) {
    Packet packet;
    const Peeked peeked = Peek(packet);
    if (peeked != Peeked::kPacket) return;
    if (i == 0) RemoveExited();
    status_ = Handle(packet);
    if (!status_.ok()) {
      // It stays in the inbox, and no block is reclaimed before it is received.
      if (AllCloseAtOnce(packet.fds)) return packet.fds.Drop();
      // No holder sends such a descriptor, and each Receive() would block on
      // it.
      Refuse(absl::InvalidArgumentError(
          "attach message: close() of one of its descriptors may block"));
      status_ = absl::OkStatus();
    }
    RemoveFirst();
    TENON_CRASH_POINT("attachments.received");
  }
}

Attachments::Peeked Attachments::Peek(Packet& packet) {
  iovec bytes = {&packet.message, sizeof(packet.message)};
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(kMaxFds * sizeof(int)) +
                           CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))>
          control;
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = RetryOnEintr([&] {
    return recvmsg(inbox_.get(), &header,
                   MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  });
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Peeked::kNothing;
    status_ = PosixError(errno, "recvmsg", kInbox);
    return Peeked::kCannot;
  }
  bool is_packet = false;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred sender;
      memcpy(&sender, CMSG_DATA(c), sizeof(sender));
      packet.sender = sender.pid;
      is_packet = true;
    }
    if (c->cmsg_type == kScmPidFd) {
      int fd;
      memcpy(&fd, CMSG_DATA(c), sizeof(fd));
      packet.vouched = UniqueFd(fd);
      packet.vouched_error = std::min(fd, 0);
    }
    if (c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len;
         at += sizeof(int)) {
      int fd;
      memcpy(&fd, reinterpret_cast<const char*>(c) + at, sizeof(fd));
      packet.fds.Add(UniqueFd(fd));
    }
  }
  // A process has shut the other end down: no process can attach any more.
  if (got == 0 && !is_packet) return Peeked::kNothing;
  packet.bytes = static_cast<size_t>(got);
  packet.truncated = (header.msg_flags & MSG_CTRUNC) != 0;
  return Peeked::kPacket;
}

void Attachments::RemoveFirst() {
  char byte;
  RetryOnEintr([&] { return recv(inbox_.get(), &byte, 1, MSG_DONTWAIT); });
}

bool Attachments::IsEmpty() {
  iovec bytes = {};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control;
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = RetryOnEintr(
      [&] { return recvmsg(inbox_.get(), &header, MSG_PEEK | MSG_DONTWAIT); });
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  return header.msg_controllen == 0 && (header.msg_flags & MSG_CTRUNC) == 0;
}

absl::Status Attachments::Handle(Packet& packet) {
  // Descriptors that were not received would be closed here, unchecked.
  if (packet.truncated) {
    return PosixError(EMFILE, "recvmsg",
                      absl::StrCat(kInbox, ", from pid ", packet.sender));
  }
  absl::Status attached = CheckMessage(packet);
  if (attached.ok()) attached = Attach(packet);
  // It has ended, and holds no blocks.
  if (absl::IsNotFound(attached)) return absl::OkStatus();
  if (!IsSendersFault(attached)) return attached;
  Refuse(std::move(attached));
  return absl::OkStatus();
}

absl::Status Attachments::CheckMessage(const Packet& packet) const {
  const AttachMessage& message = packet.message;
  if (packet.bytes != sizeof(message) ||
      message.magic != AttachMessage::kMagic) {
    return absl::InvalidArgumentError("malformed attach message");
  }
  if (message.version != ColumnLayout::Version()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attach message of version ", message.version,
                     "; this program has version ", ColumnLayout::Version()));
  }
  if (message.arena != arena_) {
    return absl::InvalidArgumentError("attach message for another arena");
  }
  return CheckCells(message, blocks_);
}

size_t Attachments::CountOf(pid_t sender) const {
  return CountIn(attached_, sender) + CountIn(unseen_, sender);
}

absl::Status Attachments::AboveLimit(const Packet& packet) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "pid ", packet.sender, " has ", CountOf(packet.sender),
      " attachments, refused ones included; the limit is ", kMaxOfOneProcess,
      ". An attachment from before an exec() "
      "ends with the processes that were forked before it"));
}

// model: limit. Ended attachments do not count.
absl::Status Attachments::MakeRoomFor(const Packet& packet) {
  const auto is_full = [&] {
    return attached_.size() + unseen_.size() >= kMaxAttached;
  };
  if (is_full() || CountOf(packet.sender) >= kMaxOfOneProcess) RemoveExited();
  if (CountOf(packet.sender) > kMaxOfOneProcess) return AboveLimit(packet);
  if (!is_full()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("pid ", packet.sender, " cannot be attached: the arena has ",
                   kMaxAttached, " attachments already, its limit"));
}

void Attachments::Refuse(absl::Status why) {
  ++refused_;
  last_refusal_ = std::move(why);
  if (refused_word_ != nullptr) {
    StdAtomics::Store(*refused_word_, refused_, std::memory_order_release);
  }
}

// model: refuse. The other end sees the lease shut, and this one still sees the
// other hang up.
void Attachments::RefuseUnseen(Unseen unseen) {
  shutdown(unseen.lease.get(), SHUT_WR);
  Refuse(unseen.why);
  unseen.number = refused_;
  unseen_.push_back(std::move(unseen));
}

std::string Attachments::DescribeRefused() const {
  if (unseen_.empty()) return "";
  const Unseen& newest = unseen_.back();
  return absl::StrCat(
      "pid ", newest.sender, " was refused (", newest.why.message(),
      ") and has neither detached nor ended",
      unseen_.size() == 1 ? ""
                          : absl::StrCat("; so were ", unseen_.size() - 1,
                                         " more attachments"));
}

absl::Status Attachments::Attach(Packet& packet) {
  TENON_RETURN_IF_ERROR(CheckFds(packet.fds));
  TENON_RETURN_IF_ERROR(MakeRoomFor(packet));
  const AttachMessage& message = packet.message;
  UniqueFd column = packet.fds.Take(AttachMessage::kColumn);
  TENON_ASSIGN_OR_RETURN(const ColumnHeader header, ReadHeader(column.get()));
  TENON_ASSIGN_OR_RETURN(
      PidFd process, PidFd::Adopt(packet.fds.Take(AttachMessage::kProcess)));
  std::optional<PidFd> vouched;
  if (packet.vouched_error == -EMFILE || packet.vouched_error == -ENFILE) {
    return PosixError(-packet.vouched_error, "recvmsg", kInbox);
  }
  if (packet.vouched.valid()) {
    TENON_ASSIGN_OR_RETURN(vouched, PidFd::Adopt(std::move(packet.vouched)));
  }
  // Prevents a process from attaching under another's pidfd, whose death would
  // then count as its own.
  absl::StatusOr<PidFd> sender =
      IdentifySender(process, packet.sender, std::move(vouched));
  if (!sender.ok()) {
    if (!IsSendersFault(sender.status())) return std::move(sender).status();
    // The pidfd that was sent may be that of a process that never ends.
    if (packet.sender != 0) {
      TENON_ASSIGN_OR_RETURN(process, PidFd::Open(packet.sender));
    }
    RefuseUnseen({packet.sender, std::move(process),
                  packet.fds.Take(AttachMessage::kLease), sender.status()});
    return absl::OkStatus();
  }
  if (CountIn(attached_, packet.sender) >= kMaxOfOneProcess) {
    RefuseUnseen({packet.sender, *std::move(sender),
                  packet.fds.Take(AttachMessage::kLease), AboveLimit(packet)});
    return absl::OkStatus();
  }
  const size_t cells_at = ColumnLayout::CellAt(message.first_cell);
  TENON_ASSIGN_OR_RETURN(
      ControlView view,
      ControlView::Adopt(column.get(),
                         {cells_at, message.cells * sizeof(uint64_t)},
                         kColumnName));
  for (const auto& [first, end] : reserved_) {
    TENON_RETURN_IF_ERROR(ReserveIn(column.get(), cells_at, first, end));
  }
  attached_.push_back({.column = header.id,
                       .sender = packet.sender,
                       .pid = packet.sender,
                       .name = NameIn(header),
                       .process = *std::move(sender),
                       .lease = packet.fds.Take(AttachMessage::kLease),
                       .column_fd = std::move(column),
                       .cells_at = cells_at,
                       .view = std::move(view)});
  columns_.push_back(attached_.back().cells());
  return absl::OkStatus();
}

void Attachments::Remove(size_t index) {
  EndLease(std::move(attached_[index].lease));
  attached_.erase(attached_.begin() + static_cast<ptrdiff_t>(index));
  columns_.erase(columns_.begin() + static_cast<ptrdiff_t>(index));
}

absl::Status Attachments::Reserve(uint64_t first, uint64_t count) {
  uint64_t end = first + count;
  for (const Attachment& attachment : attached_) {
    TENON_RETURN_IF_ERROR(
        ReserveIn(attachment.column_fd.get(), attachment.cells_at, first, end));
  }
  // Merges it with ranges that it overlaps or adjoins.
  auto it = reserved_.upper_bound(first);
  if (it != reserved_.begin() && std::prev(it)->second >= first) --it;
  while (it != reserved_.end() && it->first <= end) {
    first = std::min(first, it->first);
    end = std::max(end, it->second);
    it = reserved_.erase(it);
  }
  reserved_[first] = end;
  return absl::OkStatus();
}

size_t Attachments::RemoveExited() {
  std::vector<pollfd> ends;
  ends.reserve(2 * (attached_.size() + unseen_.size()));
  const auto watch = [&ends](const auto& one) {
    ends.push_back({one.process.fd(), POLLIN, 0});
    ends.push_back({one.lease.get(), POLLRDHUP, 0});
  };
  for (const Attachment& attachment : attached_) watch(attachment);
  for (const Unseen& unseen : unseen_) watch(unseen);
  if (PollAll(ends) == 0) return 0;
  const auto has_ended = [&ends](size_t i) {
    return (ends[2 * i].revents | ends[2 * i + 1].revents) != 0;
  };
  size_t ended = 0;
  for (size_t i = unseen_.size(); i-- > 0;) {
    if (!has_ended(attached_.size() + i)) continue;
    if (ended_) ended_(nullptr);
    EndLease(std::move(unseen_[i].lease));
    unseen_.erase(unseen_.begin() + static_cast<ptrdiff_t>(i));
    ++ended;
  }
  for (size_t i = attached_.size(); i-- > 0;) {
    if (!has_ended(i)) continue;
    TENON_CRASH_POINT("attachments.burying");
    if (ended_) ended_(&attached_[i]);
    Remove(i);
    ++ended;
  }
  return ended;
}

absl::Status SendAttach(int socket, const AttachRequest& request) {
  AttachMessage message;
  message.arena = request.arena;
  message.first_cell = request.first_cell;
  message.cells = request.cells;
  const std::array<int, AttachMessage::kFds> fds = {
      request.lease, request.column, request.process};
  return Send(socket, message, fds);
}

}  // namespace tenon
