// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Connecting processes that are silent, send noise, or flood; a listener at the
// limit of its descriptors; and a stranger in place of the listener.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <optional>
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
#include "tenon/ipc/listener/listener.h"
#include "tenon/ipc/listener/socket_address.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using absl::StatusCode::kDataLoss;
using absl::StatusCode::kDeadlineExceeded;
using absl::StatusCode::kPermissionDenied;
using absl::StatusCode::kResourceExhausted;

// A silent connection; invalid if the queue is full.
UniqueFd ConnectSilently(const std::string& name) {
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(name);
  EXPECT_THAT(address, IsOk());
  UniqueFd fd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(fd.get(), address->get(), address->size) != 0) fd.Reset();
  return fd;
}

// 0 while it runs.
pid_t TryToReap(pid_t child) {
  int status = 0;
  return waitpid(child, &status, WNOHANG);
}

bool IsClosedByPeer(const UniqueFd& fd) {
  char c;
  return recv(fd.get(), &c, 1, MSG_DONTWAIT) == 0;
}

TEST(ListenerHostileTest, SilentOnesAreDroppedTheOldestFirst) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Listener listener,
      Listener::CreateAbstract("tenon", {.max_unfinished = 4}));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 10; ++i) {
    silent.push_back(ConnectSilently(listener.name()));
    ASSERT_TRUE(silent.back().valid());
  }
  EXPECT_THAT(listener.Accept(Deadline::Passed()),
              StatusIs(kDeadlineExceeded,
                       HasSubstr("4 connections have not identified")));
  EXPECT_EQ(listener.counts().unfinished, 4u);
  EXPECT_EQ(listener.counts().dropped, 6u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(IsClosedByPeer(silent[i]), i < 6) << i;
  }
}

TEST(ListenerHostileTest, PatienceEnds) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Listener listener,
      Listener::CreateAbstract("tenon",
                               {.handshake_patience = absl::Milliseconds(20)}));
  const UniqueFd silent = ConnectSilently(listener.name());
  EXPECT_THAT(listener.Accept(Deadline::After(absl::Milliseconds(200))),
              StatusIs(kDeadlineExceeded));
  EXPECT_EQ(listener.counts().unfinished, 0u);
  EXPECT_EQ(listener.counts().dropped, 1u);
  EXPECT_TRUE(IsClosedByPeer(silent));
}

// 10,000 silent connections, with honest ones among them all the time.
TEST(ListenerHostileTest, SilentFloodKeepsNoClientOut) {
  constexpr int kFlood = 10'000, kHonest = 200;
  const size_t fds_before = CountOpenFds();
  {
    TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Listener::CreateAbstract());
    std::atomic<bool> stop = false;
    const pid_t flood = StartChild([name = listener.name()] {
      std::vector<UniqueFd> silent(200);
      for (int i = 0; i < kFlood;) {
        UniqueFd fd = ConnectSilently(name);
        if (!fd.valid()) {
          usleep(100);  // The queue is full; honest processes wait there, too.
          continue;
        }
        silent[i++ % silent.size()] = std::move(fd);
      }
    });
    std::thread honest([&, name = listener.name()] {
      for (int i = 0; i < kHonest; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(Channel channel, Connect(name, Watchdog()));
        ASSERT_THAT(channel.Receive(Watchdog()), IsMessage("welcome"));
      }
      stop = true;
    });
    int accepted = 0;
    const Deadline deadline = Watchdog();
    while (accepted < kHonest && !deadline.has_passed()) {
      TENON_ASSERT_OK_AND_ASSIGN(Channel channel, listener.Accept(deadline));
      // A client that gave up because it was late has connected again.
      if (channel.Send("welcome", {}, Watchdog()).ok()) ++accepted;
    }
    honest.join();
    EXPECT_TRUE(stop);
    // The other silent connections.
    pid_t ended = 0;
    while (ended == 0 && !deadline.has_passed()) {
      EXPECT_FALSE(
          listener.Accept(Deadline::After(absl::Milliseconds(5))).ok());
      ended = TryToReap(flood);
    }
    EXPECT_EQ(ended, flood);
    EXPECT_LE(listener.counts().unfinished, 64u);
    EXPECT_GT(listener.counts().dropped, 5'000u);
  }
  EXPECT_EQ(CountOpenFds(), fds_before);
}

TEST(ListenerHostileTest, NoiseIsRefusedAndCounted) {
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Listener::CreateAbstract());
  const UniqueFd file = FileWith("x");
  std::vector<UniqueFd> noisy;
  const std::string noise[] = {"x", std::string(50'000, 'x'),
                               GoodFrame("good, but no hello"), "y"};
  for (const std::string& bytes : noise) {
    noisy.push_back(ConnectSilently(listener.name()));
    ASSERT_TRUE(
        SendRaw(noisy.back().get(), bytes, std::vector<int>(20, file.get())));
  }
  const size_t fds_before = CountOpenFds();
  std::thread client([name = listener.name()] {
    EXPECT_THAT(Connect(name, Watchdog()), IsOk());
  });
  EXPECT_THAT(listener.Accept(Watchdog()), IsOk());
  client.join();
  EXPECT_EQ(listener.counts().refused, 4u);
  EXPECT_EQ(CountOpenFds(), fds_before);
  // They receive the reason.
  for (const UniqueFd& fd : noisy) {
    char c[1000];
    ssize_t size = recv(fd.get(), c, sizeof(c), MSG_DONTWAIT);
    if (size < 0) size = recv(fd.get(), c, sizeof(c), MSG_DONTWAIT);
    EXPECT_GT(size, 0);
  }
}

TEST(ListenerHostileTest, AnotherServerIsDataLoss) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string name, MakeAbstractName("tenon"));
  TENON_ASSERT_OK_AND_ASSIGN(const SocketAddress address,
                             SocketAddress::Parse(name));
  const UniqueFd fake(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(fake.get(), address.get(), address.size), 0);
  ASSERT_EQ(listen(fake.get(), 1), 0);
  std::thread client(
      [&] { EXPECT_THAT(Connect(name, Watchdog()), StatusIs(kDataLoss)); });
  const UniqueFd accepted(accept4(fake.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(SendRaw(accepted.get(), "who are you?"));
  client.join();
}

// Another user has the name first, or a process of another user connects.
TEST(ListenerHostileTest, AnotherUserIsRefusedBothWays) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Listener::CreateAbstract());
  const uid_t own = geteuid();
  const auto names_both = [own] {
    return StatusIs(kPermissionDenied,
                    AllOf(HasSubstr(absl::StrCat("user ", kNobody)),
                          HasSubstr(absl::StrCat("user ", own))));
  };
  const pid_t child = StartChild([&, name = listener.name()] {
    ASSERT_TRUE(BecomeAnotherUser());
    // This end refuses; otherwise the other end would.
    EXPECT_THAT(Connect(name, Watchdog()), names_both());
    EXPECT_THAT(Connect(name, Watchdog(), {.allow_other_users = true}),
                names_both());
  });
  EXPECT_THAT(listener.Accept(Deadline::After(absl::Seconds(1))),
              StatusIs(kDeadlineExceeded));
  EXPECT_EQ(ExitCodeOf(child), 0);
  EXPECT_GE(listener.counts().refused, 1u);
}

// ---- At the limit of descriptors ----

// Connects, and retries while the listener lacks descriptors for it.
bool ConnectsInTheEnd(const std::string& name) {
  const auto told = StatusIs(
      kResourceExhausted,
      AllOf(HasSubstr("refused by the peer"), HasSubstr("RLIMIT_NOFILE")));
  for (;;) {
    const absl::StatusOr<Channel> channel = Connect(name, Watchdog());
    if (channel.ok()) return true;
    EXPECT_THAT(channel, told);
    if (!absl::IsResourceExhausted(channel.status())) return false;
  }
}

// The body of a child: a client waits while `free` descriptors can be opened.
void AcceptWithFreeFds(size_t free) {
  TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Listener::CreateAbstract());
  const pid_t client = StartChild(
      [name = listener.name()] { EXPECT_TRUE(ConnectsInTheEnd(name)); });
  std::optional<FewFds> few(free);
  const absl::StatusOr<Channel> none = listener.Accept(Watchdog());
  few.reset();
  EXPECT_THAT(none, StatusIs(kResourceExhausted, HasSubstr("RLIMIT_NOFILE")));
  EXPECT_THAT(listener.Accept(Watchdog()), IsOk());
  EXPECT_EQ(ExitCodeOf(client), 0);
}

TEST(ListenerHostileTest, AcceptAtTheLimitOfDescriptors) {
  for (const size_t free : {0, 1, 2}) {
    EXPECT_TRUE(PassesInChild([=] { AcceptWithFreeFds(free); })) << free;
  }
}

// Silent connections hold all descriptors: the oldest are dropped.
TEST(ListenerHostileTest, SilentOnesAreDroppedForWantOfDescriptors) {
  EXPECT_TRUE(PassesInChild([] {
    TENON_ASSERT_OK_AND_ASSIGN(
        Listener listener,
        Listener::CreateAbstract("tenon", {.max_unfinished = 1000}));
    const pid_t flood = StartChild([name = listener.name()] {
      std::vector<UniqueFd> silent;
      for (int i = 0; i < 100; ++i) silent.push_back(ConnectSilently(name));
      EXPECT_TRUE(ConnectsInTheEnd(name));
    });
    const FewFds few(50);
    absl::StatusOr<Channel> channel = listener.Accept(Watchdog());
    for (int i = 0; i < 100 && !channel.ok(); ++i) {
      channel = listener.Accept(Watchdog());
    }
    EXPECT_THAT(channel, IsOk());
    EXPECT_GT(listener.counts().dropped, 30u);
    EXPECT_EQ(ExitCodeOf(flood), 0);
  }));
}

}  // namespace
}  // namespace tenon
