// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Channels wait until their deadline, not longer than data takes to arrive, and
// whatever signals come. Many at once: channel_wait_test.cc.

#include <poll.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_pair_testing.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

using absl::StatusCode::kDeadlineExceeded;

TEST_F(ChannelTest, ReceiveWaitsUntilItsDeadline) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(b().Receive(Deadline::After(absl::Milliseconds(50))),
              StatusIs(kDeadlineExceeded, HasSubstr("sent no message")));
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(50));
  ExpectUsable();
}

TEST_F(ChannelTest, PassedDeadlineMeansTryOnce) {
  EXPECT_THAT(b().Receive(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(a().Send("x", {}, Deadline::Passed()), IsOk());
  EXPECT_THAT(b().Receive(Deadline::Passed()), IsMessage("x"));
}

TEST_F(ChannelTest, NeverReturnsAvailableDataAtOnce) {
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
  // Sent messages arrive, refused ones do not.
  for (int i = 0; i < sent; ++i) {
    ASSERT_THAT(b().Receive(Deadline::Passed()), IsMessage(absl::StrCat(i)));
  }
  EXPECT_THAT(b().Receive(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  ExpectUsable();
}

TEST_F(ChannelTest, BlockedSendContinuesWhenThePeerReads) {
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

TEST_F(ChannelTest, BlockedReceiveContinuesWhenThePeerSends) {
  std::thread reader(
      [&] { EXPECT_THAT(b().Receive(Watchdog()), IsMessage("x")); });
  EXPECT_THAT(a().Send("x", {}, Watchdog()), IsOk());
  reader.join();
}

TEST_F(ChannelTest, ReadableInPollWhenReceiveWouldNotWait) {
  pollfd fd = {.fd = b().fd(), .events = POLLIN, .revents = 0};
  EXPECT_THAT(PollUntil({&fd, 1}, Deadline::Passed()), IsOkAndHolds(0));
  ASSERT_THAT(a().Send("", {}, Watchdog()), IsOk());
  EXPECT_THAT(PollUntil({&fd, 1}, Watchdog()), IsOkAndHolds(1));
  EXPECT_THAT(b().Receive(Deadline::Passed()), IsMessage(""));
  EXPECT_THAT(PollUntil({&fd, 1}, Deadline::Passed()), IsOkAndHolds(0));
}

// Interrupts this process every 100 us during its lifetime.
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

}  // namespace
}  // namespace tenon
