// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two putters and two getters of tasks, each killed or stopped at every crash
// point of joining, putting, claiming, taking, finishing, closing and leaving:
// the others continue, no item is received twice, and later participants find a
// slot.

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr uint64_t kItems = 4;  // Per putter.
constexpr size_t kCapacity = 2;
constexpr size_t kHandles = 5;  // For four roles and the checking participant.
// One slot more than there are roles: the checking participant finds one only
// if the dead participant's slot is reused.
constexpr size_t kSlots = 5;

Deadline Soon() { return Deadline::After(absl::Seconds(15)); }

struct Board {
  std::array<std::array<std::atomic<uint8_t>, kItems>, 2> put = {}, got = {};
  std::array<std::atomic<pid_t>, 4> pids = {};  // Of the roles.
};

// Counts claims that were not undone.
class Claims : public QueueClaimer {
 public:
  absl::Status Claim(const QueueItem& item) override {
    TestItem copy;
    std::memcpy(copy.data(), item.bytes.data(), sizeof(copy));
    EXPECT_TRUE(IsWhole(copy));
    ++held_;
    return absl::OkStatus();
  }
  void Undo(const QueueItem&) override { --held_; }
  uint64_t held() const { return held_; }

 private:
  uint64_t held_ = 0;
};

class World {
 public:
  void Reset() {
    board_.Reset();
    handles_.clear();
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto queue,
        QueueCore::Create(QueueType::kTasks, sizeof(TestItem),
                          {.capacity = kCapacity, .max_participants = kSlots}));
    for (size_t i = 0; i < kHandles; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue->Share());
      handles_.push_back(std::move(handle));
    }
  }

  void Put(Peer& self, uint64_t putter, uint64_t items) {
    board_->pids[putter] = getpid();
    auto queue = OpenItems(std::move(handles_[putter]), QueueType::kTasks);
    ASSERT_THAT(queue, IsOk());
    MeetAll(self);
    for (uint64_t i = 0; i < items; ++i) {
      const TestItem item = MakeItem(putter, i);
      const absl::Status put =
          Try(2, [&](Deadline d) { return (*queue)->Put(BytesOf(item), d); });
      if (!IsEndOf(put)) {
        ASSERT_THAT(put, IsOk());
        board_->put[putter][i] = 1;
      }
    }
    const absl::Status joined =
        Try(2, [&](Deadline d) { return (*queue)->JoinTasks(d); });
    EXPECT_TRUE(joined.ok() || absl::IsAborted(joined) || IsEndOf(joined))
        << joined;
    // Whichever of the two is killed, the other closes.
    self.Step("put");
    self.Await(putter == 0 ? "putter 1" : "putter 0", "put").IgnoreError();
    EXPECT_THAT((*queue)->Close(), IsOk());
  }

  void Get(Peer& self, size_t handle) {
    board_->pids[handle] = getpid();
    auto queue = OpenItems(std::move(handles_[handle]), QueueType::kTasks);
    ASSERT_THAT(queue, IsOk());
    MeetAll(self);
    Claims claims;
    uint64_t count = 0;
    for (;;) {
      TestItem item;
      const absl::Status got = Try(0, [&](Deadline d) -> absl::Status {
        TENON_ASSIGN_OR_RETURN(item, GetItem(**queue, d, &claims));
        return absl::OkStatus();
      });
      if (!got.ok()) {
        EXPECT_TRUE(IsEndOf(got)) << got;
        break;
      }
      EXPECT_EQ(++board_->got[item[0]][item[1]], 1);
      EXPECT_THAT((*queue)->TaskDone(1), IsOk());
      ++count;
    }
    EXPECT_EQ(claims.held(), count);
  }

  // Joins as a later participant.
  void Check(const std::vector<KillOrder>& fired) {
    auto queue = OpenItems(std::move(handles_[4]), QueueType::kTasks);
    ASSERT_THAT(queue, IsOk());
    uint64_t missing = 0;
    for (size_t putter = 0; putter < 2; ++putter) {
      for (uint64_t i = 0; i < kItems; ++i) {
        missing += board_->put[putter][i] == 1 && board_->got[putter][i] == 0;
      }
    }
    uint64_t getters_died = 0;
    for (const KillOrder& kill : fired) {
      getters_died += kill.role.substr(0, 6) == "getter";
    }
    // Items left by the dead are received, each once.
    missing -= GetRest(**queue);
    EXPECT_LE(missing, getters_died);
    const absl::Status joined = (*queue)->JoinTasks(Soon());
    EXPECT_TRUE(joined.ok() || (getters_died != 0 && absl::IsAborted(joined)))
        << joined;
  }

  // For a queue in which two kills may leave items: returns how many of them
  // were certainly put.
  uint64_t GetRest(QueueCore& queue) {
    uint64_t certain = 0;
    for (;;) {
      const auto item = GetItem(queue, Deadline::Passed());
      if (!item.ok()) {
        EXPECT_TRUE(IsEndOf(item.status())) << item.status();
        return certain;
      }
      EXPECT_EQ(++board_->got[(*item)[0]][(*item)[1]], 1);
      certain += board_->put[(*item)[0]][(*item)[1]];
      EXPECT_THAT(queue.TaskDone(1), IsOk());
    }
  }

 private:
  static bool IsEndOf(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsOutOfRange(status);
  }

  bool HasEnded(size_t role) const {
    if (board_->pids[role] == 0) return false;
    const auto process = PidFd::Open(board_->pids[role]);
    return !process.ok() || process->HasEnded();
  }

  // Repeats `call` until `first` and the role after it have both ended, which
  // the queue does not report to waiters beside other living participants; then
  // kUnavailable.
  absl::Status Try(size_t first,
                   const std::function<absl::Status(Deadline)>& call) {
    const Deadline watchdog = Soon();
    for (bool ended = false;;) {
      const absl::Status result = call(Deadline::After(absl::Milliseconds(20)));
      if (!absl::IsDeadlineExceeded(result)) return result;
      if (ended) return absl::UnavailableError("nobody is left");
      if (watchdog.has_passed()) return result;
      ended = HasEnded(first) && HasEnded(first + 1);
    }
  }

  // Waits until all have joined: a getter in a queue that one participant has
  // left, and no other joined, would be told that it is alone.
  static void MeetAll(Peer& self) {
    self.Step("opened");
    for (const std::string& other : self.others()) {
      self.Await(other, "opened").IgnoreError();
    }
  }

  SharedObject<Board> board_;
  std::vector<QueueHandle> handles_;
};

struct KillCase {
  const char* name;
  KillMethod method;
  size_t victims;
  uint64_t items;  // Per putter.
  const char* points;
};

void PrintTo(const KillCase& c, std::ostream* out) { *out << c.name; }

class QueueKillTest : public testing::TestWithParam<KillCase> {};

TEST_P(QueueKillTest, TheOthersGoOn) {
  const KillCase& c = GetParam();
  World world;
  world.Reset();
  KillScenario scenario;
  scenario.name = absl::StrCat("queue ", c.name);
  scenario.method = c.method;
  scenario.victims = c.victims;
  scenario.points = c.points;
  scenario.prepare = [&] { world.Reset(); };
  scenario.roles = {
      {"putter 0", [&](Peer& self) { world.Put(self, 0, c.items); }},
      {"putter 1", [&](Peer& self) { world.Put(self, 1, c.items); }},
      {"getter 2", [&](Peer& self) { world.Get(self, 2); }},
      {"getter 3", [&](Peer& self) { world.Get(self, 3); }}};
  scenario.check = [&](const Reporter&, const std::vector<KillOrder>& fired) {
    world.Check(fired);
  };
  const Census before = TakeCensus();
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_FALSE(report.given_up);
  EXPECT_GT(report.kills, 0u);
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
  // Whether a thread sleeps long enough to be rung is a matter of chance, and
  // no process dies where processes are only stopped.
  for (const std::string& point : report.unreached) {
    EXPECT_THAT(point, testing::AnyOf("queue.rung", "queue.death_noted",
                                      testing::StartsWith("doorbell.")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, QueueKillTest,
    testing::Values(
        KillCase{"Killed", KillMethod::kKill, 1, kItems, "queue."},
        KillCase{"KilledAtBells", KillMethod::kKill, 1, kItems, "doorbell."},
        KillCase{"Stopped", KillMethod::kStop, 1, kItems, "queue."},
        KillCase{"StoppedAtBells", KillMethod::kStop, 1, kItems, "doorbell."},
        KillCase{"PairsKilled", KillMethod::kKill, 2, 1, "queue."}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
