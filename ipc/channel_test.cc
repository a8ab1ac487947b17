// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a channel does between peers that keep to the rules. Those that do not:
// channel_hostile_test.cc. Limits of the system: channel_limits_test.cc. What
// can become a channel: channel_adopt_test.cc.

#include "tenon/ipc/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
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
#include "tenon/ipc/channel_testing.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/process_testing.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::StatusCode kDeadlineExceeded =
    absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kInvalidArgument =
    absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// Both ends, and that in the end every descriptor is closed.
class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fds_before_ = CountOpenFds();
    TENON_ASSERT_OK_AND_ASSIGN(auto pair, Channel::CreatePair());
    a_.emplace(std::move(pair.first));
    b_.emplace(std::move(pair.second));
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  Channel& a() { return *a_; }
  Channel& b() { return *b_; }
  void CloseB() { b_.reset(); }

  // Sends numbered messages from a to b until no more goes in.
  int Fill() {
    int sent = 0;
    while (a().Send(absl::StrCat(sent), {}, Deadline::Passed()).ok()) ++sent;
    return sent;
  }

  void ExpectUsable() {
    EXPECT_THAT(a().Send("there", {}, Watchdog()), IsOk());
    EXPECT_THAT(b().Receive(Watchdog()), IsMessage("there"));
    EXPECT_THAT(b().Send("back", {}, Watchdog()), IsOk());
    EXPECT_THAT(a().Receive(Watchdog()), IsMessage("back"));
  }

 private:
  size_t fds_before_ = 0;
  std::optional<Channel> a_, b_;
};

// ---- What arrives ----

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
  // The end of the pipe: nobody, and no message, has the other side any more.
  char c;
  EXPECT_EQ(read(read_end.get(), &c, 1), 0);
}

// ---- Waiting ----

TEST_F(ChannelTest, ReceiveWaitsUntilItsDeadline) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(b().Receive(Deadline::After(absl::Milliseconds(50))),
              StatusIs(kDeadlineExceeded, HasSubstr("sent nothing")));
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(50));
  ExpectUsable();
}

TEST_F(ChannelTest, PassedDeadlineMeansTryOnce) {
  EXPECT_THAT(b().Receive(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(a().Send("x", {}, Deadline::Passed()), IsOk());
  EXPECT_THAT(b().Receive(Deadline::Passed()), IsMessage("x"));
}

TEST_F(ChannelTest, NeverNeedNotWaitForWhatIsThere) {
  EXPECT_THAT(a().Send("x", {}, Deadline::Never()), IsOk());
  EXPECT_THAT(b().Receive(Deadline::Never()), IsMessage("x"));
}

TEST_F(ChannelTest, SendWaitsUntilItsDeadlineIfThePeerDoesNotRead) {
  const int sent = Fill();
  ASSERT_GT(sent, 1);
  const UniqueFd file = FileWith("x");
  const int fd = file.get();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(
      a().Send("too much", {&fd, 1}, Deadline::After(absl::Milliseconds(50))),
      StatusIs(kDeadlineExceeded, HasSubstr("does not read")));
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(50));
  // What was sent is there, what was refused is not.
  for (int i = 0; i < sent; ++i) {
    ASSERT_THAT(b().Receive(Deadline::Passed()), IsMessage(absl::StrCat(i)));
  }
  EXPECT_THAT(b().Receive(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  ExpectUsable();
}

TEST_F(ChannelTest, BlockedSendGoesOnWhenThePeerReads) {
  const int sent = Fill();
  std::thread reader([&] {
    for (int i = 0; i < sent; ++i) {
      EXPECT_THAT(b().Receive(Watchdog()), IsMessage(absl::StrCat(i)));
    }
    EXPECT_THAT(b().Receive(Watchdog()), IsMessage("one more"));
  });
  EXPECT_THAT(a().Send("one more", {}, Watchdog()), IsOk());
  reader.join();
}

TEST_F(ChannelTest, BlockedReceiveGoesOnWhenThePeerSends) {
  std::thread reader(
      [&] { EXPECT_THAT(b().Receive(Watchdog()), IsMessage("x")); });
  EXPECT_THAT(a().Send("x", {}, Watchdog()), IsOk());
  reader.join();
}

TEST_F(ChannelTest, ReadableInPollWhenReceiveWouldNotWait) {
  pollfd fd = {.fd = b().fd(), .events = POLLIN, .revents = 0};
  EXPECT_THAT(PollUntil(&fd, 1, Deadline::Passed()), IsOkAndHolds(0));
  ASSERT_THAT(a().Send("", {}, Watchdog()), IsOk());
  EXPECT_THAT(PollUntil(&fd, 1, Watchdog()), IsOkAndHolds(1));
  EXPECT_THAT(b().Receive(Deadline::Passed()), IsMessage(""));
  EXPECT_THAT(PollUntil(&fd, 1, Deadline::Passed()), IsOkAndHolds(0));
}

// Interrupts this process every 100 us while it lives.
class SignalStorm {
 public:
  SignalStorm() {
    count = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { count.fetch_add(1); };
    sigaction(SIGALRM, &action, &old_action_);
    const itimerval often = {.it_interval = {.tv_usec = 100},
                             .it_value = {.tv_usec = 100}};
    setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~SignalStorm() {
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &old_action_, nullptr);
  }

  static inline std::atomic<int> count = 0;

 private:
  struct sigaction old_action_;
};

TEST_F(ChannelTest, SignalsNeitherEndNorProlongAWait) {
  const int sent = Fill();
  SignalStorm storm;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(a().Send("x", {}, Deadline::After(absl::Milliseconds(100))),
              StatusIs(kDeadlineExceeded));
  EXPECT_THAT(a().Receive(Deadline::After(absl::Milliseconds(100))),
              StatusIs(kDeadlineExceeded));
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(200));
  for (int i = 0; i < sent; ++i) {
    ASSERT_THAT(b().Receive(Watchdog()), IsMessage(absl::StrCat(i)));
  }
  EXPECT_GT(SignalStorm::count, 10);
}

TEST_F(ChannelTest, SignalsDoNotDisturbTraffic) {
  SignalStorm storm;
  std::thread echo([&] {
    for (absl::StatusOr<Message> message = b().Receive(Watchdog());
         message.ok() && !message->bytes.empty();
         message = b().Receive(Watchdog())) {
      EXPECT_THAT(b().Send(message->bytes, {}, Watchdog()), IsOk());
    }
  });
  for (int i = 0; SignalStorm::count < 1000; ++i) {
    const std::string bytes = absl::StrCat(i);
    EXPECT_THAT(a().Send(bytes, {}, Watchdog()), IsOk());
    EXPECT_THAT(a().Receive(Watchdog()), IsMessage(bytes));
    if (HasFailure()) break;
  }
  EXPECT_THAT(a().Send("", {}, Watchdog()), IsOk());
  echo.join();
}

// ---- The peer goes ----

TEST_F(ChannelTest, WhatTheGonePeerSentIsReceivedFirst) {
  ASSERT_THAT(b().Send("1", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Send("2", {}, Watchdog()), IsOk());
  CloseB();
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("1"));
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("2"));
  EXPECT_THAT(a().Receive(Watchdog()),
              StatusIs(kUnavailable, HasSubstr("the peer has closed its end")));
  EXPECT_THAT(a().Receive(Deadline::Passed()), StatusIs(kUnavailable));
}

// The kernel then reports a reset connection before it gives what is there.
TEST_F(ChannelTest, WhatAPeerSentThatLeftMessagesUnreadIsReceivedFirst) {
  ASSERT_THAT(a().Send("unread", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Send("1", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Send("2", {}, Watchdog()), IsOk());
  CloseB();
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("1"));
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("2"));
  EXPECT_THAT(a().Receive(Watchdog()), StatusIs(kUnavailable));
}

TEST_F(ChannelTest, SendToAGonePeerIsUnavailableAndReceiveGoesOn) {
  ASSERT_THAT(a().Send("unread", {}, Watchdog()), IsOk());
  ASSERT_THAT(b().Send("1", {}, Watchdog()), IsOk());
  CloseB();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(
        a().Send("x", {}, Watchdog()),
        StatusIs(kUnavailable, HasSubstr("the peer has closed its end")));
  }
  EXPECT_THAT(a().Receive(Watchdog()), IsMessage("1"));
  EXPECT_THAT(a().Receive(Watchdog()), StatusIs(kUnavailable));
}

TEST_F(ChannelTest, SendToAGonePeerRaisesNoSigpipe) {
  CloseB();
  EXPECT_TRUE(PassesInChild([&] {
    // A parent that ignores it must not make this pass.
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

// ---- What is refused ----

TEST_F(ChannelTest, TooManyDescriptorsAreRefusedByNameAndNotSent) {
  const UniqueFd file = FileWith("x");
  const std::vector<int> fds(Channel::kMaxFds + 1, file.get());
  EXPECT_THAT(a().Send("", fds, Watchdog()),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("254 descriptors"),
                             HasSubstr("most 253"), HasSubstr("SCM_MAX_FD"))));
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

TEST_F(ChannelTest, MovedChannelGoesOn) {
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
