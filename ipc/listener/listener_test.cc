// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Listeners and honest clients. All others: listener_hostile_test.cc.

#include "tenon/ipc/listener/listener.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/ipc/listener/socket_address.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

using absl::StatusCode::kAlreadyExists;
using absl::StatusCode::kDeadlineExceeded;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kNotFound;
using absl::StatusCode::kPermissionDenied;
using absl::StatusCode::kUnavailable;

// A directory of its own, of mode 0700, removed with its contents.
class TempDirectory {
 public:
  TempDirectory() {
    char name[] = "/tmp/tenon_listener_XXXXXX";
    const char* made = mkdtemp(name);
    EXPECT_NE(made, nullptr);
    path_ = made;
  }
  ~TempDirectory() {
    unlink(File().c_str());
    EXPECT_EQ(rmdir(path_.c_str()), 0) << "something was left in it";
  }
  const std::string& path() const { return path_; }
  std::string File() const { return path_ + "/socket"; }

 private:
  std::string path_;
};

bool Exists(const std::string& path) {
  struct stat file;
  return lstat(path.c_str(), &file) == 0;
}

// Listens, as systemd does for a service.
UniqueFd ListeningSocket(const std::string& address, int type) {
  UniqueFd listening(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const auto parsed = SocketAddress::Parse(address);
  EXPECT_THAT(parsed, IsOk());
  EXPECT_EQ(bind(listening.get(), parsed->get(), parsed->size), 0);
  EXPECT_EQ(listen(listening.get(), 8), 0);
  return listening;
}

// Both kinds of address.
class ListenerTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { fds_before_ = CountOpenFds(); }
  void TearDown() override { EXPECT_EQ(CountOpenFds(), fds_before_); }

  absl::StatusOr<Listener> Create(const ListenerOptions& options = {}) {
    return GetParam() ? Listener::CreateAtPath(directory_.File(), options)
                      : Listener::CreateAbstract("tenon", options);
  }

 private:
  TempDirectory directory_;
  size_t fds_before_ = 0;
};

TEST_P(ListenerTest, ConnectsTwoProcesses) {
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Create());
  const pid_t listens = getpid();
  const pid_t child = StartChild([&, name = listener.name()] {
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel, Connect(name, Watchdog()));
    ASSERT_NE(channel.peer(), nullptr);
    EXPECT_EQ(channel.peer()->pid, listens);
    EXPECT_EQ(channel.peer()->uid, geteuid());
    ASSERT_TRUE(channel.peer()->pid_fd.has_value());
    EXPECT_FALSE(channel.peer()->pid_fd->HasEnded());
    EXPECT_THAT(channel.Send("hello", {}, Watchdog()), IsOk());
    EXPECT_THAT(channel.Receive(Watchdog()), IsMessage("go"));
  });
  {
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel, listener.Accept(Watchdog()));
    EXPECT_THAT(channel.Receive(Watchdog()), IsMessage("hello"));
    ASSERT_NE(channel.peer(), nullptr);
    EXPECT_EQ(channel.peer()->pid, child);
    ASSERT_TRUE(channel.peer()->pid_fd.has_value());
    EXPECT_TRUE(IsCloseOnExec(channel.fd()));
    EXPECT_TRUE(IsCloseOnExec(listener.fd()));
    EXPECT_THAT(channel.Send("go", {}, Watchdog()), IsOk());
    EXPECT_THAT(channel.peer()->pid_fd->WaitForEnd(Watchdog()), IsOk());
  }
  EXPECT_EQ(ExitCodeOf(child), 0);
  EXPECT_EQ(listener.counts().accepted, 1u);
  EXPECT_EQ(listener.counts().unfinished, 0u);
}

TEST_P(ListenerTest, ManyConnectAtOnce) {
  constexpr int kProcesses = 8, kEach = 20;
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Create());
  std::set<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.insert(StartChild([&, name = listener.name()] {
      for (int k = 0; k < kEach; ++k) {
        TENON_ASSERT_OK_AND_ASSIGN(Channel channel, Connect(name, Watchdog()));
        ASSERT_THAT(channel.Send(absl::StrCat(getpid()), {}, Watchdog()),
                    IsOk());
        ASSERT_THAT(channel.Receive(Watchdog()), IsMessage("seen"));
      }
    }));
  }
  for (int i = 0; i < kProcesses * kEach; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel, listener.Accept(Watchdog()));
    // The peer is the process that connected.
    EXPECT_EQ(children.count(channel.peer()->pid), 1u);
    EXPECT_THAT(channel.Receive(Watchdog()),
                IsMessage(absl::StrCat(channel.peer()->pid)));
    EXPECT_THAT(channel.Send("seen", {}, Watchdog()), IsOk());
  }
  for (const pid_t child : children) EXPECT_EQ(ExitCodeOf(child), 0);
}

TEST_P(ListenerTest, AcceptWaitsUntilItsDeadline) {
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Create());
  EXPECT_THAT(listener.Accept(Deadline::After(absl::Milliseconds(20))),
              StatusIs(kDeadlineExceeded, HasSubstr(listener.name())));
  EXPECT_THAT(listener.Accept(Deadline::Passed()), StatusIs(kDeadlineExceeded));
}

TEST_P(ListenerTest, ConnectWaitsUntilItsDeadline) {
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Create());
  EXPECT_THAT(
      Connect(listener.name(), Deadline::After(absl::Milliseconds(20))),
      StatusIs(kDeadlineExceeded, HasSubstr("has not accepted before")));
  // The client is gone when it is accepted.
  EXPECT_THAT(listener.Accept(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  EXPECT_EQ(listener.counts().dropped, 1u);
}

TEST_P(ListenerTest, DescriptorIsReadableWhenAProcessConnects) {
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Create());
  pollfd fd = {.fd = listener.fd(), .events = POLLIN, .revents = 0};
  EXPECT_THAT(PollUntil({&fd, 1}, Deadline::Passed()), IsOkAndHolds(0));
  std::thread client([name = listener.name()] {
    EXPECT_THAT(Connect(name, Watchdog()), IsOk());
  });
  std::optional<Channel> channel;
  while (!channel && !HasFailure()) {
    EXPECT_THAT(PollUntil({&fd, 1}, Watchdog()), IsOkAndHolds(1));
    absl::StatusOr<Channel> accepted = listener.Accept(Deadline::Passed());
    if (accepted.ok()) channel = *std::move(accepted);
  }
  client.join();
  EXPECT_THAT(PollUntil({&fd, 1}, Deadline::Passed()), IsOkAndHolds(0));
}

TEST_P(ListenerTest, TheListenerIsGone) {
  std::string name;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Listener listener, Create());
    name = listener.name();
  }
  EXPECT_THAT(
      Connect(name, Watchdog()),
      StatusIs(GetParam() ? kNotFound : kUnavailable, HasSubstr("connect")));
}

TEST_P(ListenerTest, AWaiterIsToldThatTheListenerIsGone) {
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Listener> listener, Create());
  std::thread client([name = listener->name()] {
    EXPECT_THAT(Connect(name, Watchdog()).status(),
                StatusIs(GetParam() ? kNotFound : kUnavailable));
  });
  pollfd fd = {.fd = listener->fd(), .events = POLLIN, .revents = 0};
  EXPECT_THAT(PollUntil({&fd, 1}, Watchdog()), IsOkAndHolds(1));
  listener.reset();
  client.join();
}

TEST_P(ListenerTest, OptionsReachTheChannels) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Listener listener, Create({.channel = {.max_message_bytes = 100'000}}));
  std::thread client([name = listener.name()] {
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel, Connect(name, Watchdog()));
    EXPECT_THAT(channel.Send(std::string(100'001, 'x'), {}, Watchdog()),
                IsOk());
  });
  TENON_ASSERT_OK_AND_ASSIGN(Channel channel, listener.Accept(Watchdog()));
  EXPECT_THAT(channel.Receive(Watchdog()),
              StatusIs(absl::StatusCode::kResourceExhausted));
  client.join();
}

TEST_P(ListenerTest, BadOptionsAreRefused) {
  EXPECT_THAT(Create({.max_unfinished = 0}), StatusIs(kInvalidArgument));
  EXPECT_THAT(Create({.handshake_patience = absl::ZeroDuration()}),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(Create({.channel = {.max_fds_in_flight = 0}}),
              StatusIs(kInvalidArgument));
}

TEST_P(ListenerTest, InertInAForkedChild) {
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Create());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(listener.Accept(Deadline::Passed()),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("inherited by fork")));
    const Listener gone = std::move(listener);
  }));
  std::thread client([name = listener.name()] {
    EXPECT_THAT(Connect(name, Watchdog()), IsOk());
  });
  EXPECT_THAT(listener.Accept(Watchdog()), IsOk());
  client.join();
}

INSTANTIATE_TEST_SUITE_P(Addresses, ListenerTest, ::testing::Bool(),
                         [](const auto& test) {
                           return test.param ? "Path" : "Abstract";
                         });

TEST(ListenerNameTest, AbstractNamesAreRandom) {
  TENON_ASSERT_OK_AND_ASSIGN(const Listener one,
                             Listener::CreateAbstract("camera"));
  TENON_ASSERT_OK_AND_ASSIGN(const Listener two,
                             Listener::CreateAbstract("camera"));
  EXPECT_THAT(one.name(), MatchesRegex("@camera-[0-9a-f]{32}"));
  EXPECT_NE(one.name(), two.name());
  EXPECT_THAT(Listener::CreateAbstract("a/b").status(),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(Listener::CreateAbstract(std::string(100, 'x')).status(),
              StatusIs(kInvalidArgument, HasSubstr("at most 107")));
}

TEST(ListenerNameTest, BadAddressesAreRefused) {
  for (const std::string& bad :
       {std::string(), std::string("@"), std::string("/"),
        std::string("relative"), "/" + std::string(107, 'x'),
        std::string("@a\0b", 4)}) {
    EXPECT_THAT(Connect(bad, Watchdog()).status(), StatusIs(kInvalidArgument))
        << bad;
    EXPECT_THAT(Listener::CreateAtPath(bad).status(),
                StatusIs(kInvalidArgument))
        << bad;
  }
  EXPECT_THAT(Listener::CreateAtPath("/tmp/").status(),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(Listener::CreateAtPath("@abstract").status(),
              StatusIs(kInvalidArgument));
}

// ---- Paths ----

// The kernel vouches to those in the queue for this process, which made it.
TEST(ListenerAdoptTest, VouchesForTheAdopterAlsoToThoseInTheQueue) {
  const TempDirectory directory;
  for (const std::string& name :
       {directory.File(), absl::StrCat("@", directory.File())}) {
    UniqueFd listening = ListeningSocket(name, SOCK_SEQPACKET);
    const pid_t client = StartChild([&] {
      TENON_ASSERT_OK_AND_ASSIGN(Channel channel, Connect(name, Watchdog()));
      TENON_ASSERT_OK_AND_ASSIGN(const Message said,
                                 channel.Receive(Watchdog()));
      EXPECT_EQ(absl::StrCat(channel.peer()->pid), said.bytes);
    });
    pollfd fd = {.fd = listening.get(), .events = POLLIN, .revents = 0};
    EXPECT_THAT(PollUntil({&fd, 1}, Watchdog()), IsOkAndHolds(1));
    const pid_t server = StartChild([&] {
      TENON_ASSERT_OK_AND_ASSIGN(Listener listener,
                                 Listener::Adopt(std::move(listening)));
      EXPECT_EQ(listener.name(), name);
      TENON_ASSERT_OK_AND_ASSIGN(Channel channel, listener.Accept(Watchdog()));
      EXPECT_THAT(channel.Send(absl::StrCat(getpid()), {}, Watchdog()), IsOk());
    });
    EXPECT_EQ(ExitCodeOf(server), 0);
    EXPECT_EQ(ExitCodeOf(client), 0);
  }
  EXPECT_TRUE(Exists(directory.File())) << "it belongs to its maker";
}

// The queue may be longer than that of a listener of its own; none of it may be
// accepted later, with the maker's credentials.
TEST(ListenerAdoptTest, ClosesTheWholeQueue) {
  constexpr int kQueued = 600;
  const TempDirectory directory;
  UniqueFd listening = ListeningSocket(directory.File(), SOCK_SEQPACKET);
  ASSERT_EQ(listen(listening.get(), kQueued), 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = directory.File();
  std::memcpy(address.sun_path, path.data(), path.size());
  std::vector<UniqueFd> queued;
  for (int i = 0; i < kQueued; ++i) {
    UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    queued.push_back(std::move(fd));
  }
  absl::Status refused;  // Matchers use descriptors under UBSan.
  {
    const FewFds few;
    refused = Listener::Adopt(UniqueFd(dup(listening.get()))).status();
  }
  EXPECT_THAT(refused, Not(IsOk()));
  TENON_ASSERT_OK_AND_ASSIGN(const Listener listener,
                             Listener::Adopt(std::move(listening)));
  for (const UniqueFd& fd : queued) {
    pollfd poll_fd = {.fd = fd.get(), .events = POLLIN, .revents = 0};
    EXPECT_THAT(PollUntil({&poll_fd, 1}, Deadline::Passed()), IsOkAndHolds(1));
  }
}

TEST(ListenerAdoptTest, HasAPathOfTheGreatestLength) {
  const TempDirectory directory;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string path = directory.File();
  path.resize(sizeof(address.sun_path), 'p');  // Without a zero byte.
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(socket.get(), 8), 0);
  TENON_ASSERT_OK_AND_ASSIGN(const Listener listener,
                             Listener::Adopt(std::move(socket)));
  EXPECT_EQ(listener.name(), path);
  EXPECT_EQ(unlink(path.c_str()), 0);
}

TEST(ListenerAdoptTest, RefusesWhatDoesNotListen) {
  const TempDirectory directory;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd other(ends[1]);
  EXPECT_THAT(Listener::Adopt(UniqueFd(ends[0])),
              StatusIs(kInvalidArgument, HasSubstr("not a listening socket")));
  EXPECT_THAT(Listener::Adopt(ListeningSocket(directory.File(), SOCK_STREAM)),
              StatusIs(kInvalidArgument, HasSubstr("ListenSequentialPacket")));
  EXPECT_THAT(Listener::Adopt(UniqueFd()), StatusIs(kInvalidArgument));
  EXPECT_THAT(Listener::Adopt(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC))),
              StatusIs(kInvalidArgument));
}

TEST(ListenerPathTest, FileIsRemovedWithTheListener) {
  const TempDirectory directory;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Listener listener,
                               Listener::CreateAtPath(directory.File()));
    EXPECT_EQ(listener.name(), directory.File());
    EXPECT_TRUE(Exists(directory.File()));
  }
  EXPECT_FALSE(Exists(directory.File()));
}

TEST(ListenerPathTest, FileOfADeadListenerIsReplaced) {
  const TempDirectory directory;
  EXPECT_EQ(ExitCodeOf(StartChild([&] {
              TENON_ASSERT_OK_AND_ASSIGN(
                  const Listener listener,
                  Listener::CreateAtPath(directory.File()));
              kill(getpid(), SIGKILL);
            })),
            128 + SIGKILL);
  EXPECT_TRUE(Exists(directory.File()));
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener,
                             Listener::CreateAtPath(directory.File()));
  std::thread client(
      [&] { EXPECT_THAT(Connect(directory.File(), Watchdog()), IsOk()); });
  EXPECT_THAT(listener.Accept(Watchdog()), IsOk());
  client.join();
}

TEST(ListenerPathTest, LiveListenerIsNotReplaced) {
  const TempDirectory directory;
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener,
                             Listener::CreateAtPath(directory.File()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Listener::CreateAtPath(directory.File()).status(),
                StatusIs(kAlreadyExists, HasSubstr("another process listens")));
  }
  std::thread client(
      [&] { EXPECT_THAT(Connect(directory.File(), Watchdog()), IsOk()); });
  EXPECT_THAT(listener.Accept(Watchdog()), IsOk());
  client.join();
}

TEST(ListenerPathTest, AnothersFileIsNotRemoved) {
  const TempDirectory directory;
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Listener> first,
                             Listener::CreateAtPath(directory.File()));
  ASSERT_EQ(unlink(directory.File().c_str()), 0);
  TENON_ASSERT_OK_AND_ASSIGN(Listener second,
                             Listener::CreateAtPath(directory.File()));
  first.reset();
  EXPECT_TRUE(Exists(directory.File()));
}

TEST(ListenerPathTest, AFileThatIsNotASocketIsLeftAlone) {
  const TempDirectory directory;
  const UniqueFd file(
      open(directory.File().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_THAT(Listener::CreateAtPath(directory.File()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is not a socket")));
  EXPECT_TRUE(Exists(directory.File()));
  // Nor is the target of a symbolic link.
  ASSERT_EQ(unlink(directory.File().c_str()), 0);
  ASSERT_EQ(symlink("/tmp/somewhere", directory.File().c_str()), 0);
  EXPECT_THAT(Listener::CreateAtPath(directory.File()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ListenerPathTest, DirectoryMustBeOnesOwnAlone) {
  const TempDirectory directory;
  for (const mode_t mode : {0701, 0710, 0770, 01777}) {
    ASSERT_EQ(chmod(directory.path().c_str(), mode), 0);
    EXPECT_THAT(Listener::CreateAtPath(directory.File()).status(),
                StatusIs(kPermissionDenied, HasSubstr("has mode")));
  }
  ASSERT_EQ(chmod(directory.path().c_str(), 0700), 0);
  if (geteuid() == 0 && chown(directory.path().c_str(), kNobody, -1) == 0) {
    EXPECT_THAT(
        Listener::CreateAtPath(directory.File()).status(),
        StatusIs(kPermissionDenied,
                 AllOf(HasSubstr(absl::StrCat(kNobody)), HasSubstr("user 0"))));
    ASSERT_EQ(chown(directory.path().c_str(), 0, -1), 0);
  }
  const std::string link = directory.path() + "_link";
  ASSERT_EQ(symlink(directory.path().c_str(), link.c_str()), 0);
  EXPECT_FALSE(Listener::CreateAtPath(link + "/socket").ok());
  ASSERT_EQ(unlink(link.c_str()), 0);
  EXPECT_THAT(Listener::CreateAtPath(directory.path() + "/no/socket").status(),
              StatusIs(kNotFound));
  EXPECT_FALSE(Exists(directory.File()));
}

// Many replace a dead listener's file at once: exactly one succeeds.
TEST(ListenerPathTest, OneOfManyReplacesADeadOne) {
  const TempDirectory directory;
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(ExitCodeOf(StartChild([&] {
                TENON_ASSERT_OK_AND_ASSIGN(
                    const Listener listener,
                    Listener::CreateAtPath(directory.File()));
                kill(getpid(), SIGKILL);
              })),
              128 + SIGKILL);
    constexpr int kMany = 6, kWon = 10, kLost = 11;
    int gate[2];
    ASSERT_EQ(pipe2(gate, O_CLOEXEC), 0);
    UniqueFd read_end(gate[0]), write_end(gate[1]);
    std::set<pid_t> children;
    for (int i = 0; i < kMany; ++i) {
      children.insert(StartChild([&] {
        auto listener = Listener::CreateAtPath(directory.File());
        write_end.Reset();
        // Until all have tried.
        char c;
        EXPECT_EQ(read(read_end.get(), &c, 1), 0);
        if (listener.ok()) {
          _exit(kWon);
        }
        EXPECT_THAT(listener.status(), StatusIs(kAlreadyExists));
        _exit(::testing::Test::HasFailure() ? 1 : kLost);
      }));
    }
    write_end.Reset();
    int won = 0;
    for (const pid_t child : children) {
      const int code = ExitCodeOf(child);
      EXPECT_TRUE(code == kWon || code == kLost) << code;
      won += code == kWon ? 1 : 0;
    }
    EXPECT_EQ(won, 1);
  }
}

}  // namespace
}  // namespace tenon
