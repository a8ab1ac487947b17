// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Many processes, signals in between, deadlines that have passed.

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

class ProcessesOddTest : public ChildTest {};

// For the number of milliseconds in the argument; forever if it is empty.
absl::Status SleepFor(Child& child) {
  if (child.argument().empty()) {
    for (;;) pause();
  }
  absl::SleepFor(absl::Milliseconds(std::stoi(child.argument())));
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("sleep-for", SleepFor);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kMany = 10;
#else
constexpr int kMany = 100;
#endif

TEST_F(ProcessesOddTest, ManyShortOnes) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes many,
      Processes::Start(kMany, {.entry = "sleep-for", .argument = "1"}));
  EXPECT_THAT(many.Join(Watchdog()), IsOk());
  for (size_t i = 0; i < many.nprocs(); ++i) {
    EXPECT_TRUE(many[i].exit_status()->success());
  }
}

// Nothing that a child does at its start may change this end.
TEST_F(ProcessesOddTest, ManyThatAreTerminatedAtTheirStart) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes many,
                             Processes::Start(kMany, {.entry = "sleep-for"}));
  absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(many.Kill(SIGTERM), IsOk());
  EXPECT_THAT(many.Join(Watchdog()), StatusIs(absl::StatusCode::kAborted));
  for (size_t i = 0; i < many.nprocs(); ++i) {
    EXPECT_EQ(many[i].exit_status()->signal, SIGTERM) << i;
  }
}

absl::Status TellFdCount(Child& child) {
  return Say(child, absl::StrCat(CountOpenFds()));
}
TENON_SPAWN_ENTRY("tell-fd-count", TellFdCount);

// Later children inherit no descriptors that were opened for earlier ones.
TEST_F(ProcessesOddTest, AllHaveEquallyManyDescriptors) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  ProcessOptions options = {.entry = "tell-fd-count"};
  options.fds.push_back(ends.second.Release());
  TENON_ASSERT_OK_AND_ASSIGN(Processes five,
                             Processes::Start(5, std::move(options)));
  EXPECT_THAT(five.Join(Watchdog()), IsOk());
  std::set<std::string> counts;
  for (int i = 0; i < 5; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Message said,
                               ends.first.Receive(Watchdog()));
    counts.insert(said.bytes);
  }
  EXPECT_EQ(counts.size(), 1u);
}

TEST_F(ProcessesOddTest, DeadlinesThatHavePassedReturnAtOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(Processes one,
                             Processes::Start(1, {.entry = "sleep-for"}));
  for (const absl::Duration passed :
       {absl::ZeroDuration(), absl::Seconds(-1), -absl::InfiniteDuration()}) {
    EXPECT_THAT(one.Join(passed),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  EXPECT_TRUE(one[0].IsAlive());
}

std::atomic<int> interrupted{0};

TEST_F(ProcessesOddTest, SignalsDoNotDisturbAJoin) {
  struct sigaction counting = {};
  struct sigaction before = {};
  counting.sa_handler = [](int) { ++interrupted; };  // Without SA_RESTART.
  ASSERT_EQ(sigaction(SIGUSR1, &counting, &before), 0);
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes two,
      Processes::Start(2, {.entry = "sleep-for", .argument = "300"}));
  std::atomic<bool> joined{false};
  const pthread_t joining = pthread_self();
  std::thread disturbing([&] {
    while (!joined) {
      pthread_kill(joining, SIGUSR1);
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  EXPECT_THAT(two.Join(Watchdog()), IsOk());
  joined = true;
  disturbing.join();
  EXPECT_GT(interrupted, 0);
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

}  // namespace
}  // namespace tenon::spawn
