// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Pools with very many tasks, and with very large ones. The watchdogs are far
// above the time of linear work, and far below that of quadratic work.

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_testing.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using futures::Future;
using futures::kWatchdog;

constexpr int kDozeForEver = 1'000'000;

class ProcessPoolScaleTest : public ChildTest {};

int Doze(int milliseconds) {
  absl::SleepFor(absl::Milliseconds(milliseconds));
  return milliseconds;
}
TENON_POOL_FUNCTION(Doze);

size_t SizeOf(const std::string& text) { return text.size(); }
TENON_POOL_FUNCTION(SizeOf);

std::vector<Future<int>> SubmitMany(const ProcessPool& pool, size_t count) {
  std::vector<Future<int>> futures;
  futures.reserve(count);
  for (size_t i = 0; i < count; ++i) futures.push_back(pool.Submit(Doze, 0));
  return futures;
}

TEST_F(ProcessPoolScaleTest, CancellingManyInAnyOrderIsNotQuadratic) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<int> running =
      pool.SubmitWith({.kill_on_cancel = true}, Doze, kDozeForEver);
  std::vector<Future<int>> waiting = SubmitMany(pool, 200'000);
  std::shuffle(waiting.begin(), waiting.end(), std::mt19937(7));
  const Deadline watchdog = Deadline::After(kWatchdog);
  size_t cancelled = 0;
  while (cancelled < waiting.size() && !watchdog.has_passed()) {
    waiting[cancelled++].RequestCancel();
  }
  ASSERT_EQ(cancelled, waiting.size()) << "cancelled in time";
  EXPECT_EQ(pool.counts().pending, 0u);
  for (const Future<int>& future : waiting) {
    ASSERT_THAT(future.value().status(),
                StatusIs(absl::StatusCode::kCancelled));
  }
  running.RequestCancel();
}

// Each expires alone, beside very many tasks that do not.
TEST_F(ProcessPoolScaleTest, ExpiryDoesNotLookAtTasksThatWait) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<int> running =
      pool.SubmitWith({.kill_on_cancel = true}, Doze, kDozeForEver);
  const TaskOptions long_deadline = {.deadline =
                                         Deadline::After(absl::Hours(1))};
  std::vector<Future<int>> waiting;
  for (int i = 0; i < 100'000; ++i) {
    waiting.push_back(pool.SubmitWith(long_deadline, Doze, 0));
  }
  const Deadline watchdog = Deadline::After(kWatchdog);
  int expired = 0;
  constexpr int kExpired = 20'000;
  for (; expired < kExpired && !watchdog.has_passed(); ++expired) {
    ASSERT_THAT(Get(pool.SubmitWith({.deadline = Deadline::Passed()}, Doze, 0)),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  EXPECT_EQ(expired, kExpired) << "expired in time";
  EXPECT_EQ(pool.counts().pending, waiting.size());
  pool.Abort();
}

// During its lifetime, the first thread that has copied a large message stops
// there until Resume().
class StoppedCopier {
 public:
  StoppedCopier() {
    stopped_ = false;
    may_go_on_ = false;
    former_ = SetCrashPointHook([](const CrashPoint& passed) {
      if (absl::string_view(passed.name()) != "channel.segment_filled") return;
      if (stopped_.exchange(true)) return;
      while (!may_go_on_) absl::SleepFor(absl::Milliseconds(1));
    });
  }
  ~StoppedCopier() {
    Resume();
    SetCrashPointHook(former_);
  }
  static bool IsStopped() { return stopped_; }
  static void Resume() { may_go_on_ = true; }

 private:
  static inline std::atomic<bool> stopped_ = false;
  static inline std::atomic<bool> may_go_on_ = false;
  CrashPointHook former_;
};

TEST_F(ProcessPoolScaleTest, OthersAreServedWhileALargeTaskIsCopied) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  StoppedCopier stopped;
  constexpr size_t kSize = 100'000'000;
  Future<size_t> large;
  std::thread submitter(
      [&] { large = pool.Submit(SizeOf, std::string(kSize, 'x')); });
  ASSERT_TRUE(Becomes([&] { return StoppedCopier::IsStopped(); }));
  std::atomic<bool> submitted = false;
  Future<int> small;
  std::thread other([&] {
    small = pool.Submit(Doze, 1);
    submitted = true;
  });
  EXPECT_TRUE(Becomes([&] { return submitted.load(); })) << "Submit() blocks";
  if (submitted) {
    EXPECT_THAT(Get(std::move(small)), IsOkAndHolds(1));
    EXPECT_EQ(pool.counts().pending, 0u);
  }
  StoppedCopier::Resume();
  submitter.join();
  other.join();
  EXPECT_THAT(Get(std::move(large)), IsOkAndHolds(kSize));
}

// Operations on a task while it is being copied.
class LargeTaskTest : public ProcessPoolScaleTest {
 protected:
  void SetUp() override {
    ProcessPoolScaleTest::SetUp();
    absl::StatusOr<ProcessPool> pool = ProcessPool::Create({.workers = 1});
    ASSERT_THAT(pool, IsOk());
    pool_.emplace(*std::move(pool));
  }
  void TearDown() override {
    pool_.reset();
    ProcessPoolScaleTest::TearDown();
  }

  // Submits a large task, calls `meanwhile` while its copy is being made, and
  // returns the task's result.
  template <typename F>
  absl::StatusOr<size_t> ResultIf(const TaskOptions& options, F meanwhile) {
    StoppedCopier stopped;
    const std::vector<pid_t> workers = pool_->worker_pids();
    std::thread submitter([&] {
      large_ = pool_->SubmitWith(options, SizeOf, std::string(kSize, 'x'));
    });
    EXPECT_TRUE(Becomes([&] { return StoppedCopier::IsStopped(); }));
    meanwhile(workers[0]);
    StoppedCopier::Resume();
    submitter.join();
    return Get(std::move(large_));
  }

  static constexpr size_t kSize = 1'000'000;
  std::optional<ProcessPool> pool_;
  Future<size_t> large_;
};

TEST_F(LargeTaskTest, ItsWorkerDies) {
  EXPECT_THAT(ResultIf({},
                       [&](pid_t worker) {
                         kill(worker, SIGKILL);
                         EXPECT_TRUE(Becomes([&] {
                           return pool_->worker_pids() !=
                                  std::vector<pid_t>{worker};
                         }));
                       }),
              IsOkAndHolds(kSize));
  EXPECT_EQ(pool_->counts().started, 2u);
}

TEST_F(LargeTaskTest, ItsDeadlinePasses) {
  // Not before the copy has begun, on a busy machine either.
  const Deadline deadline = Deadline::After(absl::Seconds(2));
  const auto wait = [&](pid_t) {
    EXPECT_TRUE(Becomes([&] { return deadline.has_passed(); }));
  };
  EXPECT_THAT(ResultIf({.deadline = deadline}, wait),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(Get(pool_->Submit(Doze, 1)), IsOkAndHolds(1));
  EXPECT_EQ(pool_->counts().started, 1u);
}

TEST_F(LargeTaskTest, ThePoolIsAborted) {
  EXPECT_THAT(ResultIf({}, [&](pid_t) { pool_->Abort(); }),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(LargeTaskTest, ShutdownWaitsForIt) {
  EXPECT_THAT(
      ResultIf({},
               [&](pid_t) {
                 EXPECT_THAT(
                     pool_->Shutdown(Deadline::After(absl::Milliseconds(20))),
                     StatusIs(absl::StatusCode::kDeadlineExceeded));
               }),
      IsOkAndHolds(kSize));
  EXPECT_THAT(pool_->Shutdown(Deadline::After(kWatchdog)), IsOk());
}

}  // namespace
}  // namespace tenon::spawn
