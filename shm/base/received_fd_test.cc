// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/received_fd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

UniqueFd Memory() { return UniqueFd(memfd_create("test", MFD_CLOEXEC)); }

std::pair<UniqueFd, UniqueFd> Pipe() {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A socket whose close() blocks for up to a minute: its peer does not read, and
// it lingers, as long as `peer` is open.
UniqueFd LingeringSocket(UniqueFd& peer) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int small = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), any, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), any, &size) != 0) {
    return UniqueFd();
  }
  UniqueFd end(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(end.get(), any, size) != 0) return UniqueFd();
  peer = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const linger wait = {.l_onoff = 1, .l_linger = 60};
  setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof(wait));
  const std::vector<char> bytes(1 << 16);
  while (send(end.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
  return end;
}

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

testing::AssertionResult ClosesSoon(int fd) {
  const Deadline deadline = Deadline::After(absl::Seconds(20));
  while (IsOpen(fd)) {
    if (deadline.has_passed()) return testing::AssertionFailure() << "open";
    absl::SleepFor(absl::Milliseconds(1));
  }
  return testing::AssertionSuccess();
}

TEST(ReceivedFdTest, KindsThatCloseAtOnce) {
  EXPECT_TRUE(ClosesAtOnce(Memory().get()));
  EXPECT_TRUE(ClosesAtOnce(Pipe().first.get()));
  EXPECT_TRUE(ClosesAtOnce(UniqueFd(eventfd(0, EFD_CLOEXEC)).get()));
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd self, PidFd::Open(getpid()));
  EXPECT_TRUE(ClosesAtOnce(self.fd()));
  char name[] = "/dev/shm/tenon-test-XXXXXX";
  const UniqueFd shm(mkstemp(name));
  if (shm.valid()) {
    EXPECT_TRUE(ClosesAtOnce(shm.get()));
    unlink(name);
  }
}

TEST(ReceivedFdTest, KindsThatMayKeepOneWaiting) {
  UniqueFd peer;
  const UniqueFd lingering = LingeringSocket(peer);
  ASSERT_TRUE(lingering.valid());
  EXPECT_FALSE(ClosesAtOnce(lingering.get()));
  peer.Reset();  // Then this one does not block either.
  EXPECT_FALSE(ClosesAtOnce(
      UniqueFd(open("/proc/self/status", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_FALSE(ClosesAtOnce(UniqueFd(socket(AF_UNIX, SOCK_STREAM, 0)).get()));
  EXPECT_FALSE(ClosesAtOnce(UniqueFd(epoll_create1(EPOLL_CLOEXEC)).get()));
  EXPECT_FALSE(ClosesAtOnce(-1));
}

// No name of a file makes it look like another type.
TEST(ReceivedFdTest, AFileNamedLikeAnEventFd) {
  std::string directory = testing::TempDir() + "/tenon-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/anon_inode:[eventfd]";
  const UniqueFd file(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  // Unless it is in memory, which has seals.
  if (fcntl(file.get(), F_GET_SEALS) < 0) {
    EXPECT_FALSE(ClosesAtOnce(file.get()));
  }
  unlink(path.c_str());
  rmdir(directory.c_str());
}

TEST(ReceivedFdTest, SaysWhatADescriptorIs) {
  EXPECT_EQ(DescribeFd(Memory().get()), "memory");
  EXPECT_THAT(DescribeFd(Pipe().first.get()), StartsWith("pipe:["));
  EXPECT_EQ(DescribeFd(-1), "unknown");
  const std::string odd =
      testing::TempDir() + "/a\nb\033c" + std::string(200, 'x');
  const UniqueFd file(open(odd.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  unlink(odd.c_str());
  const std::string text = DescribeFd(file.get());
  EXPECT_LE(text.size(), 100u);
  if (text != "memory") {
    EXPECT_THAT(text, HasSubstr("/"));
    EXPECT_FALSE(absl::StrContains(text, "\n"));
    EXPECT_FALSE(absl::StrContains(text, "\033"));
  }
}

TEST(ReceivedFdTest, ClosesMemoryHereAndNow) {
  UniqueFd memory = Memory();
  const int number = memory.get();
  CloseReceived(std::move(memory));
  EXPECT_FALSE(IsOpen(number));
  CloseReceived(UniqueFd());
}

TEST(ReceivedFdTest, ClosesASocketThatStaysEmptyHereAndOthersSoon) {
  for (const bool full : {false, true}) {
    for (const bool has_peer : {false, true}) {
      int ends[2] = {-1, -1};
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      UniqueFd peer(ends[1]);
      if (full) {
        ASSERT_EQ(send(peer.get(), "x", 1, 0), 1);
      }
      if (!has_peer) peer.Reset();
      CloseReceived(UniqueFd(ends[0]));
      if (!full && !has_peer) {
        EXPECT_FALSE(IsOpen(ends[0]));
      }
      EXPECT_TRUE(ClosesSoon(ends[0]));
    }
  }
}

// A socket is one object for all of its holders.
TEST(ReceivedFdTest, ASocketStaysAsItIsForItsOtherHolders) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd end(ends[0]), peer(ends[1]);
    for (const int holder : ends) {
      UniqueFd received(fcntl(holder, F_DUPFD_CLOEXEC, 0));
      const int number = received.get();
      CloseReceived(std::move(received));
      ASSERT_TRUE(ClosesSoon(number));
    }
    for (const auto& [from, to] :
         {std::pair(&end, &peer), std::pair(&peer, &end)}) {
      EXPECT_EQ(send(from->get(), "x", 1, MSG_NOSIGNAL), 1);
      char byte = 0;
      EXPECT_EQ(recv(to->get(), &byte, 1, MSG_DONTWAIT), 1);
      int passes_credentials = 1;
      socklen_t size = sizeof(passes_credentials);
      ASSERT_EQ(getsockopt(to->get(), SOL_SOCKET, SO_PASSCRED,
                           &passes_credentials, &size),
                0);
      EXPECT_EQ(passes_credentials, 0);
    }
  }
}

// The last holder of a socket also closes the unread descriptors in it.
TEST(ReceivedFdTest, WhatLingersInASocketKeepsNobodyWaiting) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd sender(ends[1]);
  UniqueFd lingering_peer;
  {
    const UniqueFd lingering = LingeringSocket(lingering_peer);
    ASSERT_TRUE(lingering.valid());
    char byte = 'x';
    iovec bytes = {&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = lingering.get();
    memcpy(CMSG_DATA(header), &number, sizeof(number));
    ASSERT_EQ(sendmsg(sender.get(), &message, 0), 1);
  }
  CloseReceived(UniqueFd(ends[0]));
  EXPECT_TRUE(ClosesSoon(ends[0]));
  EXPECT_EQ(CountUnclosed(), 1u);
  lingering_peer.Reset();
  EXPECT_TRUE(Becomes([] { return CountUnclosed() == 0; }));
}

TEST(ReceivedFdTest, ClosesAnyOtherSocketSoon) {
  UniqueFd end(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int number = end.get();
  CloseReceived(std::move(end));
  EXPECT_TRUE(ClosesSoon(number));
}

// More of them than there are threads: some are still open when the call
// returns, so it waited for none. When their peers are closed, all are closed.
TEST(ReceivedFdTest, WhatLingersKeepsNobodyWaiting) {
  constexpr size_t kCount = 9;
  constexpr ptrdiff_t kThreads = 4;
  std::vector<UniqueFd> peers(kCount);
  std::vector<UniqueFd> ends;
  std::vector<int> numbers;
  for (UniqueFd& peer : peers) {
    ends.push_back(LingeringSocket(peer));
    ASSERT_TRUE(ends.back().valid());
    numbers.push_back(ends.back().get());
  }
  { ReceivedFds received(std::move(ends)); }
  EXPECT_GE(std::count_if(numbers.begin(), numbers.end(), IsOpen),
            ptrdiff_t{kCount} - kThreads);
  EXPECT_GE(CountUnclosed(), kCount - static_cast<size_t>(kThreads));
  peers.clear();
  for (int number : numbers) EXPECT_TRUE(ClosesSoon(number));
  EXPECT_TRUE(Becomes([] { return CountUnclosed() == 0; }));
}

TEST(ReceivedFdTest, AForkedChildBeginsAnew) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a child of threads that starts one";
#endif
  UniqueFd peer;
  CloseReceived(LingeringSocket(peer));  // A thread of the parent waits.
  const auto begins_anew = [] {
    UniqueFd end(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int number = end.get();
    CloseReceived(std::move(end));
    EXPECT_TRUE(ClosesSoon(number));
  };
  EXPECT_TRUE(PassesInChild(begins_anew, /*may_have_threads=*/true));
}

}  // namespace
}  // namespace tenon
