// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/epoch_tasks.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Item p at position p, and one that no dataset has at `bad`.
class Positions : public Sampler {
 public:
  explicit Positions(int64_t bad = -1) : bad_(bad) {}
  int64_t size() const override { return 10; }
  void Fill(int64_t /*epoch*/, int64_t first,
            absl::Span<int64_t> indices) override {
    for (int64_t& index : indices) {
      index = first == bad_ ? size() : first;
      ++first;
    }
  }

 private:
  int64_t bad_;
};

EpochPlan PlanOf(Sampler& sampler) {
  EpochPlan plan;
  plan.epoch = 3;
  plan.sampler = &sampler;
  plan.dataset_size = 10;
  plan.batch_size = 4;
  plan.batches = 3;
  return plan;
}

EpochPlan PlanOfLanes(int64_t lanes) {
  EpochPlan plan;
  plan.shards = lanes;
  plan.lanes = lanes;
  return plan;
}

// The worker and the number of the next batch.
std::pair<size_t, int64_t> Assign(EpochTasks& tasks,
                                  std::vector<size_t> loads = {}) {
  const size_t worker = tasks.NextWorker([&](size_t w) { return loads[w]; });
  const auto task = tasks.Next(worker);
  return {worker, task ? task->job.number : -1};
}

TEST(EpochTasksTest, InOrderWorkersTakeTurns) {
  Positions sampler;
  EpochTasks tasks(PlanOf(sampler), 2, 7, {.in_order = true});
  const std::optional<WorkerLink::Task> task = tasks.Next(0);
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->job.epoch, 3);
  EXPECT_EQ(task->job.run, 7u);
  EXPECT_EQ(task->job.first_position, 0);
  EXPECT_THAT(task->indices, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Assign(tasks), Pair(1u, 1));
  EXPECT_TRUE(tasks.has_next());
  EXPECT_THAT(Assign(tasks), Pair(0u, 2));
  EXPECT_TRUE(tasks.done());
  EXPECT_FALSE(tasks.has_next());
}

TEST(EpochTasksTest, AnotherNumberOfWorkersHoldsFromTheNextTask) {
  Positions sampler;
  EpochTasks tasks(PlanOf(sampler), 1, 0, {});
  EXPECT_THAT(Assign(tasks), Pair(0u, 0));
  tasks.SetWorkers(4);
  EXPECT_THAT(Assign(tasks), Pair(1u, 1));
  EXPECT_THAT(Assign(tasks), Pair(2u, 2));
}

TEST(EpochTasksTest, AsReadyTheLeastLoadedWorkerIsNext) {
  Positions sampler;
  EpochTasks tasks(PlanOf(sampler), 3, 0, {.in_order = false});
  EXPECT_THAT(Assign(tasks, {2, 1, 1}), Pair(1u, 0));
  EXPECT_THAT(Assign(tasks, {0, 1, 0}), Pair(0u, 1));
  EXPECT_THAT(Assign(tasks, {9, 9, 9}), Pair(0u, 2));
}

TEST(EpochTasksTest, AnErrorOfTheSamplerIsTheResultOfItsBatch) {
  Positions sampler(5);
  EpochTasks tasks(PlanOf(sampler), 2, 0, {});
  EXPECT_THAT(Assign(tasks), Pair(0u, 0));
  EXPECT_FALSE(tasks.Next(1).has_value());
  EXPECT_TRUE(tasks.has_error());
  EXPECT_FALSE(tasks.has_next());
  EXPECT_FALSE(tasks.done());
  const BatchResult result = tasks.TakeError();
  EXPECT_EQ(result.number, 1);
  EXPECT_THAT(result.batch, StatusIs(StatusCode::kOutOfRange));
  EXPECT_FALSE(tasks.has_error());
  EXPECT_THAT(Assign(tasks), Pair(0u, 2));
}

TEST(EpochTasksTest, ALaneStaysWithItsWorker) {
  EpochTasks tasks(PlanOfLanes(3), 2, 0,
                   {.in_order = true, .batch_size = 8, .drop_last = true});
  tasks.SetWorkers(1);
  EXPECT_EQ(tasks.workers(), 2u);
  const std::optional<WorkerLink::Task> task = tasks.Next(0);
  ASSERT_TRUE(task.has_value());
  EXPECT_TRUE(task->is_of_lane());
  EXPECT_EQ(task->count(), 8);
  EXPECT_TRUE(task->job.full);
  EXPECT_THAT(Assign(tasks), Pair(1u, 1));
  EXPECT_THAT(Assign(tasks), Pair(0u, 2));
  tasks.EndLane(0, 0);
  EXPECT_THAT(Assign(tasks), Pair(1u, 4));
  tasks.EndLane(0, 2);
  EXPECT_THAT(Assign(tasks), Pair(1u, 7));
  EXPECT_FALSE(tasks.done());
  tasks.EndLane(1, 1);
  EXPECT_TRUE(tasks.done());
}

TEST(EpochTasksTest, AsReadyEachWorkerHasItsOwnLanes) {
  EpochTasks tasks(PlanOfLanes(3), 2, 0, {.in_order = false});
  EXPECT_THAT(Assign(tasks, {0, 1}), Pair(0u, 0));
  EXPECT_THAT(Assign(tasks, {0, 1}), Pair(0u, 2));
  EXPECT_THAT(Assign(tasks, {1, 0}), Pair(1u, 1));
  tasks.EndLane(0, 0);
  tasks.EndLane(0, 2);
  // Worker 0 has no lane left.
  EXPECT_THAT(Assign(tasks, {0, 9}), Pair(1u, 4));
}

}  // namespace
}  // namespace tenon::loader
