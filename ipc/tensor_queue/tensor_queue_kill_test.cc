// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A producer, a forwarder and a getter, each killed or stopped at every crash
// point of putting and getting: the others continue, all received tensors are
// correct, and the producer gets all its blocks back.

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr int64_t kTensors = 4;

// All other participants are gone, or the queue cannot be opened.
bool IsEnd(const absl::Status& status) { return absl::IsUnavailable(status); }

class World {
 public:
  explicit World(TensorWay way) : way_(way) {}

  void Reset() {
    const auto first = TensorQueue::Create({.capacity = 2}).value();
    const auto second = TensorQueue::Create({.capacity = 2}).value();
    handles_ = {first->Share().value(), first->Share().value(),
                second->Share().value(), second->Share().value()};
  }

  void Produce(Peer& self) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const auto queue,
          TensorQueue::Open(std::move(handles_[0]), {.arena = arena}));
      Begin(self);
      TensorMaker maker(way_, queue.get(), "kill");
      for (int64_t i = 0; i < kTensors; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(i));
        const absl::Status put = queue->Put(tensor, TestDeadline());
        EXPECT_TRUE(put.ok() || IsEnd(put)) << put;
        if (!put.ok()) break;
      }
      const absl::Status taken = queue->AwaitTaken(TestDeadline());
      EXPECT_TRUE(taken.ok() || IsEnd(taken)) << taken;
    }
    for (const char* other : {"forwarder", "getter"}) {
      self.Await(other, "end").IgnoreError();  // Or it is dead.
    }
    EXPECT_TRUE(Becomes([&] {
      EXPECT_THAT(arena->Trim(), IsOk());
      const ArenaUse use = arena->Use();
      return use.blocks_in_use == 0 && use.blocks_released == 0;
    })) << "in use: "
        << arena->Use().blocks_in_use
        << ", let go: " << arena->Use().blocks_released;
  }

  void Forward(Peer& self) {
    {
      TENON_ASSERT_OK_AND_ASSIGN(const auto from,
                                 TensorQueue::Open(std::move(handles_[1])));
      TENON_ASSERT_OK_AND_ASSIGN(const auto to,
                                 TensorQueue::Open(std::move(handles_[2])));
      Begin(self);
      for (;;) {
        const auto got = GetNext(*from);
        if (!got.ok()) break;
        const absl::Status put = to->Put(*got, TestDeadline());
        EXPECT_TRUE(put.ok() || IsEnd(put)) << put;
      }
      const absl::Status taken = to->AwaitTaken(TestDeadline());
      EXPECT_TRUE(taken.ok() || IsEnd(taken)) << taken;
    }
    self.Step("end");
  }

  void Get(Peer& self) {
    {
      TENON_ASSERT_OK_AND_ASSIGN(const auto queue,
                                 TensorQueue::Open(std::move(handles_[3])));
      Begin(self);
      while (GetNext(*queue).ok()) {
      }
    }
    self.Step("end");
  }

 private:
  void Begin(Peer& self) {
    next_ = 0;
    self.Step("begin");
    for (const std::string& other : self.others()) {
      self.Await(other, "begin").IgnoreError();
    }
  }

  // In the order in which they were put; skips lost messages.
  absl::StatusOr<TensorMessage> GetNext(TensorQueue& queue) {
    for (;;) {
      auto got = queue.Get(TestDeadline());
      if (absl::IsDataLoss(got.status())) continue;
      if (!got.ok()) {
        EXPECT_TRUE(IsEnd(got.status())) << got.status();
        return got;
      }
      const Tensor tensor = got->tensor(0).value();
      while (next_ < kTensors && !IsTensorOf(tensor, next_)) ++next_;
      EXPECT_LT(next_, kTensors) << "it has a wrong value, or comes twice";
      ++next_;
      return got;
    }
  }

  const TensorWay way_;
  std::array<QueueHandle, 4> handles_;
  int64_t next_ = 0;
};

class TensorQueueKillTest
    : public testing::TestWithParam<std::tuple<TensorWay, KillMethod>> {};

TEST_P(TensorQueueKillTest, OneAtEachPoint) {
  World world(std::get<0>(GetParam()));
  for (const char* points : {"tensor_queue.", "queue.", "fd_board."}) {
    KillScenario scenario;
    scenario.name = "tensor queue";
    scenario.method = std::get<1>(GetParam());
    scenario.points = points;
    scenario.prepare = [&] { world.Reset(); };
    scenario.roles = {{"producer", [&](Peer& self) { world.Produce(self); }},
                      {"forwarder", [&](Peer& self) { world.Forward(self); }},
                      {"getter", [&](Peer& self) { world.Get(self); }}};
    world.Reset();
    const Census before = TakeCensus();
    const KillReport report = RunKillMatrix(scenario);
    std::cout << report.ToString();
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_FALSE(report.given_up);
    EXPECT_GT(report.kills, 0u);
    world.Reset();
    EXPECT_TRUE(ExpectSame(before, TakeCensus()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TensorQueueKillTest,
    testing::Combine(testing::Values(TensorWay::kPooled, TensorWay::kPrivate,
                                     TensorWay::kFileDescriptor),
                     testing::Values(KillMethod::kKill, KillMethod::kStop)),
    [](const auto& test) {
      return TensorWayName(std::get<0>(test.param)) +
             (std::get<1>(test.param) == KillMethod::kKill ? "Killed"
                                                           : "Stopped");
    });

}  // namespace
}  // namespace tenon
