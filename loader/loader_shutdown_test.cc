// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The end of a loader, whatever state it is in: prompt, and nothing is left.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

// What a loader may be doing.
enum class State { kIdle, kMidEpoch, kFull, kDead, kStopped, kReplaced };

std::string StateName(State state) {
  switch (state) {
    case State::kIdle:
      return "idle";
    case State::kMidEpoch:
      return "mid_epoch";
    case State::kFull:
      return "full";
    case State::kDead:
      return "dead";
    case State::kStopped:
      return "stopped";
    default:
      return "replaced";
  }
}

absl::StatusOr<std::unique_ptr<Loader>> LoaderIn(State state,
                                                 SharingStrategy strategy) {
  LoaderOptions options = {.batch_size = 4,
                           .workers = 3,
                           .prefetch = 4,
                           .on_worker_death = OnWorkerDeath::kRestart,
                           .strategy = strategy};
  auto loader = Loader::Create<Numbers>(options, 1000);
  if (!loader.ok() || state == State::kIdle) return loader;
  EpochRange epoch = (*loader)->Epoch(0);
  // Kept by the iteration that is given up.
  const auto next = [&] { return epoch.Next(Watchdog()).status(); };
  if (const absl::Status got = next(); !got.ok()) return got;
  const std::vector<pid_t> pids = (*loader)->worker_pids();
  switch (state) {
    case State::kFull:
      absl::SleepFor(absl::Milliseconds(50));  // All rings are full.
      break;
    case State::kDead:
      for (const pid_t pid : pids) kill(pid, SIGKILL);
      break;
    case State::kStopped:
      kill(pids[0], SIGSTOP);
      break;
    case State::kReplaced:
      kill(pids[1], SIGKILL);
      for (int i = 0; i < 20; ++i) {
        if (const absl::Status got = next(); !got.ok()) return got;
      }
      break;
    default:
      break;
  }
  return loader;
}

class LoaderShutdownTest
    : public ::testing::TestWithParam<std::tuple<State, SharingStrategy>> {
 protected:
  State state() const { return std::get<0>(GetParam()); }
  absl::StatusOr<std::unique_ptr<Loader>> MakeLoader() const {
    return LoaderIn(state(), std::get<1>(GetParam()));
  }
  void SetUp() override { fds_ = CountOpenFds(); }
  void TearDown() override {
    EXPECT_EQ(CountOpenFds(), fds_);
    EXPECT_TRUE(Becomes([] { return DeadNamesOf(getpid()).empty(); }));
  }

 private:
  size_t fds_ = 0;
};
std::string ShutdownCaseName(
    const ::testing::TestParamInfo<LoaderShutdownTest::ParamType>& test) {
  return absl::StrCat(
      StateName(std::get<0>(test.param)), "_",
      std::string(SharingStrategyName(std::get<1>(test.param))));
}
INSTANTIATE_TEST_SUITE_P(
    States, LoaderShutdownTest,
    ::testing::Combine(::testing::Values(State::kIdle, State::kMidEpoch,
                                         State::kFull, State::kDead,
                                         State::kStopped, State::kReplaced),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem)),
    ShutdownCaseName);

// Those that live.
std::vector<PidFd> Open(absl::Span<const pid_t> pids) {
  std::vector<PidFd> fds;
  for (const pid_t pid : pids) {
    absl::StatusOr<PidFd> fd = PidFd::Open(pid);
    if (pid != 0 && fd.ok()) fds.push_back(*std::move(fd));
  }
  return fds;
}

bool AllEnd(const std::vector<PidFd>& processes) {
  return Becomes([&] {
    return std::all_of(processes.begin(), processes.end(),
                       [](const PidFd& process) { return process.HasEnded(); });
  });
}

TEST_P(LoaderShutdownTest, ByItsDestructor) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, MakeLoader());
  const std::vector<PidFd> workers = Open(loader->worker_pids());
  const Deadline watchdog = Deadline::After(absl::Seconds(20));
  loader.reset();
  EXPECT_FALSE(watchdog.has_passed());
  for (const PidFd& worker : workers) EXPECT_TRUE(worker.HasEnded());
}

TEST_P(LoaderShutdownTest, ByAnExceptionInTheLoop) {
  std::vector<PidFd> workers;
  try {
    absl::StatusOr<std::unique_ptr<Loader>> loader = MakeLoader();
    ASSERT_THAT(loader, IsOk());
    workers = Open((*loader)->worker_pids());
    EpochRange epoch = (*loader)->Epoch(1);
    // The stopped one will not go on by itself.
    if (state() != State::kStopped) {
      ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
    }
    throw std::runtime_error("a bug of the user");
  } catch (const std::runtime_error&) {
  }
  for (const PidFd& worker : workers) EXPECT_TRUE(worker.HasEnded());
}

// A forked child does not free the objects of its parent (PerProcess), which
// LSan takes for leaks of the child when it exits.
bool is_forked = false;
extern "C" int __lsan_is_turned_off() { return is_forked ? 1 : 0; }  // NOLINT

// Where exit() leaves a loader: nowhere, in a static object, on the stack.
std::unique_ptr<Loader> static_loader;

struct Told {
  pid_t pids[8] = {};
  std::atomic<bool> ready = false;
  std::atomic<bool> go_on = false;
};

void Exits(State state, SharingStrategy strategy, bool is_static, Told& told) {
  is_forked = true;
  absl::StatusOr<std::unique_ptr<Loader>> loader = LoaderIn(state, strategy);
  if (!loader.ok()) std::exit(4);
  const std::vector<pid_t> pids = (*loader)->worker_pids();
  for (size_t i = 0; i < pids.size(); ++i) told.pids[i] = pids[i];
  told.ready = true;
  while (!told.go_on) absl::SleepFor(absl::Milliseconds(1));
  if (is_static) static_loader = *std::move(loader);
  std::exit(0);
}

TEST_P(LoaderShutdownTest, ByExit) {
  for (const bool is_static : {false, true}) {
    const SharedObject<Told> told;
    const pid_t child = fork();
    if (child == 0) {
      Exits(state(), std::get<1>(GetParam()), is_static, *told);
    }
    ASSERT_GT(child, 0);
    TENON_ASSERT_OK_AND_ASSIGN(PidFd process, PidFd::Open(child));
    EXPECT_TRUE(Becomes([&] { return told->ready || process.HasEnded(); }));
    const std::vector<PidFd> workers = Open(told->pids);
    if (state() != State::kDead) {
      EXPECT_EQ(workers.size(), 3u);
    }
    told->go_on = true;
    EXPECT_TRUE(Becomes([&] { return process.HasEnded(); }));
    TENON_ASSERT_OK_AND_ASSIGN(const ExitStatus end, process.Reap(Watchdog()));
    EXPECT_TRUE(end.success()) << end.ToString();
    EXPECT_TRUE(AllEnd(workers));
    // A worker that was killed leaves its names to the next sweep: those of the
    // dead are removed by ReclaimDeadNames(), and here.
    const bool may_leave =
        state() == State::kDead || state() == State::kStopped;
    if (!may_leave) {
      EXPECT_TRUE(Becomes([&] { return DeadNamesOf(child).empty(); }))
          << testing::PrintToString(DeadNamesOf(child));
    }
    for (const std::string& name : DeadNamesOf(child)) {
      EXPECT_THAT(ReclaimDeadName(name), IsOk());
    }
  }
}

}  // namespace
}  // namespace tenon::loader
