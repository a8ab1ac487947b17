// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// A message is a step's name, or this one together with a descriptor.
constexpr absl::string_view kFdMessage = "";
constexpr size_t kMaxStep = 200;

// A byte has to be sent with the descriptor: an empty message would mean "end".
struct Message {
  char bytes[1 + kMaxStep];
  iovec io = {.iov_base = bytes, .iov_len = sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};

  Message() {
    header.msg_iov = &io;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
};

void Fill(Message& message, absl::string_view text, int fd) {
  message.bytes[0] = 'S';
  memcpy(message.bytes + 1, text.data(), text.size());
  message.io.iov_len = 1 + text.size();
  if (fd < 0) {
    message.header.msg_controllen = 0;
    return;
  }
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(control), &fd, sizeof(int));
}

UniqueFd TakeFdOut(Message& message) {
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS) return UniqueFd();
  int fd;
  memcpy(&fd, CMSG_DATA(control), sizeof(int));
  return UniqueFd(fd);
}

absl::Status WaitFor(int fd, short events, Deadline deadline) {
  pollfd poll_fd = {.fd = fd, .events = events, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int ready, PollUntil({&poll_fd, 1}, deadline));
  if (ready == 0) return absl::DeadlineExceededError("no message arrived");
  return absl::OkStatus();
}

}  // namespace

Peer::Link& Peer::LinkTo(absl::string_view other) {
  const auto found = links_.find(std::string(other));
  if (found == links_.end()) {
    Abort(absl::StrCat(name(), " has no other peer '", other, "'"));
  }
  return found->second;
}

absl::Status Peer::Send(absl::string_view other, absl::string_view text,
                        int fd) {
  TENON_CHECK(text.size() <= kMaxStep, "a step's name has 200 characters");
  const int socket = LinkTo(other).socket.get();
  Message message;
  Fill(message, text, fd);
  for (;;) {
    const ssize_t sent = RetryOnEintr([&] {
      return sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT);
    });
    if (sent >= 0) return absl::OkStatus();
    if (errno == EPIPE || errno == ECONNRESET) {
      return absl::UnavailableError(absl::StrCat(other, " has ended"));
    }
    if (errno != EAGAIN) return PosixError(errno, "sendmsg", other);
    TENON_RETURN_IF_ERROR(WaitFor(socket, POLLOUT, options_.deadline));
  }
}

absl::Status Peer::Receive(absl::string_view other,
                           absl::string_view waiting_for) {
  Link& link = LinkTo(other);
  const auto because = [&](absl::string_view what) {
    return absl::StrCat(name(), " waited for '", waiting_for, "' of ", other,
                        ", ", what);
  };
  if (!WaitFor(link.socket.get(), POLLIN, options_.deadline).ok()) {
    return absl::DeadlineExceededError(because("which did not arrive in time"));
  }
  Message message;
  ssize_t size;
  // If it ended with unread messages, this error is reported first, and once;
  // its earlier messages can still be received.
  do {
    size = recvmsg(link.socket.get(), &message.header, MSG_CMSG_CLOEXEC);
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) return PosixError(errno, "recvmsg", other);
  if (size == 0) return absl::UnavailableError(because("which has ended"));
  UniqueFd fd = TakeFdOut(message);
  if (fd.valid()) {
    link.fds.push_back(std::move(fd));
  } else if (message.header.msg_flags & MSG_CTRUNC) {
    return PosixError(EMFILE, "recvmsg", other);
  } else {
    link.steps.emplace_back(message.bytes + 1, static_cast<size_t>(size - 1));
  }
  return absl::OkStatus();
}

void Peer::Step(absl::string_view step) {
  for (const std::string& other : others_) {
    const absl::Status sent = Send(other, step, -1);
    if (!sent.ok() && !absl::IsUnavailable(sent)) {
      Fail(absl::StrCat(name(), ", step '", step, "': ", sent.ToString()));
    }
  }
}

absl::Status Peer::Await(absl::string_view other, absl::string_view step) {
  std::deque<std::string>& steps = LinkTo(other).steps;
  for (;;) {
    const auto found = std::find(steps.begin(), steps.end(), step);
    if (found != steps.end()) {
      steps.erase(found);
      return absl::OkStatus();
    }
    TENON_RETURN_IF_ERROR(Receive(other, step));
  }
}

absl::Status Peer::Await(absl::string_view step) {
  TENON_CHECK(others_.size() == 1, "Await() of which of the others?");
  return Await(others_[0], step);
}

absl::Status Peer::Meet(absl::string_view step) {
  Step(step);
  for (const std::string& other : others_) {
    TENON_RETURN_IF_ERROR(Await(other, step));
  }
  return absl::OkStatus();
}

absl::Status Peer::GiveFd(absl::string_view other, int fd) {
  return Send(other, kFdMessage, fd);
}

absl::StatusOr<UniqueFd> Peer::TakeFd(absl::string_view other) {
  std::deque<UniqueFd>& fds = LinkTo(other).fds;
  while (fds.empty()) {
    TENON_RETURN_IF_ERROR(Receive(other, "a descriptor"));
  }
  UniqueFd fd = std::move(fds.front());
  fds.pop_front();
  return fd;
}

void Peer::Die() const {
  TENON_CHECK(mode() == PeerMode::kProcesses, "a thread cannot be killed");
  reporter_.WillDie();
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

absl::StatusOr<std::vector<Peer>> MakePeers(
    const std::vector<std::string>& names, PeerMode mode, Deadline deadline) {
  std::vector<Peer> peers;
  for (const std::string& name : names) {
    peers.push_back(Peer({.name = name, .mode = mode, .deadline = deadline}));
  }
  for (Peer& a : peers) {
    for (Peer& b : peers) {
      if (&a == &b) break;
      int fds[2];
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return PosixError(errno, "socketpair", "peers");
      }
      a.links_[b.name()].socket.Reset(fds[0]);
      b.links_[a.name()].socket.Reset(fds[1]);
    }
  }
  for (Peer& peer : peers) {
    for (const auto& [other, link] : peer.links_) peer.others_.push_back(other);
    TENON_CHECK(peer.others_.size() + 1 == names.size(),
                "peers have different names");
  }
  return peers;
}

}  // namespace tenon
