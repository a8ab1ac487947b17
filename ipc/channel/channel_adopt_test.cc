// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Sockets that can become a channel, and the handling of all others.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

using absl::StatusCode::kInvalidArgument;

TEST(ChannelAdoptTest, AdoptsEitherEnd) {
  auto [one, two] = SocketPair();
  TENON_ASSERT_OK_AND_ASSIGN(Channel a, Channel::Adopt(std::move(one)));
  TENON_ASSERT_OK_AND_ASSIGN(Channel b, Channel::Adopt(std::move(two)));
  EXPECT_THAT(a.Send("x", {}, Watchdog()), IsOk());
  EXPECT_THAT(b.Receive(Watchdog()), IsMessage("x"));
}

TEST(ChannelAdoptTest, InheritedSocketBecomesCloseOnExec) {
  auto [one, two] = SocketPair();
  ASSERT_EQ(fcntl(one.get(), F_SETFD, 0), 0);
  TENON_ASSERT_OK_AND_ASSIGN(const Channel a, Channel::Adopt(std::move(one)));
  EXPECT_TRUE(IsCloseOnExec(a.fd()));
}

TEST(ChannelAdoptTest, AReleasedSocketIsTakenBackInAForkToo) {
  TENON_ASSERT_OK_AND_ASSIGN(auto pair, Channel::CreatePair());
  UniqueFd socket = pair.second.Release();
  EXPECT_TRUE(PassesInChild([&] {
    Channel own = Channel::AdoptReleased(std::move(socket));
    ASSERT_THAT(own.Send("from the child", {}, Watchdog()), IsOk());
  }));
  TENON_ASSERT_OK_AND_ASSIGN(const Message message,
                             pair.first.Receive(Watchdog()));
  EXPECT_EQ(message.bytes, "from the child");
  const Channel back = Channel::AdoptReleased(std::move(socket));
  EXPECT_EQ(fcntl(back.fd(), F_GETFD), FD_CLOEXEC) << "as it was";
}

TEST(ChannelAdoptTest, FormerOwnersOptionsDoNotMatter) {
  auto [one, two] = SocketPair();
  const int on = 1;
  ASSERT_EQ(setsockopt(one.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
  ASSERT_EQ(fcntl(one.get(), F_SETFL, O_NONBLOCK), 0);
  TENON_ASSERT_OK_AND_ASSIGN(Channel a, Channel::Adopt(std::move(one)));
  TENON_ASSERT_OK_AND_ASSIGN(Channel b, Channel::Adopt(std::move(two)));
  EXPECT_THAT(b.Send("x", {}, Watchdog()), IsOk());
  EXPECT_THAT(a.Receive(Watchdog()), IsMessage("x"));
  EXPECT_THAT(a.Receive(Deadline::After(absl::Milliseconds(1))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(ChannelAdoptTest, WhatAGonePeerSentCanStillBeReceived) {
  auto [one, two] = SocketPair();
  ASSERT_TRUE(SendRaw(two.get(), GoodFrame("x")));
  two.Reset();
  TENON_ASSERT_OK_AND_ASSIGN(Channel a, Channel::Adopt(std::move(one)));
  EXPECT_THAT(a.Receive(Watchdog()), IsMessage("x"));
  EXPECT_THAT(a.Receive(Watchdog()), StatusIs(absl::StatusCode::kUnavailable));
}

// Connected by connect(), not by socketpair().
TEST(ChannelAdoptTest, AdoptsAConnectionAndItsAcceptedEnd) {
  UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  // Just the family: the kernel picks an unused abstract name.
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(sa_family_t)),
            0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size),
      0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  UniqueFd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), size),
            0);
  UniqueFd server(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  TENON_ASSERT_OK_AND_ASSIGN(Channel a, Channel::Adopt(std::move(client)));
  TENON_ASSERT_OK_AND_ASSIGN(Channel b, Channel::Adopt(std::move(server)));
  EXPECT_THAT(a.Send("x", {}, Watchdog()), IsOk());
  EXPECT_THAT(b.Receive(Watchdog()), IsMessage("x"));
  EXPECT_THAT(Channel::Adopt(std::move(listener)),
              StatusIs(kInvalidArgument, HasSubstr("listens")));
}

TEST(ChannelAdoptTest, RefusesAnythingElse) {
  const size_t fds_before = CountOpenFds();
  int stream[2], datagram[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagram), 0);
  const UniqueFd other_ends[] = {UniqueFd(stream[1]), UniqueFd(datagram[1])};
  const struct {
    int fd;
    const char* why;
  } kCases[] = {
      {-1, "is not open"},
      {1 << 30, "is not open"},
      {FileWith("x").Release(), "is not a socket"},
      {stream[0], "is not a SOCK_SEQPACKET"},
      {datagram[0], "is not a SOCK_SEQPACKET"},
      {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "is not an AF_UNIX"},
      {socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "is not connected"},
  };
  for (const auto& test_case : kCases) {
    EXPECT_THAT(Channel::Adopt(UniqueFd(test_case.fd)),
                StatusIs(kInvalidArgument, HasSubstr(test_case.why)));
  }
  // All of them closed, except the other ends.
  EXPECT_EQ(CountOpenFds(), fds_before + 2);
}

}  // namespace
}  // namespace tenon
