// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests that start processes: children that answer, and a fixture that
// detects leaked descriptors and children. Their main() is :gtest_main.

#ifndef TENON_SPAWN_TESTING_CHILD_TESTING_H_
#define TENON_SPAWN_TESTING_CHILD_TESTING_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"

namespace tenon::spawn {

// For waits that normally end much earlier: a watchdog, not a promise.
Deadline Watchdog();

// Fails a test after which this process has more or fewer descriptors than
// before it, or has a child, even a zombie.
class ChildTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

 private:
  size_t fds_before_ = 0;
};

// Whether this process has children: running, stopped, or not yet reaped.
bool HasChildren();

// A child and the channel to it. The destructor kills the child first.
struct Talker {
  Channel channel;
  Process process;
};

// Starts a child with the other end of the channel before options.fds.
absl::StatusOr<Talker> StartTalker(ProcessOptions options);

// In such a child: its end of the channel. Descriptors of the test begin at 1.
absl::StatusOr<Channel> TakeChannel(Child& child);

// In such a child: sends `words` to the test.
absl::Status Say(Child& child, absl::string_view words);

// In the test: the child's answer; its entry point must then return OK.
absl::StatusOr<std::string> AnswerOf(ProcessOptions options);

// The entry point that echoes all messages until the channel is closed.
inline constexpr char kEcho[] = "echo";
// Errors: the reason why the child does not answer.
absl::Status Ping(Channel& channel);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_TESTING_CHILD_TESTING_H_
