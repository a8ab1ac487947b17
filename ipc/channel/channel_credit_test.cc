// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The number of descriptors that a channel allows in flight, and how it learns
// that they have been received.

#include <linux/sockios.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/channel/fds_in_flight.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using absl::StatusCode::kResourceExhausted;
constexpr size_t kLimit = 8;

// Two ends that may each have kLimit descriptors in flight.
class ChannelCreditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fds_before_ = CountOpenFds();
    TENON_ASSERT_OK_AND_ASSIGN(
        auto pair, Channel::CreatePair({.max_fds_in_flight = kLimit}));
    a_.emplace(std::move(pair.first));
    b_.emplace(std::move(pair.second));
    file_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    file_.Reset();
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  Channel& a() { return *a_; }
  Channel& b() { return *b_; }
  void CloseB() { b_.reset(); }

  absl::Status Send(Channel& from, size_t fds, Deadline deadline,
                    const std::string& bytes = "") {
    return from.Send(bytes, std::vector<int>(fds, file_.get()), deadline);
  }
  void Fill(Channel& from) {
    for (size_t i = 0; i < kLimit; ++i) {
      ASSERT_THAT(Send(from, 1, Deadline::Passed()), IsOk());
    }
  }
  void Drain(Channel& to, size_t messages) {
    for (size_t i = 0; i < messages; ++i) {
      ASSERT_THAT(to.Receive(Watchdog()), IsOk());
    }
  }

 private:
  size_t fds_before_ = 0;
  std::optional<Channel> a_, b_;
  UniqueFd file_;
};

auto IsTooMany() {
  return StatusIs(kResourceExhausted,
                  AllOf(HasSubstr("8 descriptors are in flight in 8 messages"),
                        HasSubstr("max_fds_in_flight")));
}

// FdsInFlight relies on this: an unread datagram costs at least this much, and
// a read one almost nothing.
TEST(FdsInFlightTest, TheKernelCountsAtLeastTheCost) {
  auto [one, two] = SocketPair();
  for (size_t size = 16; size <= 65552; size += size < 20'000 ? 13 : 997) {
    ASSERT_TRUE(SendRaw(one.get(), std::string(size, 'x')));
    int unread = 0;
    ASSERT_EQ(ioctl(one.get(), SIOCOUTQ, &unread), 0);
    ASSERT_GE(static_cast<uint64_t>(unread), FdsInFlight::Cost(size)) << size;
    std::string bytes(size, '\0');
    ASSERT_EQ(recv(two.get(), bytes.data(), size, 0),
              static_cast<ssize_t>(size));
    ASSERT_EQ(ioctl(one.get(), SIOCOUTQ, &unread), 0);
    ASSERT_LT(static_cast<uint64_t>(unread), FdsInFlight::Cost(0));
  }
}

TEST_F(ChannelCreditTest, NoMoreThanTheLimitAreInFlight) {
  Fill(a());
  EXPECT_THAT(Send(a(), 1, Deadline::Passed()), IsTooMany());
  EXPECT_THAT(Send(a(), 1, Deadline::After(absl::Milliseconds(30))),
              IsTooMany());
  // Bytes need no credit, and the other direction has its own.
  EXPECT_THAT(Send(a(), 0, Deadline::Passed(), "bytes"), IsOk());
  Fill(b());
  EXPECT_THAT(Send(b(), 1, Deadline::Passed()), IsTooMany());
  // The refused message was not sent.
  Drain(b(), kLimit);
  EXPECT_THAT(b().Receive(Watchdog()), IsMessage("bytes"));
  EXPECT_THAT(b().Receive(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(ChannelCreditTest, ReceivingReturnsCredit) {
  for (int round = 0; round < 100; ++round) {
    Fill(a());
    EXPECT_THAT(Send(a(), 1, Deadline::Passed()), IsTooMany());
    Drain(b(), kLimit);
  }
}

// Messages without descriptors follow: credit must not wait for them.
TEST_F(ChannelCreditTest, UnreadBytesBehindHoldNoCreditBack) {
  Fill(a());
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(Send(a(), 0, Deadline::Passed(), std::string(1000, 'x')),
                IsOk());
  }
  Drain(b(), kLimit);
  Fill(a());
}

// A receiver that is always some messages behind.
TEST_F(ChannelCreditTest, CreditReturnsToALaggingReceiver) {
  constexpr int kBehind = 6;
  for (int i = 0; i < 500; ++i) {
    ASSERT_THAT(Send(a(), 1, Deadline::Passed(), std::string(i, 'x')), IsOk());
    ASSERT_THAT(Send(a(), 0, Deadline::Passed(), std::string(i, 'y')), IsOk());
    if (i >= kBehind) Drain(b(), 2);
  }
}

TEST_F(ChannelCreditTest, OneMessageOfAllTheLimit) {
  ASSERT_THAT(Send(a(), kLimit, Deadline::Passed()), IsOk());
  EXPECT_THAT(Send(a(), kLimit, Deadline::Passed()),
              StatusIs(kResourceExhausted));
  Drain(b(), 1);
  EXPECT_THAT(Send(a(), kLimit, Deadline::Passed()), IsOk());
  EXPECT_THAT(Send(a(), kLimit + 1, Deadline::Passed()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("9 descriptors"),
                             HasSubstr("max_fds_in_flight"))));
}

TEST_F(ChannelCreditTest, BlockedSendContinuesWhenThePeerReads) {
  for (int round = 0; round < 200; ++round) {
    Fill(a());
    std::thread reader([&] { Drain(b(), kLimit + 1); });
    EXPECT_THAT(Send(a(), 1, Watchdog()), IsOk());
    reader.join();
  }
}

// Both only send, and then both receive: neither blocks, no message is lost.
TEST_F(ChannelCreditTest, BothOnlySend) {
  Fill(a());
  Fill(b());
  EXPECT_THAT(Send(a(), 1, Deadline::After(absl::Milliseconds(5))),
              IsTooMany());
  EXPECT_THAT(Send(b(), 1, Deadline::After(absl::Milliseconds(5))),
              IsTooMany());
  Drain(a(), kLimit);
  Drain(b(), kLimit);
  Fill(a());
  Fill(b());
}

TEST_F(ChannelCreditTest, BlockedSendEndsWhenThePeerGoes) {
  Fill(a());
  std::thread sender([&] {
    EXPECT_THAT(Send(a(), 1, Watchdog()),
                StatusIs(absl::StatusCode::kUnavailable));
  });
  CloseB();
  sender.join();
}

TEST_F(ChannelCreditTest, BlockedSendEndsWhenThePeerIsKilled) {
  UniqueFd socket = b().Release();
  const pid_t child = StartChild([] { pause(); });
  socket.Reset();
  Fill(a());
  std::thread sender([&] {
    EXPECT_THAT(Send(a(), 1, Watchdog()),
                StatusIs(absl::StatusCode::kUnavailable));
  });
  ASSERT_EQ(kill(child, SIGKILL), 0);
  sender.join();
  EXPECT_EQ(ExitCodeOf(child), 128 + SIGKILL);
}

// The socket stays writable while there is no credit.
TEST(ChannelCallsTest, WaitingForCreditDoesNotSpin) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto calls, CountSyscalls([] {
        TENON_ASSERT_OK_AND_ASSIGN(
            auto pair, Channel::CreatePair({.max_fds_in_flight = 1}));
        const int fd = STDERR_FILENO;
        ASSERT_THAT(pair.first.Send("", {&fd, 1}, Deadline::Passed()), IsOk());
        EXPECT_THAT(pair.first.Send("", {&fd, 1},
                                    Deadline::After(absl::Milliseconds(50))),
                    StatusIs(kResourceExhausted));
      }));
  EXPECT_LT(calls.at("ioctl"), 6u);
}

TEST(ChannelCreditOptionsTest, NoneAtAllIsNoLimit) {
  EXPECT_THAT(Channel::CreatePair({.max_fds_in_flight = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_fds_in_flight")));
  auto [one, two] = SocketPair();
  EXPECT_THAT(Channel::Adopt(std::move(one), {.max_fds_in_flight = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// In the steady state: one call to send, one to receive, and with descriptors
// one more now and then.
TEST(ChannelCallsTest, ASystemCallOnEachSide) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  constexpr int kRounds = 100;
  const auto count = [](size_t fds) {
    return CountSyscalls([=] {
      TENON_ASSERT_OK_AND_ASSIGN(
          auto pair, Channel::CreatePair({.max_fds_in_flight = 50}));
      const std::vector<int> sent(fds, STDERR_FILENO);
      for (int i = 0; i < kRounds; ++i) {
        ASSERT_THAT(pair.first.Send("x", sent, Watchdog()), IsOk());
        ASSERT_THAT(pair.second.Receive(Watchdog()), IsOk());
      }
    });
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto bare, count(0));
  EXPECT_EQ(bare.at("sendmsg"), kRounds);
  EXPECT_EQ(bare.at("recvmsg"), kRounds);
  for (const char* other : {"ioctl", "poll", "ppoll", "getsockopt"}) {
    EXPECT_EQ(bare.count(other), 0u) << other;
  }
  TENON_ASSERT_OK_AND_ASSIGN(const auto one_fd, count(1));
  EXPECT_EQ(one_fd.at("sendmsg"), kRounds);
  EXPECT_EQ(one_fd.at("recvmsg"), kRounds);
  EXPECT_EQ(one_fd.at("ioctl"), kRounds / 50 - 1);
  // A check of the descriptor's type.
  EXPECT_EQ(one_fd.at("getsockopt"), kRounds);
  EXPECT_EQ(one_fd.count("ppoll"), 0u);
}

}  // namespace
}  // namespace tenon
