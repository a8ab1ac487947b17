// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Channels between honest peers. Deadlines: channel_deadline_test.cc. Hostile
// peers: channel_hostile_test.cc. Limits of the system: channel_limits_test.cc.
// Sockets that can become a channel: channel_adopt_test.cc.

#include "tenon/ipc/channel/channel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel_pair_testing.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using absl::StatusCode::kDeadlineExceeded;
using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kOutOfRange;
using absl::StatusCode::kUnavailable;

// ---- Received messages ----

TEST(ChannelCreatePairTest, EndsAreCloseOnExec) {
  TENON_ASSERT_OK_AND_ASSIGN(auto pair, Channel::CreatePair());
  EXPECT_TRUE(IsCloseOnExec(pair.first.fd()));
  EXPECT_TRUE(IsCloseOnExec(pair.second.fd()));
}

struct Load {
  std::string name;
  size_t bytes;
  size_t fds;
};

class ChannelRoundTripTest : public ChannelTest,
                             public ::testing::WithParamInterface<Load> {};

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 131 / 7);
  return bytes;
}

TEST_P(ChannelRoundTripTest, BytesAndDescriptorsArrive) {
  const std::string bytes = Bytes(GetParam().bytes);
  std::vector<UniqueFd> files;
  std::vector<int> fds;
  for (size_t i = 0; i < GetParam().fds; ++i) {
    files.push_back(FileWith(absl::StrCat("file ", i)));
    fds.push_back(files.back().get());
  }
  for (auto [from, to] : {std::pair(&a(), &b()), std::pair(&b(), &a())}) {
    ASSERT_THAT(from->Send(bytes, fds, Watchdog()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Message message, to->Receive(Watchdog()));
    EXPECT_TRUE(message.bytes == bytes);
    ASSERT_THAT(message.fds, SizeIs(fds.size()));
    for (size_t i = 0; i < fds.size(); ++i) {
      EXPECT_NE(message.fds[i].get(), fds[i]);
      EXPECT_EQ(ContentOf(message.fds[i].get()), absl::StrCat("file ", i));
      EXPECT_TRUE(IsCloseOnExec(message.fds[i].get()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Loads, ChannelRoundTripTest,
    ::testing::Values(Load{"Nothing", 0, 0}, Load{"OneByte", 1, 0},
                      Load{"MaxBytes", Channel::kMaxBytes, 0},
                      Load{"OneFd", 0, 1}, Load{"MaxFds", 0, Channel::kMaxFds},
                      Load{"MaxOfBoth", Channel::kMaxBytes, Channel::kMaxFds}),
    [](const auto& test) { return test.param.name; });

TEST_F(ChannelTest, MessagesKeepTheirOrderAndBounds) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(a().Send(std::string(i, 'x'), {}, Watchdog()), IsOk());
    ASSERT_THAT(b().Send(std::string(i, 'y'), {}, Watchdog()), IsOk());
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(b().Receive(Watchdog()), IsMessage(std::string(i, 'x')));
    EXPECT_THAT(a().Receive(Watchdog()), IsMessage(std::string(i, 'y')));
  }
}

TEST_F(ChannelTest, SentDescriptorsStayTheSenders) {
  const UniqueFd file = FileWith("x");
  const int fd = file.get();
  ASSERT_THAT(a().Send("", {&fd, 1}, Watchdog()), IsOk());
  EXPECT_EQ(ContentOf(fd), "x");
  TENON_ASSERT_OK_AND_ASSIGN(Message message, b().Receive(Watchdog()));
  message.fds.clear();
  EXPECT_EQ(ContentOf(fd), "x");
}

TEST_F(ChannelTest, SameDescriptorTwiceArrivesAsTwo) {
  const UniqueFd file = FileWith("x");
  const std::vector<int> twice(2, file.get());
  ASSERT_THAT(a().Send("", twice, Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Message message, b().Receive(Watchdog()));
  ASSERT_THAT(message.fds, SizeIs(2));
  EXPECT_NE(message.fds[0].get(), message.fds[1].get());
}

TEST_F(ChannelTest, ChannelsTravelWhereSocketsAreAllowed) {
  TENON_ASSERT_OK_AND_ASSIGN(auto carrier,
                             Channel::CreatePair({.allow_sockets = true}));
  TENON_ASSERT_OK_AND_ASSIGN(auto pair, Channel::CreatePair());
  const UniqueFd end = pair.second.Release();
  const int fd = end.get();
  ASSERT_THAT(carrier.first.Send("an end", {&fd, 1}, Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Message message,
                             carrier.second.Receive(Watchdog()));
  ASSERT_THAT(message.fds, SizeIs(1));
  TENON_ASSERT_OK_AND_ASSIGN(Channel channel,
                             Channel::Adopt(std::move(message.fds[0])));
  EXPECT_THAT(pair.first.Send("x", {}, Watchdog()), IsOk());
  EXPECT_THAT(channel.Receive(Watchdog()), IsMessage("x"));
}

TEST_F(ChannelTest, DescriptorSurvivesItsSender) {
  const UniqueFd socket = b().Release();
  const pid_t child = StartChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel,
                               Channel::Adopt(UniqueFd(dup(socket.get()))));
    const UniqueFd file = FileWith("from the dead");
    const int fd = file.get();
    ASSERT_THAT(channel.Send("will", {&fd, 1}, Watchdog()), IsOk());
    kill(getpid(), SIGKILL);
  });
  ASSERT_EQ(ExitCodeOf(child), 128 + SIGKILL);
  TENON_ASSERT_OK_AND_ASSIGN(const Message message, a().Receive(Watchdog()));
  EXPECT_EQ(message.bytes, "will");
  ASSERT_THAT(message.fds, SizeIs(1));
  EXPECT_EQ(ContentOf(message.fds[0].get()), "from the dead");
}

TEST_F(ChannelTest, UnreadDescriptorsAreClosedWithTheChannel) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  UniqueFd read_end(pipe_ends[0]), write_end(pipe_ends[1]);
  const int fd = write_end.get();
  ASSERT_THAT(a().Send("", {&fd, 1}, Watchdog()), IsOk());
  write_end.Reset();
  CloseB();
  // The end of the pipe: no process, and no message, has the other end any
  // more.
  char c;
  EXPECT_EQ(read(read_end.get(), &c, 1), 0);
}

// ---- The peer goes ----

TEST_F(ChannelTest, WhatTheGonePeerSentIsReceivedFirst) {
  ASSERT_THAT(b().Send("1", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Send("2", {}, Watchdog()), IsOk());
  CloseB();
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("1"));
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("2"));
  EXPECT_THAT(a().Receive(Watchdog()),
              StatusIs(kUnavailable, HasSubstr("the peer has died")));
  EXPECT_THAT(a().Receive(Deadline::Passed()), StatusIs(kUnavailable));
}

// ---- Close() ----

TEST_F(ChannelTest, TheEndComesAfterWhatWasSent) {
  ASSERT_THAT(b().Send("1", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Close(Watchdog()), IsOk());
  ASSERT_THAT(b().Close(Watchdog()), IsOk());
  EXPECT_THAT(b().Send("2", {}, Watchdog()), StatusIs(kFailedPrecondition));
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("1"));
  EXPECT_THAT(a().Receive(Watchdog()),
              StatusIs(kOutOfRange, HasSubstr("the peer has closed it")));
  // The other direction is open.
  ASSERT_THAT(a().Send("3", {}, Watchdog()), IsOk());
  EXPECT_THAT(b().Receive(Watchdog()), IsMessage("3"));
  CloseB();
  EXPECT_THAT(a().Receive(Watchdog()), StatusIs(kOutOfRange));
}

TEST_F(ChannelTest, CloseWaitsForRoomAndCanBeRepeated) {
  const int sent = Fill();
  EXPECT_THAT(a().Close(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  for (int i = 0; i < sent; ++i) {
    ASSERT_THAT(b().Receive(Watchdog()), IsMessage(absl::StrCat(i)));
  }
  ASSERT_THAT(a().Close(Watchdog()), IsOk());
  EXPECT_THAT(b().Receive(Watchdog()), StatusIs(kOutOfRange));
}

TEST_F(ChannelTest, APeerThatIsKilledAfterCloseHasEnded) {
  UniqueFd socket = b().Release();
  const pid_t child = StartChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel,
                               Channel::Adopt(std::move(socket)));
    ASSERT_THAT(channel.Close(Watchdog()), IsOk());
    raise(SIGKILL);
  });
  socket.Reset();
  EXPECT_EQ(ExitCodeOf(child), 128 + SIGKILL);
  EXPECT_THAT(a().Receive(Watchdog()), StatusIs(kOutOfRange));
  EXPECT_THAT(a().Close(Watchdog()), StatusIs(kUnavailable));
}

// The kernel then reports a reset connection before it returns the data.
TEST_F(ChannelTest, WhatAPeerSentThatLeftMessagesUnreadIsReceivedFirst) {
  ASSERT_THAT(a().Send("unread", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Send("1", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Send("2", {}, Watchdog()), IsOk());
  CloseB();
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("1"));
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("2"));
  EXPECT_THAT(a().Receive(Watchdog()), StatusIs(kUnavailable));
}

TEST_F(ChannelTest, SendToAGonePeerIsUnavailableAndReceiveWorks) {
  ASSERT_THAT(a().Send("unread", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Send("1", {}, Watchdog()), IsOk());
  CloseB();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(a().Send("x", {}, Watchdog()),
                StatusIs(kUnavailable, HasSubstr("the peer has died")));
  }
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("1"));
  EXPECT_THAT(a().Receive(Watchdog()), StatusIs(kUnavailable));
}

TEST_F(ChannelTest, SendToAGonePeerRaisesNoSigpipe) {
  CloseB();
  EXPECT_TRUE(PassesInChild([&] {
    // A parent that ignores the signal must not make this pass.
    signal(SIGPIPE, SIG_DFL);
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel, Channel::Adopt(a().Release()));
    EXPECT_THAT(channel.Send("x", {}, Watchdog()), StatusIs(kUnavailable));
  }));
}

TEST_F(ChannelTest, BlockedReceiveEndsWhenThePeerGoes) {
  std::thread reader(
      [&] { EXPECT_THAT(a().Receive(Watchdog()), StatusIs(kUnavailable)); });
  CloseB();
  reader.join();
}

TEST_F(ChannelTest, BlockedSendEndsWhenThePeerGoes) {
  Fill();
  std::thread sender([&] {
    EXPECT_THAT(a().Send("x", {}, Watchdog()), StatusIs(kUnavailable));
  });
  CloseB();
  sender.join();
}

TEST_F(ChannelTest, KilledPeerIsGone) {
  UniqueFd socket = b().Release();
  const pid_t child = StartChild([] { pause(); });
  socket.Reset();
  EXPECT_THAT(a().Receive(Deadline::After(absl::Milliseconds(20))),
              StatusIs(kDeadlineExceeded));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  EXPECT_THAT(a().Receive(Watchdog()), StatusIs(kUnavailable));
  EXPECT_THAT(a().Send("x", {}, Watchdog()), StatusIs(kUnavailable));
  EXPECT_EQ(ExitCodeOf(child), 128 + SIGKILL);
}

// ---- Refused messages ----

TEST_F(ChannelTest, TooManyDescriptorsAreRefusedByNameAndNotSent) {
  const UniqueFd file = FileWith("x");
  const std::vector<int> fds(Channel::kMaxFds + 1, file.get());
  EXPECT_THAT(a().Send("", fds, Watchdog()),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("254 descriptors"),
                                               HasSubstr("limit of 253"),
                                               HasSubstr("SCM_MAX_FD"))));
  EXPECT_THAT(b().Receive(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  ExpectUsable();
}

TEST_F(ChannelTest, DescriptorThatIsNotOpenIsRefusedByNumberAndNotSent) {
  const UniqueFd file = FileWith("x");
  for (const int bad : {-1, 1 << 30}) {
    const int fds[] = {file.get(), bad, file.get()};
    EXPECT_THAT(
        a().Send("", fds, Watchdog()),
        StatusIs(kInvalidArgument, AllOf(HasSubstr("descriptor 2 of 3"),
                                         HasSubstr(absl::StrCat(bad)))));
    EXPECT_THAT(b().Receive(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  }
  ExpectUsable();
}

TEST_F(ChannelTest, FrameBeyondTheSendBufferIsRefused) {
  const int small = 4096;
  ASSERT_EQ(setsockopt(a().fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
            0);
  EXPECT_THAT(a().Send(std::string(Channel::kMaxBytes, 'x'), {}, Watchdog()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("65552 bytes"), HasSubstr("SO_SNDBUF"),
                             HasSubstr("net.core.wmem_default"))));
  ExpectUsable();
}

TEST_F(ChannelTest, InertInAForkedChild) {
  ASSERT_THAT(b().Send("for the parent", {}, Watchdog()), IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    const auto is_inert = StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("channel was inherited by fork"));
    EXPECT_THAT(a().Send("x", {}, Watchdog()), is_inert);
    EXPECT_THAT(a().Receive(Watchdog()), is_inert);
    Channel moved = std::move(a());
    EXPECT_THAT(moved.Receive(Watchdog()), is_inert);
  }));
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("for the parent"));
  ExpectUsable();
}

TEST_F(ChannelTest, ForkedChildMayAdoptWhatItInherited) {
  const UniqueFd socket = b().Release();
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel,
                               Channel::Adopt(UniqueFd(dup(socket.get()))));
    EXPECT_THAT(channel.Send("from the child", {}, Watchdog()), IsOk());
  }));
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("from the child"));
}

TEST_F(ChannelTest, MovedChannelWorks) {
  Channel moved = std::move(a());
  EXPECT_THAT(moved.Send("x", {}, Watchdog()), IsOk());
  EXPECT_THAT(b().Receive(Watchdog()), IsMessage("x"));
  a() = std::move(moved);
  ExpectUsable();
}

using ChannelDeathTest = ChannelTest;

TEST_F(ChannelDeathTest, UsedAfterRelease) {
  const UniqueFd socket = a().Release();
  EXPECT_TRUE(socket.valid());
  EXPECT_EQ(a().fd(), -1);
  EXPECT_DEATH(a().Send("x", {}, Watchdog()).IgnoreError(),
               "Channel used after it was moved from or released");
  EXPECT_DEATH(a().Receive(Watchdog()).IgnoreError(),
               "Channel used after it was moved from or released");
}

}  // namespace
}  // namespace tenon
