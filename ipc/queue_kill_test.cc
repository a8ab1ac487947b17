// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two who put tasks and two who get them, each killed or stopped at every crash
// point of joining, putting, claiming, taking, finishing, closing and leaving:
// the others go on, nothing is got twice, and who comes later finds a place.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue_core.h"
#include "tenon/ipc/queue_handle.h"
#include "tenon/ipc/queue_testing.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/testing/census.h"
#include "tenon/shm/testing/kill_driver.h"
#include "tenon/shm/testing/kill_report.h"
#include "tenon/shm/testing/kill_scenario.h"
#include "tenon/shm/testing/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon {
namespace {

constexpr uint64_t kItems = 4;  // Of each putter.
constexpr size_t kCapacity = 2;
constexpr size_t kHandles = 5;  // Of four roles, and of who comes later.
// One place more than there are roles: for who comes later there is one only if
// that of the dead is found.
constexpr size_t kPlaces = 5;

Deadline Soon() { return Deadline::After(absl::Seconds(15)); }

struct Board {
  std::array<std::array<std::atomic<uint8_t>, kItems>, 2> put = {}, got = {};
};

// Counts what it has claimed and not undone.
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
        const auto queue, QueueCore::Create(QueueType::kTasks, sizeof(TestItem),
                                            {.capacity = kCapacity,
                                             .max_participants = kPlaces}));
    for (size_t i = 0; i < kHandles; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue->Share());
      handles_.push_back(std::move(handle));
    }
  }

  void Put(Peer& self, uint64_t putter) {
    auto queue = OpenItems(std::move(handles_[putter]), QueueType::kTasks);
    ASSERT_THAT(queue, IsOk());
    MeetAll(self);
    for (uint64_t i = 0; i < kItems; ++i) {
      const TestItem item = MakeItem(putter, i);
      ASSERT_THAT((*queue)->Put(BytesOf(item), Soon()), IsOk());
      board_->put[putter][i] = 1;
    }
    const absl::Status joined = (*queue)->JoinTasks(Soon());
    EXPECT_TRUE(joined.ok() || absl::IsAborted(joined)) << joined;
    // Whichever of the two is killed, the other closes.
    self.Step("put");
    self.Await(putter == 0 ? "putter 1" : "putter 0", "put").IgnoreError();
    EXPECT_THAT((*queue)->Close(), IsOk());
  }

  void Get(Peer& self, size_t handle) {
    auto queue = OpenItems(std::move(handles_[handle]), QueueType::kTasks);
    ASSERT_THAT(queue, IsOk());
    MeetAll(self);
    Claims claims;
    uint64_t count = 0;
    for (;;) {
      const auto item = GetItem(**queue, Soon(), &claims);
      if (!item.ok()) {
        EXPECT_TRUE(absl::IsUnavailable(item.status())) << item.status();
        break;
      }
      EXPECT_EQ(++board_->got[(*item)[0]][(*item)[1]], 1);
      EXPECT_THAT((*queue)->TaskDone(1), IsOk());
      ++count;
    }
    EXPECT_EQ(claims.held(), count);
  }

  // Whoever comes next.
  void Check(const std::vector<KillOrder>& fired) {
    auto queue = OpenItems(std::move(handles_[4]), QueueType::kTasks);
    ASSERT_THAT(queue, IsOk());
    uint64_t missing = 0;
    for (size_t putter = 0; putter < 2; ++putter) {
      for (uint64_t i = 0; i < kItems; ++i) {
        missing += board_->put[putter][i] == 1 && board_->got[putter][i] == 0;
      }
    }
    const bool getter_died =
        !fired.empty() && fired[0].role.substr(0, 6) == "getter";
    EXPECT_LE(missing, getter_died ? 1u : 0u);
    EXPECT_EQ((*queue)->size(), 0u);
    const absl::Status joined = (*queue)->JoinTasks(Soon());
    EXPECT_TRUE(joined.ok() || (getter_died && absl::IsAborted(joined)))
        << joined;
  }

 private:
  // A queue that somebody has already left, and nobody else joined: one that
  // gets before the others come would be told that it is alone.
  static void MeetAll(Peer& self) {
    self.Step("opened");
    for (const std::string& other : self.others()) {
      self.Await(other, "opened").IgnoreError();
    }
  }

  SharedObject<Board> board_;
  std::vector<QueueHandle> handles_;
};

class QueueKillTest : public testing::TestWithParam<KillMethod> {};

TEST_P(QueueKillTest, OneAtEachPoint) {
  World world;
  world.Reset();
  for (const char* points : {"queue.", "doorbell."}) {
    KillScenario scenario;
    scenario.name = "queue";
    scenario.method = GetParam();
    scenario.points = points;
    scenario.prepare = [&] { world.Reset(); };
    scenario.roles = {{"putter 0", [&](Peer& self) { world.Put(self, 0); }},
                      {"putter 1", [&](Peer& self) { world.Put(self, 1); }},
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
    // Whether somebody sleeps long enough to be rung is a matter of chance, and
    // nobody dies where processes are only stopped.
    for (const std::string& point : report.unreached) {
      if (std::string(points) != "queue.") break;
      EXPECT_THAT(point, testing::AnyOf("queue.rung", "queue.death_noted"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, QueueKillTest,
                         testing::Values(KillMethod::kKill, KillMethod::kStop),
                         [](const auto& method) {
                           return method.param == KillMethod::kKill ? "Killed"
                                                                    : "Stopped";
                         });

}  // namespace
}  // namespace tenon
