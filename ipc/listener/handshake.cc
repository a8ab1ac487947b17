// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/listener/handshake.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/ancillary.h"
#include "tenon/ipc/channel/frame.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/ipc/listener/hello.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"

namespace tenon {
namespace {

constexpr size_t kMaxHello = 1024;

absl::Status PeerIsGone() {
  return absl::UnavailableError(
      "the peer ended the connection before the handshake was finished");
}

absl::Status FalseIdentity(absl::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("the peer announced a false identity: ", why));
}

absl::StatusOr<ucred> WhoConnected(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return PosixError(errno, "getsockopt(SO_PEERCRED)", "a connection");
  }
  return peer;
}

absl::Status CheckUser(uid_t user, const HandshakeOptions& options) {
  const uid_t own = geteuid();
  if (user == own || options.allow_other_users) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the peer is a process of user ", user, ", this is one of user ", own,
      "; to accept other users set allow_other_users"));
}

absl::Status SetOption(int socket, int option, int value) {
  if (setsockopt(socket, SOL_SOCKET, option, &value, sizeof(value)) == 0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "setsockopt(SO_PASSCRED)", "a connection");
}

// One per process; a forked child makes its own.
absl::StatusOr<RandomId> OwnId() {
  static ThreadMutex mutex;
  static RandomId id ABSL_GUARDED_BY(mutex);
  static uint64_t made_under ABSL_GUARDED_BY(mutex) = 0;
  const ThreadLock lock(&mutex);
  if (id.is_zero() || made_under != ForkCount()) {
    TENON_ASSIGN_OR_RETURN(id, RandomId::New());
    made_under = ForkCount();
  }
  return id;
}

// ---- Sending ----

absl::Status Send(int socket, const Hello& hello, absl::Span<const int> fds) {
  const std::string payload = EncodeHello(hello);
  FrameHeader header = {.payload_bytes = static_cast<uint32_t>(payload.size()),
                        .fd_count = static_cast<uint16_t>(fds.size())};
  iovec parts[] = {{&header, sizeof(header)},
                   {const_cast<char*>(payload.data()), payload.size()}};
  msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ControlBuffer control;
  // The effective ids, which SO_PEERCRED gives as well; the kernel would fill
  // in the real ones.
  const ucred self = {.pid = getpid(), .uid = geteuid(), .gid = getegid()};
  AttachFdsAndCredentials(fds, self, &control, &message);
  const ssize_t sent = RetryOnEintr(
      [&] { return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
  if (sent >= 0) return absl::OkStatus();
  if (errno == EPIPE || errno == ECONNRESET) return PeerIsGone();
  return PosixError(errno, "sendmsg", "a handshake");
}

// ---- Receiving ----

struct Received {
  std::string payload;
  ucred credentials = {};
  std::vector<UniqueFd> fds;
};

absl::StatusOr<Received> Check(absl::string_view datagram, int flags,
                               Ancillary& ancillary) {
  if (flags & MSG_CTRUNC) {
    return PosixError(EMFILE, "recvmsg", "the pidfd of a peer");
  }
  if (datagram.empty() && ancillary.fds.empty()) return PeerIsGone();
  if (ancillary.has_others || !ancillary.credentials ||
      (flags & MSG_TRUNC) != 0) {
    return absl::DataLossError("the peer's first message is not a handshake");
  }
  TENON_ASSIGN_OR_RETURN(const Frame frame,
                         ParseFrame(datagram, ancillary.fds.size()));
  if (frame.segment_bytes != 0) {
    return absl::DataLossError(
        "the peer's first message is a large message, not a handshake");
  }
  if (frame.is_end) {
    return absl::DataLossError(
        "the peer's first message is the end of a channel, not a handshake");
  }
  return Received{.payload = std::string(frame.payload),
                  .credentials = *ancillary.credentials,
                  .fds = std::move(ancillary.fds)};
}

absl::StatusOr<std::optional<Received>> Receive(int socket) {
  char datagram[kMaxHello];
  ControlBuffer control;
  iovec part = {datagram, sizeof(datagram)};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  AttachRoom(&control, &message);
  const auto receive = [&] {
    return recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  };
  ssize_t size = RetryOnEintr(receive);
  // Reported if the peer left a message unread, before its last message: its
  // refusal.
  if (size < 0 && errno == ECONNRESET) size = RetryOnEintr(receive);
  if (size < 0 && errno == EAGAIN) return std::nullopt;
  if (size < 0 && errno == ECONNRESET) return PeerIsGone();
  if (size < 0) return PosixError(errno, "recvmsg", "a handshake");
  Ancillary ancillary = TakeAncillary(&message);
  auto checked = Check(absl::string_view(datagram, static_cast<size_t>(size)),
                       message.msg_flags, ancillary);
  // Not inspected before: see received_fd.h.
  if (!checked.ok()) ReceivedFds unseen(std::move(ancillary.fds));
  return checked;
}

// ---- The peer's identity ----

// The pidfd of the connecting process; nullopt if the kernel does not know this
// option.
absl::StatusOr<std::optional<PidFd>> PidFdOfPeer(int socket) {
  absl::StatusOr<PidFd> peer = PidFd::OfPeer(socket);
  if (peer.ok()) return *std::move(peer);
  // The kernel does not support the option, or does not know the process.
  if (absl::IsUnimplemented(peer.status()) ||
      absl::IsInvalidArgument(peer.status())) {
    return std::nullopt;
  }
  // The process has been reaped.
  return absl::IsNotFound(peer.status()) ? PeerIsGone() : peer.status();
}

// The pidfd that identifies the peer, which has sent `sent`. nullopt if the
// kernel cannot vouch for it (before Linux 6.5) and it cannot be compared.
absl::StatusOr<std::optional<PidFd>> Verify(int socket, PidFd sent, pid_t pid) {
  TENON_ASSIGN_OR_RETURN(std::optional<PidFd> vouched, PidFdOfPeer(socket));
  absl::StatusOr<PidFd> peer = IdentifySender(sent, pid, std::move(vouched));
  switch (peer.status().code()) {
    case absl::StatusCode::kOk:
      return *std::move(peer);
    case absl::StatusCode::kInvalidArgument:
      return FalseIdentity(peer.status().message());
    case absl::StatusCode::kNotFound:
      return PeerIsGone();
    case absl::StatusCode::kFailedPrecondition:
      // The pidfd of a process without a number here is accepted as sent.
      if (pid == 0) return sent;
      return std::nullopt;
    default:
      return peer.status();
  }
}

absl::StatusOr<PeerProcess> Identify(int socket, Received received,
                                     const HandshakeOptions& options) {
  const ucred& said = received.credentials;
  TENON_ASSIGN_OR_RETURN(const ucred connected, WhoConnected(socket));
  TENON_RETURN_IF_ERROR(CheckUser(connected.uid, options));
  if (said.pid != connected.pid || said.uid != connected.uid) {
    return FalseIdentity(
        absl::StrCat("process ", connected.pid, " of user ", connected.uid,
                     " made the connection, and process ", said.pid,
                     " of user ", said.uid, " uses it"));
  }
  if (received.fds.size() != 1) {
    return absl::DataLossError(absl::StrCat("the peer's handshake came with ",
                                            received.fds.size(),
                                            " descriptors; want 1"));
  }
  absl::StatusOr<PidFd> sent = PidFd::Adopt(std::move(received.fds[0]));
  if (absl::IsInvalidArgument(sent.status())) {
    return absl::DataLossError(
        "the descriptor in the peer's handshake is not a pidfd");
  }
  TENON_RETURN_IF_ERROR(sent.status());
  PeerProcess peer = {.pid = said.pid, .uid = said.uid, .gid = said.gid};
  TENON_ASSIGN_OR_RETURN(peer.pid_fd,
                         Verify(socket, *std::move(sent), said.pid));
  return peer;
}

}  // namespace

absl::StatusOr<Self> Self::Get() {
  TENON_ASSIGN_OR_RETURN(const RandomId id, OwnId());
  TENON_ASSIGN_OR_RETURN(PidFd pid_fd, PidFd::Open(getpid()));
  return Self{.pid_fd = std::move(pid_fd), .id = id};
}

absl::Status BeginHandshake(int socket, const HandshakeOptions& options) {
  TENON_ASSIGN_OR_RETURN(const ucred connected, WhoConnected(socket));
  TENON_RETURN_IF_ERROR(CheckUser(connected.uid, options));
  return SetOption(socket, SO_PASSCRED, 1);
}

absl::Status SendHello(int socket, const Self& self) {
  const int fd = self.pid_fd.fd();
  TENON_RETURN_IF_ERROR(Send(socket, {.id = self.id}, {&fd, 1}));
  TENON_CRASH_POINT("handshake.hello_sent");
  return absl::OkStatus();
}

void SendRefusal(int socket, const absl::Status& why) {
  Send(socket, {.refusal = why}, {}).IgnoreError();
}

absl::StatusOr<std::optional<PeerProcess>> TakeHello(
    int socket, const HandshakeOptions& options) {
  TENON_ASSIGN_OR_RETURN(std::optional<Received> received, Receive(socket));
  if (!received) return std::nullopt;
  TENON_CRASH_POINT("handshake.hello_taken");
  TENON_ASSIGN_OR_RETURN(const Hello hello, ParseHello(received->payload));
  if (!hello.refusal.ok() && !options.may_be_refused) {
    return absl::DataLossError(
        "the connecting peer's first message is a refusal");
  }
  if (!hello.refusal.ok()) {
    return absl::Status(
        hello.refusal.code(),
        absl::StrCat("refused by the peer: ", hello.refusal.message()));
  }
  TENON_ASSIGN_OR_RETURN(PeerProcess peer,
                         Identify(socket, *std::move(received), options));
  peer.id = hello.id;
  TENON_RETURN_IF_ERROR(SetOption(socket, SO_PASSCRED, 0));
  return peer;
}

}  // namespace tenon
