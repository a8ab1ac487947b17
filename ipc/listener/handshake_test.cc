// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The peer's identity: on kernels with and without SO_PEERPIDFD, across pid
// namespaces, and of peers that forge it.

#include "tenon/ipc/listener/handshake.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/ancillary.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/ipc/listener/hello.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using absl::StatusCode::kDataLoss;
using absl::StatusCode::kPermissionDenied;
using absl::StatusCode::kUnavailable;

constexpr int kSoPeerPidFd = 77;

// As on a kernel before Linux 6.5. Permanent, so for children only.
bool HidePeerPidFd() {
  return FailSystemCall({.number = SYS_getsockopt,
                         .argument = 2,
                         .value = kSoPeerPidFd,
                         .error = ENOPROTOOPT}) &&
         // The check whether pidfds have inodes of their own.
         FailSystemCall({.number = SYS_fstatfs, .error = ENOSYS});
}

// A socket that listens under a name of the kernel's choice.
class RawListener {
 public:
  RawListener() : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    address_.sun_family = AF_UNIX;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address_),
                   sizeof(sa_family_t)),
              0);
    size_ = sizeof(address_);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address_),
                          &size_),
              0);
    EXPECT_EQ(listen(socket_.get(), 8), 0);
  }

  UniqueFd Connect() const {
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(
        connect(fd.get(), reinterpret_cast<const sockaddr*>(&address_), size_),
        0);
    return fd;
  }
  int fd() const { return socket_.get(); }
  UniqueFd Accept() const {
    return UniqueFd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  UniqueFd socket_;
  sockaddr_un address_ = {};
  socklen_t size_ = 0;
};

absl::StatusOr<PeerProcess> AwaitHello(int socket,
                                       const HandshakeOptions& options = {}) {
  const Deadline deadline = Watchdog();
  for (;;) {
    TENON_ASSIGN_OR_RETURN(std::optional<PeerProcess> peer,
                           TakeHello(socket, options));
    if (peer) return *std::move(peer);
    pollfd fd = {.fd = socket, .events = POLLIN, .revents = 0};
    TENON_RETURN_IF_ERROR(PollUntil({&fd, 1}, deadline).status());
    if (deadline.has_passed()) return absl::DeadlineExceededError("no hello");
  }
}

// One end's whole handshake.
absl::StatusOr<PeerProcess> Shake(int socket,
                                  const HandshakeOptions& options = {}) {
  TENON_RETURN_IF_ERROR(BeginHandshake(socket, options));
  TENON_ASSIGN_OR_RETURN(const Self self, Self::Get());
  // A listener that has refused already may be gone, but has sent the reason.
  SendHello(socket, self).IgnoreError();
  return AwaitHello(socket, options);
}

// Sends a hello as SendHello() would, but with these descriptors.
void SendForgedHello(int socket, std::vector<int> fds) {
  const std::string frame = GoodFrame(EncodeHello({}), fds.size());
  ControlBuffer control;
  iovec part = {const_cast<char*>(frame.data()), frame.size()};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  AttachFdsAndCredentials(fds,
                          {.pid = getpid(), .uid = geteuid(), .gid = getegid()},
                          &control, &message);
  ASSERT_EQ(sendmsg(socket, &message, MSG_NOSIGNAL),
            static_cast<ssize_t>(frame.size()))
      << strerror(errno);
}

// On both kinds of kernel. The end that verifies runs in a child.
class HandshakeTest : public ::testing::TestWithParam<bool> {
 protected:
  bool has_peer_pid_fd() const { return GetParam(); }

  // Runs `server` with a connection that `client` holds, each in a child.
  void Run(const std::function<void(int socket)>& client,
           const std::function<void(int socket, pid_t client)>& server) {
    const RawListener listener;
    const pid_t child = StartChild([&] {
      const UniqueFd socket = listener.Connect();
      client(socket.get());
      // Until the other end has finished its checks.
      char c;
      EXPECT_GE(recv(socket.get(), &c, 1, 0), -1);
    });
    EXPECT_TRUE(PassesInChild([&] {
      if (!has_peer_pid_fd()) {
        ASSERT_TRUE(HidePeerPidFd());
      }
      const UniqueFd socket = listener.Accept();
      server(socket.get(), child);
    }));
    EXPECT_EQ(ExitCodeOf(child), 0);
  }

  // The same for a server that only refuses.
  void ExpectRefused(const std::function<void(int socket)>& client,
                     const ::testing::Matcher<absl::Status>& refusal) {
    Run(client, [&](int socket, pid_t) {
      const size_t fds_before = CountOpenFds();
      ASSERT_THAT(BeginHandshake(socket, {}), IsOk());
      EXPECT_THAT(AwaitHello(socket).status(), refusal);
      EXPECT_EQ(CountOpenFds(), fds_before);
    });
  }
};

TEST_P(HandshakeTest, TheOtherIsKnownByItsPidFd) {
  const RawListener listener;
  const pid_t child = StartChild([&] {
    const UniqueFd socket = listener.Connect();
    TENON_ASSERT_OK_AND_ASSIGN(const Self self, Self::Get());
    ASSERT_THAT(SendHello(socket.get(), self), IsOk());
    pause();
  });
  EXPECT_TRUE(PassesInChild([&] {
    if (!has_peer_pid_fd()) {
      ASSERT_TRUE(HidePeerPidFd());
    }
    const UniqueFd socket = listener.Accept();
    const size_t fds_before = CountOpenFds();
    ASSERT_THAT(BeginHandshake(socket.get(), {}), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const PeerProcess peer,
                               AwaitHello(socket.get()));
    EXPECT_EQ(peer.pid, child);
    EXPECT_EQ(peer.uid, geteuid());
    EXPECT_EQ(peer.gid, getegid());
    EXPECT_FALSE(peer.id.is_zero());
    EXPECT_EQ(peer.ToString(),
              absl::StrCat("process ", child, " of user ", geteuid()));
    ASSERT_TRUE(peer.pid_fd.has_value());
    EXPECT_FALSE(peer.pid_fd->HasEnded());
    EXPECT_EQ(CountOpenFds(), fds_before + 1);
    EXPECT_THAT(peer.pid_fd->SendSignal(SIGKILL), IsOk());
    EXPECT_THAT(peer.pid_fd->WaitForEnd(Watchdog()), IsOk());
  }));
  EXPECT_EQ(ExitCodeOf(child), 128 + SIGKILL);
}

// In one process, so that the listener and the server are the same process.
TEST(HandshakeBothTest, EachKnowsTheOther) {
  const RawListener listener;
  const UniqueFd client = listener.Connect();
  const UniqueFd server = listener.Accept();
  TENON_ASSERT_OK_AND_ASSIGN(const Self self, Self::Get());
  ASSERT_THAT(BeginHandshake(client.get(), {}), IsOk());
  ASSERT_THAT(SendHello(client.get(), self), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const PeerProcess connected, Shake(server.get()));
  TENON_ASSERT_OK_AND_ASSIGN(const PeerProcess listens,
                             AwaitHello(client.get()));
  EXPECT_EQ(connected.pid, getpid());
  EXPECT_EQ(listens.pid, getpid());
  EXPECT_EQ(listens.id, connected.id);
}

TEST_P(HandshakeTest, AnotherProcessesPidFdIsRefused) {
  const pid_t other = getpid();
  ExpectRefused(
      [&](int socket) {
        TENON_ASSERT_OK_AND_ASSIGN(const PidFd pid_fd, PidFd::Open(other));
        SendForgedHello(socket, {pid_fd.fd()});
      },
      StatusIs(kPermissionDenied, HasSubstr("pidfd")));
}

TEST_P(HandshakeTest, SomethingElseThanAPidFdIsRefused) {
  ExpectRefused(
      [&](int socket) {
        const UniqueFd event(eventfd(0, EFD_CLOEXEC));
        SendForgedHello(socket, {event.get()});
      },
      StatusIs(kDataLoss, HasSubstr("not a pidfd")));
}

TEST_P(HandshakeTest, NoPidFdOrTwoAreRefused) {
  for (const size_t count : {0, 2}) {
    ExpectRefused(
        [&](int socket) {
          TENON_ASSERT_OK_AND_ASSIGN(const Self self, Self::Get());
          SendForgedHello(socket, std::vector<int>(count, self.pid_fd.fd()));
        },
        StatusIs(kDataLoss, HasSubstr(absl::StrCat(count, " descriptors"))));
  }
}

// Passing a connection on before the handshake would give the second owner the
// identity of the first.
TEST_P(HandshakeTest, ProcessThatDidNotConnectIsRefused) {
  ExpectRefused(
      [&](int socket) {
        EXPECT_TRUE(PassesInChild([&] {
          TENON_ASSERT_OK_AND_ASSIGN(const Self self, Self::Get());
          EXPECT_THAT(SendHello(socket, self), IsOk());
        }));
      },
      StatusIs(kPermissionDenied, HasSubstr("made the connection")));
}

TEST_P(HandshakeTest, NoiseIsRefused) {
  for (const std::string& noise : {std::string("x"), GoodFrame("not a hello"),
                                   GoodFrame(""), std::string(5000, 'x')}) {
    ExpectRefused([&](int socket) { ASSERT_TRUE(SendRaw(socket, noise)); },
                  StatusIs(kDataLoss));
  }
}

TEST_P(HandshakeTest, RefusalReachesThePeer) {
  Run(
      [&](int socket) {
        EXPECT_THAT(Shake(socket, {.may_be_refused = true}),
                    StatusIs(absl::StatusCode::kResourceExhausted,
                             AllOf(HasSubstr("refused by the peer"),
                                   HasSubstr("no\\nroom"))));
      },
      [&](int socket, pid_t) {
        SendRefusal(socket, absl::ResourceExhaustedError("no\nroom"));
      });
}

TEST_P(HandshakeTest, AClientCannotRefuse) {
  ExpectRefused(
      [&](int socket) {
        SendRefusal(socket, absl::ResourceExhaustedError("no"));
      },
      StatusIs(kDataLoss, HasSubstr("first message is a refusal")));
}

TEST_P(HandshakeTest, PeerThatGoesIsGone) {
  const RawListener listener;
  UniqueFd client = listener.Connect();
  const UniqueFd server = listener.Accept();
  ASSERT_THAT(BeginHandshake(server.get(), {}), IsOk());
  {
    TENON_ASSERT_OK_AND_ASSIGN(const std::optional<PeerProcess> peer,
                               TakeHello(server.get(), {}));
    EXPECT_FALSE(peer.has_value());
  }
  client.Reset();
  EXPECT_THAT(TakeHello(server.get(), {}).status(), StatusIs(kUnavailable));
  TENON_ASSERT_OK_AND_ASSIGN(const Self self, Self::Get());
  EXPECT_THAT(SendHello(server.get(), self), StatusIs(kUnavailable));
}

TEST_P(HandshakeTest, AnotherUsersProcessIsRefusedUnlessAllowed) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  for (const bool allowed : {false, true}) {
    const uid_t own = geteuid();
    const RawListener listener;
    const pid_t child = StartChild([&] {
      ASSERT_TRUE(BecomeAnotherUser());
      const UniqueFd socket = listener.Connect();
      TENON_ASSERT_OK_AND_ASSIGN(const Self self, Self::Get());
      // The connection may have been refused already.
      SendHello(socket.get(), self).IgnoreError();
      char c;
      EXPECT_GE(recv(socket.get(), &c, 1, 0), -1);
    });
    EXPECT_TRUE(PassesInChild([&] {
      if (!has_peer_pid_fd()) {
        ASSERT_TRUE(HidePeerPidFd());
      }
      const UniqueFd socket = listener.Accept();
      const HandshakeOptions options = {.allow_other_users = allowed};
      const absl::Status begun = BeginHandshake(socket.get(), options);
      if (!allowed) {
        EXPECT_THAT(begun,
                    StatusIs(kPermissionDenied,
                             AllOf(HasSubstr(absl::StrCat("user ", kNobody)),
                                   HasSubstr(absl::StrCat("user ", own)),
                                   HasSubstr("allow_other_users"))));
        return;
      }
      ASSERT_THAT(begun, IsOk());
      TENON_ASSERT_OK_AND_ASSIGN(const PeerProcess peer,
                                 AwaitHello(socket.get(), options));
      EXPECT_EQ(peer.uid, kNobody);
      EXPECT_TRUE(peer.pid_fd.has_value());
    }));
    EXPECT_EQ(ExitCodeOf(child), 0);
  }
}

// The client is in a pid namespace of its own, in which the server has no
// number; the server sees the client under another number than it sees itself.
TEST_P(HandshakeTest, HoldsAcrossPidNamespaces) {
  const RawListener listener;
  const pid_t child = StartChild([&] {
    if (unshare(CLONE_NEWPID) != 0) SkipInChild("no pid namespaces here");
    if (!has_peer_pid_fd()) {
      ASSERT_TRUE(HidePeerPidFd());
    }
    const pid_t inner = StartChild([&] {
      EXPECT_EQ(getpid(), 1);
      const UniqueFd socket = listener.Connect();
      TENON_ASSERT_OK_AND_ASSIGN(const PeerProcess peer, Shake(socket.get()));
      EXPECT_EQ(peer.pid, 0);
      EXPECT_EQ(peer.uid, geteuid());
      EXPECT_THAT(peer.ToString(), HasSubstr("cannot be seen"));
      ASSERT_TRUE(peer.pid_fd.has_value());
      EXPECT_FALSE(peer.pid_fd->HasEnded());
      char c;
      EXPECT_EQ(recv(socket.get(), &c, 1, 0), 1);
    });
    EXPECT_EQ(ExitCodeOf(inner), 0);
  });
  // The listening process is not a child.
  pollfd connected = {.fd = listener.fd(), .events = POLLIN, .revents = 0};
  absl::StatusOr<int> ready =
      PollUntil({&connected, 1}, Deadline::After(absl::Seconds(10)));
  ASSERT_THAT(ready, IsOk());
  if (*ready == 0) {
    EXPECT_EQ(ExitCodeOf(child), kSkipped);
    GTEST_SKIP() << "the reason is printed above";
  }
  const UniqueFd socket = listener.Accept();
  TENON_ASSERT_OK_AND_ASSIGN(const PeerProcess peer, Shake(socket.get()));
  EXPECT_GT(peer.pid, 1);
  ASSERT_TRUE(peer.pid_fd.has_value());
  EXPECT_FALSE(peer.pid_fd->HasEnded());
  EXPECT_EQ(send(socket.get(), "x", 1, 0), 1);
  EXPECT_THAT(peer.pid_fd->WaitForEnd(Watchdog()), IsOk());
  EXPECT_EQ(ExitCodeOf(child), 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, HandshakeTest, ::testing::Bool(),
                         [](const auto& kernel) {
                           return kernel.param ? "ThisKernel"
                                               : "WithoutPeerPidFd";
                         });

// The kernel does not vouch for the pidfd, so none is returned.
TEST(HandshakeWithoutProcTest, PidFdThatCannotBeCheckedIsNotGiven) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  const RawListener listener;
  const pid_t child = StartChild([&] {
    const UniqueFd socket = listener.Connect();
    TENON_ASSERT_OK_AND_ASSIGN(const Self self, Self::Get());
    ASSERT_THAT(SendHello(socket.get(), self), IsOk());
    char c;
    EXPECT_GE(recv(socket.get(), &c, 1, 0), -1);
  });
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/proc", "size=1m"));
    ASSERT_TRUE(HidePeerPidFd());
    const UniqueFd socket = listener.Accept();
    ASSERT_THAT(BeginHandshake(socket.get(), {}), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const PeerProcess peer,
                               AwaitHello(socket.get()));
    EXPECT_EQ(peer.pid, child);
    EXPECT_FALSE(peer.pid_fd.has_value());
  }));
  EXPECT_EQ(ExitCodeOf(child), 0);
}

TEST(HandshakeSelfTest, IdIsTheProcessesOwn) {
  TENON_ASSERT_OK_AND_ASSIGN(const Self one, Self::Get());
  TENON_ASSERT_OK_AND_ASSIGN(const Self two, Self::Get());
  EXPECT_EQ(one.id, two.id);
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const Self three, Self::Get());
    EXPECT_NE(one.id, three.id);
  }));
}

}  // namespace
}  // namespace tenon
