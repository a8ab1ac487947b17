// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Workers that die, time out, or reach their limits; pools that end.

#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_testing.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/ipc_arguments.h"
#include "tenon/spawn/arguments/queue_arguments.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"
#include "tenon/spawn/testing/odd_arguments_testing.h"

namespace tenon::spawn {
namespace {

using futures::Future;
using ::testing::HasSubstr;

class ProcessPoolFaultTest : public ChildTest {};

int Pid(int) { return getpid(); }
TENON_POOL_FUNCTION(Pid);

void Sleep(int milliseconds) {
  absl::SleepFor(absl::Milliseconds(milliseconds));
}
TENON_POOL_FUNCTION(Sleep);

int Die(std::string how) {
  if (how == "kill") raise(SIGKILL);
  if (how == "exit") _exit(3);
  if (how == "abort") {
    signal(SIGABRT, SIG_DFL);
    abort();
  }
  if (how == "exit 0") exit(0);
  return 1;
}
TENON_POOL_FUNCTION(Die);

absl::Status NeverCalled(Deadly, Queue<int64_t>) { return absl::OkStatus(); }
TENON_POOL_FUNCTION(NeverCalled);

absl::Status PutOne(Queue<int64_t> queue) { return queue.Put(1, Watchdog()); }
TENON_POOL_FUNCTION(PutOne);

absl::Status PutLate(Slow, Queue<int64_t> queue) {
  return queue.Put(2, Watchdog());
}
TENON_POOL_FUNCTION(PutLate);

// A worker that has left the queue opens it once more for its next task.
TEST_F(ProcessPoolFaultTest, AQueueAwaitsTheAnswersOfItsTasks) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Queue<int64_t>::Create());
  EXPECT_THAT(Get(pool.Submit(PutOne, queue)), IsOk());
  EXPECT_THAT(queue.Get(Watchdog()), IsOkAndHolds(1));
  auto late = pool.Submit(PutLate, Slow(), queue);
  EXPECT_THAT(queue.Get(Watchdog()), IsOkAndHolds(2));
  EXPECT_THAT(Get(std::move(late)), IsOk());
  EXPECT_THAT(queue.Get(Watchdog()),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("all others have left or died")));
}

// A waiting task keeps the queue's creator from being alone.
TEST_F(ProcessPoolFaultTest, AWorkerThatDiesBeforeItOpensAQueue) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Queue<int64_t>::Create());
  auto dies = pool.Submit(NeverCalled, Deadly(), queue);
  auto waits = pool.Submit(PutOne, queue);
  EXPECT_THAT(queue.Get(Watchdog()), IsOkAndHolds(1));
  EXPECT_THAT(Get(std::move(waits)), IsOk());
  EXPECT_THAT(Get(std::move(dies)), StatusIs(absl::StatusCode::kAborted));

  TENON_ASSERT_OK_AND_ASSIGN(auto other, Queue<int64_t>::Create());
  auto dies_too = pool.Submit(NeverCalled, Deadly(), other);
  EXPECT_THAT(other.Get(Watchdog()),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("ended before it opened the queue")));
  EXPECT_THAT(Get(std::move(dies_too)), StatusIs(absl::StatusCode::kAborted));
}

// Workers that have left a queue and live on are not awaited, though the next
// one has had their slot.
TEST_F(ProcessPoolFaultTest, IdleWorkersThatLeftAQueueAreNotAwaited) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Queue<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto other, Queue<int64_t>::Create());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Get(pool.Submit(PutOne, queue)), IsOk());
    EXPECT_THAT(queue.Get(Watchdog()), IsOkAndHolds(1));
    auto busy = pool.Submit(PutLate, Slow(), other);
    EXPECT_THAT(Get(pool.Submit(PutOne, queue)), IsOk());
    EXPECT_THAT(queue.Get(Watchdog()), IsOkAndHolds(1));
    EXPECT_THAT(Get(std::move(busy)), IsOk());
  }
  EXPECT_THAT(queue.Get(Watchdog()),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("all others have left or died")));
}

TEST_F(ProcessPoolFaultTest, DeadWorkerFailsItsOwnTaskAndNoOther) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  for (const char* how : {"kill", "exit", "abort", "exit 0"}) {
    std::vector<Future<int>> others;
    for (int i = 0; i < 10; ++i) others.push_back(pool.Submit(Pid, i));
    const absl::Status died = Get(pool.Submit(Die, how)).status();
    EXPECT_THAT(died, StatusIs(absl::StatusCode::kAborted)) << how;
    // exit(0) is not a failure of the process, but a failure of the task.
    EXPECT_EQ(GetProcessExited(died).has_value(),
              absl::string_view(how) != "exit 0")
        << died;
    for (int i = 0; i < 10; ++i) others.push_back(pool.Submit(Pid, i));
    for (Future<int>& other : others) {
      EXPECT_THAT(Get(std::move(other)), IsOk()) << how;
    }
  }
  EXPECT_TRUE(Becomes([&] { return pool.counts().workers == 2; }));
  EXPECT_EQ(pool.counts().started, 6u);
  EXPECT_THAT(pool.Shutdown(), IsOk());
}

TEST_F(ProcessPoolFaultTest, IdleWorkersThatAreKilledAreReplaced) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  for (int round = 0; round < 10; ++round) {
    EXPECT_THAT(Get(pool.Submit(Pid, 1)), IsOk());
    for (const pid_t pid : pool.worker_pids()) kill(pid, SIGKILL);
    // A task may reach a worker that is not yet known to be dead: it fails, or
    // is assigned to another.
    Get(pool.Submit(Pid, 1)).status().IgnoreError();
    EXPECT_TRUE(Becomes([&] { return pool.counts().workers == 2; }));
  }
  EXPECT_TRUE(Becomes([&] { return Get(pool.Submit(Pid, 1)).ok(); }));
}

TEST_F(ProcessPoolFaultTest, KilledAtAnyMomentEveryFutureIsDone) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 3}));
  int failed = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Future<int>> futures;
    for (int i = 0; i < 20; ++i) futures.push_back(pool.Submit(Pid, i));
    const std::vector<pid_t> pids = pool.worker_pids();
    if (!pids.empty()) {
      kill(pids[static_cast<size_t>(round) % pids.size()], SIGKILL);
    }
    for (Future<int>& future : futures) {
      const absl::StatusOr<int> result = Get(std::move(future));
      if (result.ok()) continue;
      ++failed;
      ASSERT_TRUE(GetProcessExited(result.status()).has_value())
          << result.status();
    }
    // A worker killed while idle may get a task before its death is known.
    ASSERT_LE(failed, round + 1) << "as many as were killed";
  }
}

TEST_F(ProcessPoolFaultTest, TaskThatTakesTooLong) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  const TaskOptions soon = {Deadline::After(absl::Milliseconds(50))};
  Future<void> slow = pool.SubmitWith(soon, Sleep, 1'000'000);
  Future<void> waiting = pool.SubmitWith(soon, Sleep, 0);
  Future<int> other = pool.Submit(Pid, 1);
  EXPECT_THAT(
      Get(std::move(slow)),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("was killed")));
  EXPECT_THAT(Get(std::move(waiting)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("before a worker was free")));
  EXPECT_THAT(Get(std::move(other)), IsOk());
  EXPECT_EQ(pool.counts().started, 2u);
}

TEST_F(ProcessPoolFaultTest, TaskThatIsTooLateCostsNoWorker) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  TENON_ASSERT_OK_AND_ASSIGN(const int pid, Get(pool.Submit(Pid, 1)));
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(Get(pool.SubmitWith({Deadline::Passed()}, Pid, 1)),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("before a worker was free")));
  }
  EXPECT_THAT(Get(pool.Submit(Pid, 1)), IsOkAndHolds(pid));
}

// ---- Limits of a worker ----

TEST_F(ProcessPoolFaultTest, WorkersLiveForSoManyTasks) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 3, .max_tasks_per_worker = 10}));
  std::vector<int> inputs(100);
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<int> pids,
                             Get(pool.Map(Pid, inputs, {.chunk_size = 1})));
  std::multiset<int> count(pids.begin(), pids.end());
  for (const int pid : pids) EXPECT_LE(count.count(pid), 10u);
  EXPECT_THAT(pool.Shutdown(), IsOk());
}

TEST_F(ProcessPoolFaultTest, ShutdownWhileWorkersAreReplaced) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 3, .max_tasks_per_worker = 1}));
  std::vector<Future<int>> futures;
  for (int i = 0; i < 20; ++i) futures.push_back(pool.Submit(Pid, i));
  EXPECT_THAT(pool.Shutdown(), IsOk());
  std::set<int> pids;
  for (Future<int>& future : futures) {
    TENON_ASSERT_OK_AND_ASSIGN(const int pid, Get(std::move(future)));
    pids.insert(pid);
  }
  EXPECT_EQ(pids.size(), 20u);
}

// Volatile, or the compiler removes the unused memory.
std::string* volatile leaked = nullptr;

int Grow(int mebibytes) {
  leaked = new std::string(static_cast<size_t>(mebibytes) << 20, 'x');
  return getpid();
}
TENON_POOL_FUNCTION(Grow);

TEST_F(ProcessPoolFaultTest, WorkerThatHasGrownIsReplaced) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's memory counts as well";
#endif
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 1, .max_worker_rss_bytes = 64 << 20}));
  TENON_ASSERT_OK_AND_ASSIGN(const int first, Get(pool.Submit(Grow, 1)));
  EXPECT_THAT(Get(pool.Submit(Grow, 80)), IsOkAndHolds(first));
  TENON_ASSERT_OK_AND_ASSIGN(const int second, Get(pool.Submit(Grow, 1)));
  EXPECT_NE(second, first);
}

TEST_F(ProcessPoolFaultTest, GrowsWithItsTasksAndShrinksWithout) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 4,
                           .min_workers = 1,
                           .idle_timeout = absl::Milliseconds(20)}));
  EXPECT_EQ(pool.counts().workers, 1u);
  std::vector<Future<void>> futures;
  for (int i = 0; i < 8; ++i) futures.push_back(pool.Submit(Sleep, 100));
  EXPECT_TRUE(Becomes([&] { return pool.counts().workers == 4; }));
  for (Future<void>& future : futures) {
    EXPECT_THAT(Get(std::move(future)), IsOk());
  }
  EXPECT_TRUE(Becomes([&] { return pool.counts().workers == 1; }));
  EXPECT_THAT(Get(pool.Submit(Pid, 1)), IsOk());
}

TEST_F(ProcessPoolFaultTest, NoWorkerWithoutATask) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool, ProcessPool::Create({.workers = 2, .min_workers = 0}));
  EXPECT_EQ(pool.counts().started, 0u);
  EXPECT_THAT(Get(pool.Submit(Pid, 1)), IsOk());
  EXPECT_EQ(pool.counts().started, 1u);
}

// ---- Initializers ----

int initialized = 0;

absl::Status Initialize(int value, std::string how) {
  if (how == "fail") return absl::NotFoundError("no model");
  if (how == "die") _exit(7);
  initialized += value;
  return absl::OkStatus();
}
TENON_POOL_FUNCTION(Initialize);

int Initialized(int) { return initialized; }
TENON_POOL_FUNCTION(Initialized);

TEST_F(ProcessPoolFaultTest, InitializerRunsOnceInEachWorker) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 2,
                           .max_tasks_per_worker = 3,
                           .initializer = InitializeBy(Initialize, 5, "")}));
  EXPECT_THAT(
      Get(pool.Map(Initialized, std::vector<int>(20), {.chunk_size = 1})),
      IsOkAndHolds(std::vector<int>(20, 5)));
}

TEST_F(ProcessPoolFaultTest, InitializerThatFailsBreaksThePool) {
  for (const char* how : {"fail", "die"}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        ProcessPool pool,
        ProcessPool::Create(
            {.workers = 2, .initializer = InitializeBy(Initialize, 5, how)}));
    const absl::Status early = Get(pool.Submit(Pid, 1)).status();
    const absl::Status late = Get(pool.Submit(Pid, 1)).status();
    EXPECT_EQ(early, late);
    EXPECT_THAT(std::string(late.message()),
                HasSubstr(*how == 'f' ? "the pool's initializer: no model"
                                      : "exited with code 7"));
    EXPECT_THAT(pool.Shutdown(), IsOk());
  }
}

int NotRegistered(int x) { return x; }

TEST_F(ProcessPoolFaultTest, InitializerThatDoesNotExist) {
  EXPECT_THAT(
      ProcessPool::Create(
          {.workers = 1, .initializer = InitializeBy(NotRegistered, 1)}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("TENON_POOL_FUNCTION")));
}

int Take(Channel channel) { return channel.fd(); }
TENON_POOL_FUNCTION(Take);

TEST_F(ProcessPoolFaultTest, InitializerWithWhatOnlyOneProcessCanHave) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  EXPECT_THAT(
      ProcessPool::Create(
          {.workers = 1,
           .initializer = InitializeBy(Take, std::move(ends.first))}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a Channel")));
}

// ---- Ends ----

TEST_F(ProcessPoolFaultTest, ShutdownWaitsForAllAndThenRefuses) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  std::vector<Future<void>> futures;
  for (int i = 0; i < 6; ++i) futures.push_back(pool.Submit(Sleep, 50));
  EXPECT_THAT(pool.Shutdown(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(Get(pool.Submit(Sleep, 0)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(pool.Shutdown(), IsOk());
  for (Future<void>& future : futures) {
    EXPECT_TRUE(future.done());
    EXPECT_THAT(Get(std::move(future)), IsOk());
  }
  EXPECT_THAT(pool.Shutdown(), IsOk()) << "once more";
  EXPECT_FALSE(HasChildren());
}

TEST_F(ProcessPoolFaultTest, AbortEndsTenThousandLongTasks) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  std::vector<Future<void>> futures;
  for (int i = 0; i < 10'000; ++i) {
    futures.push_back(pool.Submit(Sleep, 10'000'000));
  }
  pool.Abort();
  EXPECT_FALSE(HasChildren());
  for (Future<void>& future : futures) {
    ASSERT_TRUE(future.done());
    ASSERT_THAT(Get(std::move(future)), StatusIs(absl::StatusCode::kCancelled));
  }
}

TEST_F(ProcessPoolFaultTest, AbortCutsAShutdownShort) {
  for (int round = 0; round < 20; ++round) {
    TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                               ProcessPool::Create({.workers = 1}));
    Future<void> future = pool.Submit(Sleep, round % 2 == 0 ? 10'000'000 : 0);
    std::thread other([&] { EXPECT_THAT(pool.Shutdown(), IsOk()); });
    pool.Abort();
    other.join();
    EXPECT_TRUE(future.done());
  }
}

TEST_F(ProcessPoolFaultTest, DroppedPoolFailsWhatIsNotDone) {
  std::optional<Future<void>> future;
  {
    TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                               ProcessPool::Create({.workers = 1}));
    future = pool.Submit(Sleep, 10'000'000);
  }
  EXPECT_THAT(Get(*std::move(future)), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(ProcessPoolFaultTest, CallbacksMaySubmitAndMayNotWaitForThePool) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<int> chained = pool.Submit(Pid, 1).Then([&](absl::StatusOr<int>) {
    EXPECT_THAT(pool.Shutdown(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    return pool.Submit(Pid, 2);
  });
  EXPECT_THAT(Get(std::move(chained)), IsOkAndHolds(pool.worker_pids()[0]));
}

int64_t SquareOf(int64_t x) { return x * x; }
TENON_POOL_FUNCTION(SquareOf);

TEST_F(ProcessPoolFaultTest, LargePool) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kWorkers = 20;
#else
  constexpr int kWorkers = 200;
#endif
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = kWorkers}));
  std::vector<int64_t> inputs(1000);
  std::iota(inputs.begin(), inputs.end(), 0);
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> squares,
                             Get(pool.Map(SquareOf, inputs)));
  EXPECT_EQ(std::accumulate(squares.begin(), squares.end(), int64_t{0}),
            332'833'500);
  EXPECT_THAT(pool.Shutdown(), IsOk());
}

}  // namespace
}  // namespace tenon::spawn
