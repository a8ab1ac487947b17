// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/check_options.h"

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader_options.h"
#include "tenon/loader/sampling/batch_sampler.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

void ExpectRefused(const LoaderOptions& options, const char* why) {
  EXPECT_THAT(CheckOptions(options),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("Loader::Create(): "), HasSubstr(why))));
}

TEST(CheckOptionsTest, TheDefaultsAreGood) {
  const LoaderOptions options;
  EXPECT_THAT(CheckOptions(options), IsOk());
  EXPECT_EQ(options.batch_size, 1);
  EXPECT_FALSE(options.shuffle);
  EXPECT_FALSE(options.drop_last);
  EXPECT_EQ(options.workers, 0);
  EXPECT_EQ(options.timeout, absl::InfiniteDuration());
}

TEST(CheckOptionsTest, NumbersOutOfRange) {
  ExpectRefused({.batch_size = 0}, "batch_size must be positive, not 0");
  ExpectRefused({.batch_size = -3}, "batch_size must be positive, not -3");
  ExpectRefused({.workers = -1}, "workers must be 0 to 512, or kAuto, not -1");
  ExpectRefused({.workers = 513},
                "workers must be 0 to 512, or kAuto, not 513");
  ExpectRefused({.threads_per_worker = 0},
                "threads_per_worker must be 1 to 512, not 0");
  ExpectRefused({.workers = 1, .threads_per_worker = 513},
                "threads_per_worker must be 1 to 512, not 513");
  ExpectRefused({.workers = 1, .prefetch = 0},
                "prefetch must be 1 to 1024, not 0");
  ExpectRefused({.workers = 1, .prefetch = 1025},
                "prefetch must be 1 to 1024, not 1025");
  ExpectRefused({.rank = Rank{.rank = 2, .world_size = 2}}, "the rank is 2");
  ExpectRefused({.workers = 1, .timeout = absl::ZeroDuration()},
                "timeout must be positive, not 0");
  ExpectRefused({.workers = 1, .timeout = -absl::Seconds(1)},
                "timeout must be positive, not -1s");
}

TEST(CheckOptionsTest, TheFailureBudget) {
  ExpectRefused({.on_sample_error = OnSampleError::kSkip, .failure_budget = -1},
                "failure_budget must be 0 or more, not -1");
  ExpectRefused({.failure_budget = 3},
                "failure_budget with on_sample_error kFail");
  EXPECT_THAT(CheckOptions({.on_sample_error = OnSampleError::kReplace,
                            .failure_budget = 0}),
              IsOk());
}

TEST(CheckOptionsTest, ReplacedWorkers) {
  ExpectRefused({.workers = 1, .max_restarts = -1},
                "max_restarts must be 0 to 1000, not -1");
  ExpectRefused({.workers = 1, .sample_timeout = absl::Microseconds(1)},
                "sample_timeout must be 1ms or more, not 1us");
  ExpectRefused({.workers = 1, .recycle_after_samples = 0},
                "recycle_after_samples must be positive, not 0");
  ExpectRefused({.workers = 1, .recycle_after_bytes = -1},
                "recycle_after_bytes must be positive, not -1");
  const char* const why = " without worker processes: the consumer";
  ExpectRefused({.on_worker_death = OnWorkerDeath::kRestart}, why);
  ExpectRefused({.workers = 1,
                 .worker_kind = WorkerKind::kThread,
                 .sample_timeout = absl::Seconds(1)},
                why);
  ExpectRefused({.recycle_after_samples = 1}, why);
  ExpectRefused({.recycle_after_bytes = 1}, why);
  EXPECT_THAT(CheckOptions({.workers = 1,
                            .failure_budget = 1,
                            .on_worker_death = OnWorkerDeath::kSkipSample,
                            .max_restarts = 0,
                            .sample_timeout = absl::Seconds(1),
                            .recycle_after_samples = 1,
                            .recycle_after_bytes = 1}),
              IsOk());
}

TEST(CheckOptionsTest, Contradictions) {
  ExpectRefused(
      {.shuffle = true, .sampler = std::make_shared<SequentialSampler>(3)},
      "shuffle and sampler");
  ExpectRefused({.batch_size = std::nullopt, .drop_last = true},
                "drop_last without a batch_size");
  ExpectRefused({.prefetch = 2}, "prefetch without workers");
  ExpectRefused({.workers = 1,
                 .threads_per_worker = 2,
                 .sample_timeout = absl::Seconds(1)},
                "sample_timeout with threads_per_worker");
  ExpectRefused({.overlap_epochs = true}, "overlap_epochs without workers");
  ExpectRefused({.timeout = absl::Seconds(1)}, "timeout without workers");
  ExpectRefused({.start_method = spawn::StartMethod::kFork},
                "start_method without worker processes");
  ExpectRefused({.workers = 2,
                 .worker_kind = WorkerKind::kThread,
                 .start_method = spawn::StartMethod::kSpawn},
                "start_method without worker processes");
}

TEST(CheckOptionsTest, ABatchSamplerGivesWholeBatches) {
  const auto batches = [] {
    return std::shared_ptr<BatchSampler>(
        *FixedBatchSampler::Create(std::make_unique<SequentialSampler>(3), 2));
  };
  EXPECT_THAT(CheckOptions({.batch_sampler = batches()}), IsOk());
  ExpectRefused({.batch_size = 2, .batch_sampler = batches()},
                "batch_sampler gives whole batches");
  ExpectRefused({.shuffle = true, .batch_sampler = batches()},
                "leave batch_size (1), shuffle, sampler");
  ExpectRefused({.sampler = std::make_shared<SequentialSampler>(3),
                 .batch_sampler = batches()},
                "leave batch_size (1), shuffle, sampler");
  ExpectRefused({.batch_size = std::nullopt, .batch_sampler = batches()},
                "batch_sampler gives whole batches");
  ExpectRefused({.batch_sampler = batches(), .drop_last = true},
                "leave batch_size (1), shuffle, sampler");
}

absl::Status NoInit(const WorkerInfo&) { return absl::OkStatus(); }

TEST(CheckOptionsTest, QuotaAndInit) {
  ExpectRefused({.memory_quota = 0}, "memory_quota must be positive, not 0");
  ExpectRefused({.worker_init = NoInit}, "worker_init without workers");
  EXPECT_THAT(CheckOptions({.workers = 1, .worker_init = NoInit}), IsOk());
}

TEST(CheckOptionsTest, AWorkerProgramNeedsProcessesOfItsOwn) {
  const WorkerProgram program = {.program = "/bin/worker"};
  EXPECT_THAT(CheckOptions({.workers = 1, .worker_program = program}), IsOk());
  EXPECT_THAT(CheckOptions({.workers = kAuto,
                            .start_method = spawn::StartMethod::kSpawn,
                            .worker_program = program}),
              IsOk());
  ExpectRefused({.worker_program = program},
                "worker_program without worker processes");
  ExpectRefused({.workers = 1,
                 .worker_kind = WorkerKind::kThread,
                 .worker_program = program},
                "worker_program without worker processes");
  ExpectRefused({.workers = 1, .worker_program = WorkerProgram()},
                "worker_program without the path of a program");
  ExpectRefused({.workers = 1,
                 .start_method = spawn::StartMethod::kFork,
                 .worker_program = program},
                "worker_program with start_method 'fork'");
  ExpectRefused(
      {.workers = 1, .worker_program = program, .worker_init = NoInit},
      "worker_init with worker_program");
}

TEST(CheckOptionsTest, AReplayHasABound) {
  EXPECT_THAT(CheckOptions({.replay = 4096}), IsOk());
  ExpectRefused({.replay = 0}, "replay must be 1 to 4096, not 0");
  ExpectRefused({.replay = 4097}, "replay must be 1 to 4096");
}

TEST(CheckOptionsTest, ATraceHasABound) {
  EXPECT_THAT(CheckOptions({.trace_events = 0}), IsOk());
  EXPECT_THAT(CheckOptions({.trace_events = 1 << 20}), IsOk());
  ExpectRefused({.trace_events = -1}, "trace_events must be 0 to 1048576");
  ExpectRefused({.trace_events = (1 << 20) + 1},
                "trace_events must be 0 to 1048576");
}

TEST(CheckOptionsTest, WhatBelongsTogether) {
  EXPECT_THAT(CheckOptions({.workers = kAuto, .prefetch = 2}), IsOk());
  EXPECT_THAT(CheckOptions({.threads_per_worker = 512}), IsOk());
  EXPECT_THAT(CheckOptions({.workers = kAuto,
                            .worker_kind = WorkerKind::kThread,
                            .threads_per_worker = 2}),
              IsOk());
  EXPECT_THAT(CheckOptions({.sampler = std::make_shared<SequentialSampler>(3)}),
              IsOk());
  EXPECT_THAT(
      CheckOptions(
          {.workers = 512, .prefetch = 1024, .timeout = absl::Nanoseconds(1)}),
      IsOk());
}

}  // namespace
}  // namespace tenon::loader
