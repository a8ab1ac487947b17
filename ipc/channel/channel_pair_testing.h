// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ChannelTest: a fixture with both ends of a channel.

#ifndef TENON_IPC_CHANNEL_CHANNEL_PAIR_TESTING_H_
#define TENON_IPC_CHANNEL_CHANNEL_PAIR_TESTING_H_

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {

// Has both ends, and checks that finally every descriptor is closed.
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

  // Sends numbered messages from a to b until the buffer is full.
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

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_CHANNEL_PAIR_TESTING_H_
