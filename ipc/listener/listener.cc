// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/listener/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/ipc/listener/handshake.h"
#include "tenon/ipc/listener/socket_address.h"
#include "tenon/ipc/listener/socket_file.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// The connection, the received pidfd, the kernel's, and one for a check.
constexpr int kFdsOfAHandshake = 4;
constexpr int kBacklog = 128;
// The descriptors polled in one round.
constexpr int kEvents = 64;
// Once the deadline has passed: enough to get through a full queue.
constexpr int kLastRounds = 2 * kBacklog;
// More than any queue of an adopted socket has entries by default (4096).
constexpr int kMostQueued = 1 << 16;

absl::Status CheckOptions(const ListenerOptions& options) {
  if (options.max_unfinished == 0) {
    return absl::InvalidArgumentError(
        "listener: max_unfinished is 0; want at least 1");
  }
  if (options.handshake_patience <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "listener: handshake_patience must be positive");
  }
  if (options.channel.max_fds_in_flight == 0) {
    return absl::InvalidArgumentError(
        "listener: max_fds_in_flight is 0; want at least 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> NewSocket() {
  // The connecting process may be gone when it is accepted: never wait there.
  UniqueFd socket(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return PosixError(errno, "socket", "AF_UNIX");
  return socket;
}

absl::Status AddToEpoll(int epoll, int fd) {
  epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "epoll_ctl", "a listener");
}

int OptionOf(int socket, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  getsockopt(socket, SOL_SOCKET, option, &value, &size);
  return value;
}

absl::Status CheckListens(int socket) {
  if (OptionOf(socket, SO_DOMAIN) == AF_UNIX &&
      OptionOf(socket, SO_TYPE) == SOCK_SEQPACKET &&
      OptionOf(socket, SO_ACCEPTCONN) == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Listener::Adopt(): descriptor ", socket,
      " is not a listening socket of AF_UNIX and SOCK_SEQPACKET (systemd: "
      "ListenSequentialPacket=)"));
}

absl::StatusOr<std::string> NameOf(int socket) {
  sockaddr_un address = {};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return PosixError(errno, "getsockname", "a listener");
  }
  // For a path of 108 bytes the kernel counts a zero byte beyond the end.
  const std::string name(address.sun_path,
                         std::min<size_t>(size, sizeof(address)) -
                             offsetof(sockaddr_un, sun_path));
  // A path ends with a zero byte, an abstract name begins with one.
  if (name.empty()) return std::string("(unnamed)");
  return name[0] == '\0' ? absl::StrCat("@", name.substr(1))
                         : name.substr(0, name.find('\0'));
}

absl::Status CloseQueued(int socket) {
  for (int i = 0; i < kMostQueued; ++i) {
    const UniqueFd queued(accept4(socket, nullptr, nullptr, SOCK_CLOEXEC));
    if (queued.valid() || errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) break;
    return PosixError(errno, "accept4", "an adopted listener");
  }
  return absl::OkStatus();
}

uid_t UserOf(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer.uid;
}

// The fault of the peer, and not of this process.
bool IsRefusal(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsPermissionDenied(status);
}

}  // namespace

class Listener::State {
 public:
  static absl::StatusOr<std::unique_ptr<State>> Create(
      UniqueFd socket, std::string name, SocketFile file,
      const ListenerOptions& options);
  ~State() {
    if (CheckNotForked(fork_count_, "listener").ok()) file_.Remove();
  }

  const std::string& name() const { return name_; }
  int fd() const { return epoll_.get(); }
  absl::StatusOr<Channel> Accept(Deadline deadline);
  Counts counts() const {
    Counts counts = counts_;
    counts.unfinished = unfinished_.size();
    return counts;
  }

 private:
  // A connection that has not identified itself yet.
  struct Unfinished {
    UniqueFd socket;
    uid_t user;
    Deadline expires;
  };
  using Place = std::list<Unfinished>::iterator;
  using MaybeChannel = absl::StatusOr<std::optional<Channel>>;

  State(UniqueFd socket, UniqueFd epoll, std::string name, SocketFile file,
        Self self, const ListenerOptions& options)
      : socket_(std::move(socket)),
        epoll_(std::move(epoll)),
        name_(std::move(name)),
        file_(std::move(file)),
        self_(std::move(self)),
        options_(options) {}

  MaybeChannel Round(bool* was_idle);
  MaybeChannel AcceptOne();
  MaybeChannel Continue(Place place);
  MaybeChannel Finish(Place place, PeerProcess peer);
  absl::Status Refuse(int socket, const absl::Status& why);
  absl::StatusOr<UniqueFd> TakeConnection();
  void DropExpired();
  void DropOne();
  void Drop(Place place);
  Deadline NextExpiry() const;
  absl::Status NoConnection() const;

  HandshakeOptions handshake() const {
    return {.allow_other_users = options_.allow_other_users};
  }

  UniqueFd socket_;
  UniqueFd epoll_;
  std::string name_;
  SocketFile file_;
  Self self_;
  ListenerOptions options_;
  std::list<Unfinished> unfinished_;  // The oldest first.
  Counts counts_;
  uint64_t fork_count_ = ForkCount();
};

absl::StatusOr<std::unique_ptr<Listener::State>> Listener::State::Create(
    UniqueFd socket, std::string name, SocketFile file,
    const ListenerOptions& options) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  absl::Status status = epoll.valid()
                            ? AddToEpoll(epoll.get(), socket.get())
                            : PosixError(errno, "epoll_create1", "a listener");
  absl::StatusOr<Self> self = Self::Get();
  if (status.ok()) status = self.status();
  if (!status.ok()) {
    file.Remove();
    return status;
  }
  return std::unique_ptr<State>(new State(std::move(socket), std::move(epoll),
                                          std::move(name), std::move(file),
                                          *std::move(self), options));
}

absl::StatusOr<Channel> Listener::State::Accept(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "listener"));
  for (int last_rounds = kLastRounds; last_rounds > 0;) {
    DropExpired();
    bool was_idle = false;
    TENON_ASSIGN_OR_RETURN(std::optional<Channel> channel, Round(&was_idle));
    if (channel) return *std::move(channel);
    if (deadline.has_passed()) {
      if (was_idle) break;
      --last_rounds;
    } else if (was_idle) {
      pollfd fd = {.fd = epoll_.get(), .events = POLLIN, .revents = 0};
      TENON_RETURN_IF_ERROR(
          PollUntil({&fd, 1}, Earlier(deadline, NextExpiry())).status());
    }
  }
  return NoConnection();
}

// Reads all connections that have sent data before it accepts one more: so a
// flood of silent connections pushes out none that has sent data.
Listener::State::MaybeChannel Listener::State::Round(bool* was_idle) {
  epoll_event events[kEvents];
  const int count = epoll_wait(epoll_.get(), events, kEvents, 0);
  *was_idle = count <= 0;
  bool somebody_connects = false;
  for (int i = 0; i < count; ++i) {
    const int fd = events[i].data.fd;
    if (fd == socket_.get()) {
      somebody_connects = true;
      continue;
    }
    const Place place =
        std::find_if(unfinished_.begin(), unfinished_.end(),
                     [&](const Unfinished& u) { return u.socket.get() == fd; });
    if (place == unfinished_.end()) continue;
    MaybeChannel channel = Continue(place);
    if (!channel.ok() || channel->has_value()) return channel;
  }
  if (somebody_connects) return AcceptOne();
  return std::nullopt;
}

// An invalid descriptor: the connecting process has gone.
absl::StatusOr<UniqueFd> Listener::State::TakeConnection() {
  for (;;) {
    UniqueFd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.valid()) return socket;
    const int error = errno;
    switch (error) {
      case EINTR:
        continue;
      case EAGAIN:
      case ECONNABORTED:
        return UniqueFd();
      case EMFILE:
        // Silent connections must not delay others.
        if (!unfinished_.empty()) {
          DropOne();
          continue;
        }
        [[fallthrough]];
      default:
        return PosixError(error, "accept4", name_);
    }
  }
}

Listener::State::MaybeChannel Listener::State::AcceptOne() {
  TENON_ASSIGN_OR_RETURN(UniqueFd socket, TakeConnection());
  if (!socket.valid()) return std::nullopt;
  TENON_CRASH_POINT("listener.accepted");
  const absl::Status begun = BeginHandshake(socket.get(), handshake());
  if (!begun.ok()) {
    TENON_RETURN_IF_ERROR(Refuse(socket.get(), begun));
    return std::nullopt;
  }
  TENON_RETURN_IF_ERROR(AddToEpoll(epoll_.get(), socket.get()));
  const uid_t user = UserOf(socket.get());
  unfinished_.push_back(
      {.socket = std::move(socket),
       .user = user,
       .expires = Deadline::After(options_.handshake_patience)});
  MaybeChannel channel = Continue(std::prev(unfinished_.end()));
  if (unfinished_.size() > options_.max_unfinished) DropOne();
  return channel;
}

Listener::State::MaybeChannel Listener::State::Continue(Place place) {
  absl::StatusOr<std::optional<PeerProcess>> peer =
      TakeHello(place->socket.get(), handshake());
  if (peer.ok() && !peer->has_value()) return std::nullopt;
  if (peer.ok()) return Finish(place, **std::move(peer));
  if (absl::IsUnavailable(peer.status())) {
    Drop(place);
    return std::nullopt;
  }
  const absl::Status error = Refuse(place->socket.get(), peer.status());
  unfinished_.erase(place);
  // Silent connections must not delay its next try.
  if (absl::IsResourceExhausted(peer.status())) {
    for (int i = 0; i < kFdsOfAHandshake && !unfinished_.empty(); ++i) {
      DropOne();
    }
  }
  TENON_RETURN_IF_ERROR(error);
  return std::nullopt;
}

Listener::State::MaybeChannel Listener::State::Finish(Place place,
                                                      PeerProcess peer) {
  const absl::Status sent = SendHello(place->socket.get(), self_);
  if (absl::IsUnavailable(sent)) {
    Drop(place);
    return std::nullopt;
  }
  UniqueFd socket = std::move(place->socket);
  unfinished_.erase(place);
  if (!sent.ok()) {
    TENON_RETURN_IF_ERROR(Refuse(socket.get(), sent));
    return std::nullopt;
  }
  // It lives on, so closing will not do that.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  TENON_ASSIGN_OR_RETURN(Channel channel,
                         Channel::Adopt(std::move(socket), options_.channel));
  channel.SetPeer(std::move(peer));
  ++counts_.accepted;
  return channel;
}

// Tells the peer; an error that is not its own is the caller's as well.
absl::Status Listener::State::Refuse(int socket, const absl::Status& why) {
  SendRefusal(socket, why);
  ++counts_.refused;
  return IsRefusal(why) ? absl::OkStatus() : why;
}

void Listener::State::DropExpired() {
  while (!unfinished_.empty() && unfinished_.front().expires.has_passed()) {
    Drop(unfinished_.begin());
  }
}

// The oldest one of the user with the most, so that no user is in the way of
// another.
void Listener::State::DropOne() {
  std::map<uid_t, size_t> counts;
  for (const Unfinished& unfinished : unfinished_) ++counts[unfinished.user];
  const auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  Drop(
      std::find_if(unfinished_.begin(), unfinished_.end(),
                   [&](const Unfinished& u) { return u.user == most->first; }));
}

void Listener::State::Drop(Place place) {
  unfinished_.erase(place);
  ++counts_.dropped;
}

Deadline Listener::State::NextExpiry() const {
  return unfinished_.empty() ? Deadline::Never() : unfinished_.front().expires;
}

absl::Status Listener::State::NoConnection() const {
  return absl::DeadlineExceededError(absl::StrCat(
      "Listener::Accept(): no process has connected to ", name_, " (",
      unfinished_.size(), " connections have not identified themselves; ",
      counts_.refused, " were refused and ", counts_.dropped,
      " dropped so far)"));
}

absl::StatusOr<Listener> Listener::CreateAbstract(
    absl::string_view prefix, const ListenerOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  TENON_ASSIGN_OR_RETURN(std::string name, MakeAbstractName(prefix));
  TENON_ASSIGN_OR_RETURN(const SocketAddress address,
                         SocketAddress::Parse(name));
  TENON_ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  if (bind(socket.get(), address.get(), address.size) != 0) {
    return PosixError(errno, "bind", name);
  }
  if (listen(socket.get(), kBacklog) != 0) {
    return PosixError(errno, "listen", name);
  }
  TENON_ASSIGN_OR_RETURN(
      auto state,
      State::Create(std::move(socket), std::move(name), SocketFile(), options));
  return Listener(std::move(state));
}

absl::StatusOr<Listener> Listener::CreateAtPath(
    absl::string_view path, const ListenerOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  std::string name(path);
  TENON_RETURN_IF_ERROR(SocketAddress::Parse(name).status());
  if (name[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "Listener::CreateAtPath(): '", name, "' is not an absolute path"));
  }
  TENON_ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  TENON_ASSIGN_OR_RETURN(SocketFile file,
                         SocketFile::Listen(socket.get(), name));
  TENON_ASSIGN_OR_RETURN(auto state,
                         State::Create(std::move(socket), std::move(name),
                                       std::move(file), options));
  return Listener(std::move(state));
}

absl::StatusOr<Listener> Listener::Adopt(UniqueFd socket,
                                         const ListenerOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  const int fd = socket.get();
  TENON_RETURN_IF_ERROR(CheckListens(fd));
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
      fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
    return PosixError(errno, "fcntl", "a listener");
  }
  // Makes this process the one that SO_PEERCRED names.
  if (listen(fd, kBacklog) != 0) return PosixError(errno, "listen", "");
  TENON_RETURN_IF_ERROR(CloseQueued(fd));
  TENON_ASSIGN_OR_RETURN(std::string name, NameOf(fd));
  TENON_ASSIGN_OR_RETURN(
      auto state,
      State::Create(std::move(socket), std::move(name), SocketFile(), options));
  return Listener(std::move(state));
}

Listener::Listener(std::unique_ptr<State> state) : state_(std::move(state)) {}
Listener::~Listener() = default;
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;

const std::string& Listener::name() const { return state_->name(); }
int Listener::fd() const { return state_->fd(); }
Listener::Counts Listener::counts() const { return state_->counts(); }

absl::StatusOr<Channel> Listener::Accept(Deadline deadline) {
  TENON_CHECK(state_ != nullptr, "Listener used after it was moved from");
  return state_->Accept(deadline);
}

}  // namespace tenon
