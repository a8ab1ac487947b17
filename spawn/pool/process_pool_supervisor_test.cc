// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Workers of a pool that are started together share a supervisor.

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_testing.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using futures::Future;
using ::testing::Contains;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class ProcessPoolSupervisorTest : public ChildTest {};

void Sleep(int milliseconds) {
  absl::SleepFor(absl::Milliseconds(milliseconds));
}
TENON_POOL_FUNCTION(Sleep);

// The workers of each supervisor.
std::map<pid_t, std::set<pid_t>> Families(const ProcessPool& pool) {
  std::map<pid_t, std::set<pid_t>> families;
  for (const pid_t pid : pool.worker_pids()) {
    families[ParentPid(pid)].insert(pid);
  }
  return families;
}

std::vector<size_t> SizesOfFamilies(const ProcessPool& pool) {
  std::vector<size_t> sizes;
  for (const auto& [supervisor, workers] : Families(pool)) {
    sizes.push_back(workers.size());
  }
  return sizes;
}

TEST_F(ProcessPoolSupervisorTest, UpToEightWorkersHaveOneSupervisor) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool eight,
                             ProcessPool::Create({.workers = 8}));
  EXPECT_THAT(SizesOfFamilies(eight), UnorderedElementsAre(8u));
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool ten,
                             ProcessPool::Create({.workers = 10}));
  EXPECT_THAT(SizesOfFamilies(ten), UnorderedElementsAre(8u, 2u));
}

TEST_F(ProcessPoolSupervisorTest, AKilledWorkerCostsNoOther) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 4}));
  std::vector<pid_t> before = pool.worker_pids();
  ASSERT_EQ(kill(before[0], SIGKILL), 0);
  ASSERT_TRUE(Becomes([&] {
    return pool.counts().started == 5 && pool.worker_pids().size() == 4;
  }));
  before.erase(before.begin());
  const auto families = Families(pool);
  EXPECT_THAT(families,
              Contains(Pair(ParentPid(before[0]),
                            std::set<pid_t>(before.begin(), before.end()))));
  EXPECT_THAT(families, SizeIs(2));  // The other one is that of the new worker.
  EXPECT_THAT(pool.Shutdown(), IsOk());
}

TEST_F(ProcessPoolSupervisorTest, AKilledSupervisorCostsItsWorkersAndNoOther) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 9}));
  std::vector<Future<void>> tasks;
  for (int i = 0; i < 9; ++i) tasks.push_back(pool.Submit(Sleep, 2000));
  ASSERT_TRUE(Becomes([&] { return pool.counts().idle == 0; }));
  const auto families = Families(pool);
  ASSERT_THAT(families, SizeIs(2));
  const auto large = std::find_if(
      families.begin(), families.end(),
      [](const auto& family) { return family.second.size() == 8; });
  ASSERT_NE(large, families.end());
  ASSERT_EQ(kill(large->first, SIGKILL), 0);
  int failed = 0;
  for (Future<void>& task : tasks) {
    const absl::Status how = Get(std::move(task));
    if (how.ok()) continue;
    EXPECT_THAT(how, StatusIs(absl::StatusCode::kAborted));
    ++failed;
  }
  EXPECT_EQ(failed, 8);
  EXPECT_TRUE(Becomes([&] { return pool.counts().started == 17; }));
  EXPECT_TRUE(Becomes([&] { return pool.counts().idle == 9; }));
  for (int i = 0; i < 9; ++i) tasks.push_back(pool.Submit(Sleep, 0));
  for (size_t i = 9; i < tasks.size(); ++i) {
    EXPECT_THAT(Get(std::move(tasks[i])), IsOk());
  }
  EXPECT_THAT(pool.Shutdown(), IsOk());
}

// ---- At a limit ----

// The number of workers of a pool for eight that has one, once no more than
// `left` descriptors can be opened.
absl::StatusOr<size_t> GrowWith(size_t left) {
  TENON_ASSIGN_OR_RETURN(ProcessPool pool,
                         ProcessPool::Create({.workers = 8, .min_workers = 1}));
  const FewFds few(left);
  std::vector<Future<void>> tasks;
  for (int i = 0; i < 16; ++i) tasks.push_back(pool.Submit(Sleep, 500));
  for (Future<void>& task : tasks) {
    TENON_RETURN_IF_ERROR(Get(std::move(task)));
  }
  return pool.counts().workers;
}

// Enough for one worker more at least, then for several, and never for all,
// even if each is started by itself.
absl::Status GrowAtTheLimit(Child&) {
  TENON_ASSIGN_OR_RETURN(const size_t few, GrowWith(20));
  TENON_ASSIGN_OR_RETURN(const size_t more, GrowWith(36));
  if (few >= 2 && more >= few + 2 && more < 8) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(few, " workers, then ", more, " workers"));
}
TENON_SPAWN_ENTRY("grow-at-the-limit", GrowAtTheLimit);

TEST_F(ProcessPoolSupervisorTest, WhereNotAllCanBeStartedSomeAre) {
  TENON_ASSERT_OK_AND_ASSIGN(Process parent,
                             Process::Start({.entry = "grow-at-the-limit"}));
  EXPECT_THAT(parent.Join(Watchdog()), IsOk());
}

}  // namespace
}  // namespace tenon::spawn
