// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/unix_socket.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

std::pair<UniqueFd, UniqueFd> Pair(int type) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Sends `text` with a descriptor, if there is one. False on errors.
bool SendPacket(int socket, absl::string_view text, std::optional<int> fd) {
  iovec bytes = {const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (fd.has_value()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &*fd, sizeof(int));
  }
  return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

TEST(UnixSocketTest, TellsUnixSocketsOfATypeFromTheRest) {
  const auto [stream, peer] = Pair(SOCK_STREAM);
  EXPECT_THAT(CheckIsUnixSocket(stream.get(), SOCK_STREAM, "it"), IsOk());
  const auto is_not = [](absl::string_view what) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    testing::HasSubstr(std::string(what)));
  };
  EXPECT_THAT(CheckIsUnixSocket(stream.get(), SOCK_SEQPACKET, "it"),
              is_not("it is not a SOCK_SEQPACKET socket"));
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  EXPECT_THAT(CheckIsUnixSocket(event.get(), SOCK_STREAM, "it"),
              is_not("it is not a socket"));
  const UniqueFd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_THAT(CheckIsUnixSocket(tcp.get(), SOCK_STREAM, "it"),
              is_not("it is not an AF_UNIX socket"));
  EXPECT_THAT(CheckIsUnixSocket(-1, SOCK_STREAM, "it"),
              is_not("it is not open"));
}

TEST(UnixSocketTest, TellsWhichAreConnected) {
  const auto check = [](const UniqueFd& fd) {
    return CheckIsConnectedUnixSocket(fd.get(), SOCK_SEQPACKET, "it");
  };
  const auto is_not = [](absl::string_view what) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    testing::HasSubstr(std::string(what)));
  };
  auto [one, other] = Pair(SOCK_SEQPACKET);
  EXPECT_THAT(check(one), IsOk());
  EXPECT_THAT(CheckIsConnectedUnixSocket(one.get(), SOCK_STREAM, "it"),
              is_not("it is not a SOCK_STREAM socket"));
  other.Reset();
  EXPECT_THAT(check(one), IsOk()) << "there may be something to receive";
  const UniqueFd alone(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_THAT(check(alone), is_not("it is not connected"));
  const sockaddr_un any = {.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_EQ(bind(alone.get(), reinterpret_cast<const sockaddr*>(&any),
                 sizeof(any.sun_family)),
            0);
  ASSERT_EQ(listen(alone.get(), 1), 0);
  EXPECT_THAT(check(alone), is_not("it listens for connections"));
}

TEST(UnixSocketTest, CookieIsOfTheSocketAndNotOfTheDescriptor) {
  const auto [one, other] = Pair(SOCK_SEQPACKET);
  TENON_ASSERT_OK_AND_ASSIGN(const uint64_t cookie, SocketCookie(one.get()));
  EXPECT_THAT(SocketCookie(other.get()), IsOkAndHolds(testing::Ne(cookie)));
  const UniqueFd copy(fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
  EXPECT_THAT(SocketCookie(copy.get()), IsOkAndHolds(cookie));
  EXPECT_THAT(SocketCookie(UniqueFd(eventfd(0, EFD_CLOEXEC)).get()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(StaysEmptyTest, WhenNothingIsThereAndNothingCanCome) {
  auto [end, peer] = Pair(SOCK_STREAM);
  EXPECT_FALSE(StaysEmpty(end.get()));
  ASSERT_EQ(shutdown(peer.get(), SHUT_WR), 0);
  EXPECT_TRUE(StaysEmpty(end.get()));
  EXPECT_FALSE(StaysEmpty(peer.get()));
  EXPECT_TRUE(SendPacket(end.get(), "x", std::nullopt)) << "nothing changed";
  end.Reset();
  EXPECT_FALSE(StaysEmpty(peer.get())) << "there is something to read";
  char byte = 0;
  EXPECT_EQ(recv(peer.get(), &byte, 1, 0), 1);
  EXPECT_TRUE(StaysEmpty(peer.get()));
}

// Out-of-band data that were read leave their descriptors in the queue.
TEST(StaysEmptyTest, FindsOutOfBandDataThatWereRead) {
  utsname kernel = {};
  ASSERT_EQ(uname(&kernel), 0);
  int major = 0, minor = 0;
  ASSERT_EQ(std::sscanf(kernel.release, "%d.%d", &major, &minor), 2);
  if (std::pair(major, minor) < std::pair(6, 12)) {
    GTEST_SKIP() << "this kernel does not tell";
  }
  auto [end, peer] = Pair(SOCK_STREAM);
  ASSERT_EQ(send(peer.get(), "x", 1, MSG_OOB), 1);
  char byte = 0;
  ASSERT_EQ(recv(end.get(), &byte, 1, MSG_OOB), 1);
  peer.Reset();
  EXPECT_FALSE(StaysEmpty(end.get()));
}

// A packet of no bytes may have descriptors.
TEST(StaysEmptyTest, IsNotSureOfAnythingElse) {
  auto [end, peer] = Pair(SOCK_SEQPACKET);
  peer.Reset();
  EXPECT_FALSE(StaysEmpty(end.get()));
  EXPECT_FALSE(StaysEmpty(UniqueFd(eventfd(0, EFD_CLOEXEC)).get()));
  EXPECT_FALSE(StaysEmpty(-1));
}

class ShutTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Types, ShutTest,
                         testing::Values(SOCK_STREAM, SOCK_SEQPACKET));

TEST_P(ShutTest, NothingCanBePutInAfterwards) {
  const auto [end, peer] = Pair(GetParam());
  EXPECT_TRUE(ShutAndCheckEmpty(end.get()));
  EXPECT_FALSE(SendPacket(peer.get(), "x", std::nullopt));
  EXPECT_TRUE(ShutAndCheckEmpty(end.get()));
}

TEST_P(ShutTest, FindsWhatLiesThere) {
  const auto [end, peer] = Pair(GetParam());
  ASSERT_TRUE(SendPacket(peer.get(), "x", end.get()));
  EXPECT_FALSE(ShutAndCheckEmpty(end.get()));
}

TEST_P(ShutTest, FindsItAlsoBehindAHangUp) {
  auto [end, peer] = Pair(GetParam());
  ASSERT_TRUE(SendPacket(peer.get(), "x", std::nullopt));
  peer.Reset();
  EXPECT_FALSE(ShutAndCheckEmpty(end.get()));
}

TEST(ShutPacketsTest, FindsPacketsOfNoBytes) {
  const auto [end, peer] = Pair(SOCK_SEQPACKET);
  ASSERT_TRUE(SendPacket(peer.get(), "", std::nullopt));
  ASSERT_TRUE(SendPacket(peer.get(), "", peer.get()));
  EXPECT_FALSE(ShutAndCheckEmpty(end.get()));
}

// The kernel reports that once, before it reports the end.
TEST_P(ShutTest, PeerThatEndsWithSomethingUnreadLeavesNothing) {
  auto [end, peer] = Pair(GetParam());
  ASSERT_TRUE(SendPacket(end.get(), "x", std::nullopt));
  peer.Reset();
  EXPECT_TRUE(ShutAndCheckEmpty(end.get()));
}

TEST(ShutOthersTest, IsNotSureOfAnythingElse) {
  EXPECT_FALSE(ShutAndCheckEmpty(UniqueFd(eventfd(0, EFD_CLOEXEC)).get()));
  const UniqueFd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(ShutAndCheckEmpty(tcp.get()));
  const UniqueFd listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  // The kernel chooses a name.
  ASSERT_EQ(bind(listening.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address.sun_family)),
            0);
  ASSERT_EQ(listen(listening.get(), 1), 0);
  EXPECT_FALSE(ShutAndCheckEmpty(listening.get()));
}

}  // namespace
}  // namespace tenon
