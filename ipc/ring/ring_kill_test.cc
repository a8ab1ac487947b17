// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A producer and two readers, each killed or stopped at every crash point of
// setup, putting, getting, dropping and closing: the others continue.

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr uint64_t kRecords = 6;
constexpr size_t kCapacity = 2;

Deadline Soon() { return Deadline::After(absl::Seconds(15)); }

bool IsGone(const absl::Status& status) { return absl::IsUnavailable(status); }

// The producer may be killed before or after it has closed the ring.
bool IsEnd(const absl::Status& status) {
  return absl::IsOutOfRange(status) || IsGone(status);
}

struct Boards {
  RingBoard first, second;
};

// The producer puts one record at a time and waits until each living reader has
// reported it, so that the order of events is always the same.
class World {
 public:
  void Reset() { boards_.Reset(); }

  void Produce(Peer& self) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto ring,
                               RingProducer::Create({.capacity = kCapacity}));
    for (const char* reader : {"first", "second"}) {
      const auto in = LetIn(self, reader, Board(reader), *ring);
      // Not if the reader was killed meanwhile.
      EXPECT_TRUE(in.ok() || IsGone(in.status())) << in.status();
    }
    for (uint64_t i = 0; i < kRecords; ++i) {
      const absl::Status put = PutRecord(*ring, i, Soon());
      if (!put.ok()) {
        EXPECT_TRUE(IsGone(put) ||
                    put.code() == absl::StatusCode::kFailedPrecondition)
            << put;
        EXPECT_EQ(ring->num_readers(), 0u);
        return;
      }
      self.Step("put");
      for (const char* reader : {"first", "second"}) {
        self.Await(reader, "got").IgnoreError();
      }
    }
    const absl::Status removed = ring->RemoveReader(1);
    EXPECT_TRUE(removed.ok() || absl::IsNotFound(removed)) << removed;
    EXPECT_THAT(ring->Close(Soon()), IsOk());
  }

  void Read(Peer& self) {
    const auto reader = Join(self, "producer", Board(self.name()));
    if (!reader.ok()) {
      EXPECT_TRUE(IsEnd(reader.status())) << reader.status();
      return;
    }
    EXPECT_THAT((*reader)->Arm(), IsOk());
    (*reader)->Disarm();
    for (uint64_t i = 0; i < kRecords; ++i) {
      self.Await("producer", "put").IgnoreError();
      const absl::Status got = GetRecord(**reader, i, Soon());
      if (!got.ok()) {
        EXPECT_TRUE(IsEnd(got)) << got;
        return;
      }
      self.Step("got");
    }
    const absl::Status end = GetRecord(**reader, kRecords, Soon());
    EXPECT_TRUE(IsEnd(end) || end.code() == absl::StatusCode::kDataLoss) << end;
  }

 private:
  RingBoard& Board(const std::string& reader) {
    return reader == "first" ? boards_->first : boards_->second;
  }

  SharedObject<Boards> boards_;
};

KillScenario Scenario(World& world, const char* points) {
  KillScenario scenario;
  scenario.name = "ring";
  scenario.points = points;
  scenario.prepare = [&] { world.Reset(); };
  scenario.roles = {{"producer", [&](Peer& self) { world.Produce(self); }},
                    {"first", [&](Peer& self) { world.Read(self); }},
                    {"second", [&](Peer& self) { world.Read(self); }}};
  return scenario;
}

KillReport RunAndExpectWhole(const KillScenario& scenario) {
  const Census before = TakeCensus();
  KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_FALSE(report.given_up);
  EXPECT_GT(report.kills, 0u);
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
  return report;
}

class RingKillTest : public testing::TestWithParam<KillMethod> {};

TEST_P(RingKillTest, OneAtEachPoint) {
  World world;
  for (const char* points : {"ring.", "doorbell."}) {
    KillScenario scenario = Scenario(world, points);
    scenario.method = GetParam();
    const KillReport report = RunAndExpectWhole(scenario);
    // Whether a thread sleeps long enough to be rung is a matter of chance.
    if (std::string(points) == "ring.") {
      EXPECT_THAT(report.unreached, testing::IsEmpty());
    }
  }
}

TEST(RingKillPairTest, TwoAtATime) {
  World world;
  KillScenario scenario = Scenario(world, "ring.");
  scenario.victims = 2;
  RunAndExpectWhole(scenario);
}

INSTANTIATE_TEST_SUITE_P(Methods, RingKillTest,
                         testing::Values(KillMethod::kKill, KillMethod::kStop),
                         [](const auto& method) {
                           return method.param == KillMethod::kKill ? "Killed"
                                                                    : "Stopped";
                         });

}  // namespace
}  // namespace tenon
