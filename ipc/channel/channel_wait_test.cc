// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Waiting for many at once: channels and processes are descriptors, and a
// single poll() waits for all of them.

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr int kWriters = 4;
constexpr int kMessages = 10;

// A child that sends its messages, and this process's end of its channel.
struct Writer {
  Channel channel;
  pid_t child;
};

Writer StartWriter(int number) {
  auto pair = Channel::CreatePair().value();
  const pid_t child = StartChild([&] {
    auto mine = Channel::Adopt(pair.second.Release());
    ASSERT_THAT(mine, IsOk());
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_THAT(mine->Send(absl::StrCat(number), {}, Watchdog()), IsOk());
      usleep(200 * number);
    }
  });
  return {std::move(pair.first), child};
}

TEST(ChannelWaitTest, FourWritersThroughOneWait) {
  std::vector<Writer> writers;
  for (int i = 0; i < kWriters; ++i) writers.push_back(StartWriter(i));
  std::vector<pollfd> waited;
  for (const Writer& writer : writers) {
    waited.push_back({writer.channel.fd(), POLLIN, 0});
  }
  std::map<std::string, int> got;
  for (int open = kWriters; open > 0 && !HasFailure();) {
    ASSERT_THAT(PollUntil(waited, Watchdog()), IsOk());
    for (int i = 0; i < kWriters; ++i) {
      if (waited[i].revents == 0) continue;
      const auto message = writers[i].channel.Receive(Deadline::Passed());
      if (message.ok()) {
        EXPECT_EQ(message->bytes, absl::StrCat(i));
        ++got[message->bytes];
        continue;
      }
      EXPECT_THAT(message, StatusIs(absl::StatusCode::kUnavailable));
      waited[i].fd = -1;  // The writer's end removes it from the wait.
      --open;
    }
  }
  EXPECT_THAT(got, SizeIs(kWriters));
  EXPECT_THAT(got, Each(Pair(testing::_, kMessages)));
  for (const Writer& writer : writers) EXPECT_EQ(ExitCodeOf(writer.child), 0);
}

TEST(ChannelWaitTest, OnlyReadyChannelsAreReported) {
  auto a = Channel::CreatePair().value();
  auto b = Channel::CreatePair().value();
  pollfd waited[] = {{a.first.fd(), POLLIN, 0}, {b.first.fd(), POLLIN, 0}};
  const absl::Time begin = absl::Now();
  EXPECT_THAT(PollUntil(waited, Deadline::After(absl::Milliseconds(30))),
              IsOkAndHolds(0));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(25));
  ASSERT_THAT(a.second.Send("here", {}, Watchdog()), IsOk());
  EXPECT_THAT(PollUntil(waited, Deadline::Never()), IsOkAndHolds(1));
  EXPECT_NE(waited[0].revents, 0);
  EXPECT_EQ(waited[1].revents, 0);
}

TEST(ChannelWaitTest, TheEndOfAProcessIsOneOfThem) {
  auto pair = Channel::CreatePair().value();
  auto gate = Channel::CreatePair().value();
  const pid_t child = StartChild([&] {
    auto mine = Channel::Adopt(gate.second.Release());
    ASSERT_THAT(mine, IsOk());
    EXPECT_THAT(mine->Receive(Watchdog()), IsMessage("end"));
  });
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child));
  pollfd waited[] = {{pair.first.fd(), POLLIN, 0}, {process.fd(), POLLIN, 0}};
  EXPECT_THAT(PollUntil(waited, Deadline::Passed()), IsOkAndHolds(0));
  ASSERT_THAT(pair.second.Send("more", {}, Watchdog()), IsOk());
  ASSERT_THAT(gate.first.Send("end", {}, Watchdog()), IsOk());
  EXPECT_TRUE(Becomes(
      [&] { return PollUntil(waited, Deadline::Passed()).value_or(0) == 2; }));
  EXPECT_NE(waited[0].revents, 0);
  EXPECT_NE(waited[1].revents, 0);
  EXPECT_EQ(ExitCodeOf(child), 0);
}

// poll() takes no message, in any process.
TEST(ChannelWaitTest, PollingElsewhereTakesNothing) {
  auto pair = Channel::CreatePair().value();
  const int shared = pair.first.fd();
  const pid_t child = StartChild([&] {
    pollfd waited = {shared, POLLIN, 0};
    EXPECT_THAT(PollUntil({&waited, 1}, Watchdog()), IsOkAndHolds(1));
  });
  ASSERT_THAT(pair.second.Send("", {}, Watchdog()), IsOk());
  ASSERT_THAT(pair.second.Send("a", {}, Watchdog()), IsOk());
  ASSERT_THAT(pair.second.Send("bc", {}, Watchdog()), IsOk());
  EXPECT_EQ(ExitCodeOf(child), 0);
  for (const char* const message : {"", "a", "bc"}) {
    EXPECT_THAT(pair.first.Receive(Watchdog()), IsMessage(message));
  }
}

TEST(ChannelWaitTest, DescriptorsOfAnyNumberTravel) {
  auto pair = Channel::CreatePair().value();
  const UniqueFd file = FileWith("far away");
  const UniqueFd far(fcntl(file.get(), F_DUPFD_CLOEXEC, 300));
  ASSERT_GE(far.get(), 300);
  const int number = far.get();
  ASSERT_THAT(pair.first.Send("", {&number, 1}, Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Message message,
                             pair.second.Receive(Watchdog()));
  ASSERT_THAT(message.fds, SizeIs(1));
  EXPECT_EQ(ContentOf(message.fds[0].get()), "far away");
}

// A client that has connected, sent and exited before it was accepted.
TEST(ChannelWaitTest, WhatWasSentBeforeTheEndIsThere) {
  auto pair = Channel::CreatePair().value();
  const pid_t child = StartChild([&] {
    auto mine = Channel::Adopt(pair.second.Release());
    ASSERT_THAT(mine, IsOk());
    EXPECT_THAT(mine->Send("last words", {}, Watchdog()), IsOk());
  });
  { const UniqueFd theirs = pair.second.Release(); }
  EXPECT_EQ(ExitCodeOf(child), 0);
  pollfd waited = {pair.first.fd(), POLLIN, 0};
  EXPECT_THAT(PollUntil({&waited, 1}, Deadline::Passed()), IsOkAndHolds(1));
  EXPECT_THAT(pair.first.Receive(Deadline::Passed()), IsMessage("last words"));
  EXPECT_THAT(pair.first.Receive(Deadline::Passed()),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tenon
