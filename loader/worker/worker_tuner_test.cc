// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_tuner.h"

#include <algorithm>
#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tenon::loader {
namespace {

using ::testing::HasSubstr;

// A consumer that needs `step_ns` for a batch, and workers that need `make_ns`
// each, of which `cores` work at the same time.
struct Pipeline {
  int64_t step_ns = 0;
  int64_t make_ns = 0;
  int cores = 64;

  void Run(WorkerTuner& tuner, int batches) const {
    for (int i = 0; i < batches; ++i) {
      const int64_t made = make_ns / std::min(tuner.workers(), cores);
      const int64_t passed = std::max(step_ns, made);
      tuner.OnBatch(passed - step_ns, passed);
    }
  }
};

TEST(WorkerTunerTest, OneSufficesForAConsumerThatDoesNotWait) {
  WorkerTuner tuner(16, 2);
  Pipeline{.step_ns = 1000, .make_ns = 900}.Run(tuner, 2000);
  EXPECT_EQ(tuner.workers(), 1);
  EXPECT_EQ(tuner.reason(), "1 of at most 16, to begin with");
}

TEST(WorkerTunerTest, MoreUntilTheConsumerDoesNotWait) {
  WorkerTuner tuner(64, 2);
  Pipeline{.step_ns = 1000, .make_ns = 3900}.Run(tuner, 2000);
  EXPECT_EQ(tuner.workers(), 4);
  EXPECT_EQ(tuner.reason(), "4 of at most 64: 3 were too few");
}

TEST(WorkerTunerTest, OneLessIfThatIsEnough) {
  WorkerTuner tuner(64, 2);
  // 8 are tried after 4, and 5 suffice.
  Pipeline{.step_ns = 1000, .make_ns = 4500}.Run(tuner, 4000);
  EXPECT_EQ(tuner.workers(), 5);
  EXPECT_THAT(tuner.reason(), HasSubstr("the consumer hardly waited with 6"));
}

TEST(WorkerTunerTest, AsManyAsThereMayBe) {
  WorkerTuner tuner(6, 2);
  Pipeline{.step_ns = 10, .make_ns = 100'000}.Run(tuner, 4000);
  EXPECT_EQ(tuner.workers(), 6);
}

TEST(WorkerTunerTest, MoreThanHelpAreNotKept) {
  WorkerTuner tuner(64, 2);
  Pipeline{.step_ns = 10, .make_ns = 100'000, .cores = 4}.Run(tuner, 4000);
  EXPECT_EQ(tuner.workers(), 4);
  EXPECT_THAT(tuner.reason(), HasSubstr("8 were not faster than 4"));
}

TEST(WorkerTunerTest, RepeatsATrialThatFailed) {
  WorkerTuner tuner(16, 2);
  const Pipeline pipeline{.step_ns = 10, .make_ns = 100'000};
  pipeline.Run(tuner, 8);
  ASSERT_EQ(tuner.workers(), 2);
  // While 2 are tried, the machine does something else.
  Pipeline{.step_ns = 10, .make_ns = 1'000'000}.Run(tuner, 4 + 8);
  ASSERT_EQ(tuner.reason(), "1 of at most 16: 2 were not faster than 1");
  pipeline.Run(tuner, 4 + 15 * 8);
  EXPECT_EQ(tuner.workers(), 1);
  pipeline.Run(tuner, 2000);
  EXPECT_EQ(tuner.workers(), 16);
}

TEST(WorkerTunerTest, FollowsAConsumerThatGetsFaster) {
  WorkerTuner tuner(16, 2);
  Pipeline{.step_ns = 1000, .make_ns = 900}.Run(tuner, 1000);
  Pipeline{.step_ns = 100, .make_ns = 900}.Run(tuner, 2000);
  EXPECT_GE(tuner.workers(), 9);
}

TEST(WorkerTunerTest, DoesNotSwing) {
  WorkerTuner tuner(64, 2);
  const Pipeline pipeline{.step_ns = 1000, .make_ns = 4500};
  pipeline.Run(tuner, 5000);
  const int settled = tuner.workers();
  for (int i = 0; i < 100; ++i) {
    pipeline.Run(tuner, 100);
    EXPECT_EQ(tuner.workers(), settled);
  }
}

TEST(WorkerTunerTest, NoTimeAtAllIsNoWaiting) {
  WorkerTuner tuner(4, 1);
  for (int i = 0; i < 100; ++i) tuner.OnBatch(0, 0);
  EXPECT_EQ(tuner.workers(), 1);
}

}  // namespace
}  // namespace tenon::loader
