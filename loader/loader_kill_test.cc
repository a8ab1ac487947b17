// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A consumer and its workers are killed or stopped at each step of a batch, and
// of the replacement of a worker, under each policy: an epoch has each sample
// once, or ends with an error that says why, and nothing is left.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;

constexpr int64_t kSamples = 12;
constexpr int64_t kDeadly = 7;

// Of the run: whether item 7 has killed a worker.
std::atomic<bool>* has_killed = nullptr;

// Workers are forked, and share that.
class DiesOnce : public Numbers {
 public:
  DiesOnce() : Numbers(kSamples) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    if (index == kDeadly && GetWorkerInfo() && !has_killed->exchange(true)) {
      raise(SIGKILL);
    }
    return Numbers::Get(index, random, sample);
  }
};
TENON_LOADER_DATASET(DiesOnce());

class LoaderKillTest : public ::testing::TestWithParam<
                           std::tuple<OnWorkerDeath, int, KillMethod>> {};

LoaderOptions OptionsOf(OnWorkerDeath policy, int workers) {
  return {.batch_size = 4,
          .workers = workers,
          .start_method = workers == 0
                              ? std::nullopt
                              : std::optional(spawn::StartMethod::kFork),
          .seed = 7,
          .on_worker_death = policy,
          .strategy = SharingStrategy::kFileDescriptor};
}

// Whether `batch` is `whole` without at most `most` samples.
bool IsPartOf(const Copy& batch, const Copy& whole, size_t most) {
  size_t from = 0;
  for (const int64_t value : batch.values) {
    while (from < whole.values.size() && whole.values[from] != value) ++from;
    if (from == whole.values.size()) return false;
    ++from;
  }
  return batch.number == whole.number &&
         batch.values.size() + most >= whole.values.size();
}

// An epoch while processes die.
void Train(OnWorkerDeath policy, int workers, KillMethod method) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto alone,
      Loader::Create<Numbers>(OptionsOf(OnWorkerDeath::kFail, 0), kSamples));
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Copy> whole,
                             RunEpoch(*alone, 0));
  auto loader =
      policy == OnWorkerDeath::kFail
          ? Loader::Create<Numbers>(OptionsOf(policy, workers), kSamples)
          : Loader::Create<DiesOnce>(OptionsOf(policy, workers));
  ASSERT_THAT(loader, IsOk());
  const auto batches = RunEpoch(**loader, 0);
  if (policy == OnWorkerDeath::kFail && method == KillMethod::kKill &&
      !batches.ok()) {
    EXPECT_THAT(batches, StatusIs(StatusCode::kAborted,
                                  ::testing::HasSubstr("SIGKILL")));
    return;
  }
  ASSERT_THAT(batches, IsOk());
  if (policy != OnWorkerDeath::kSkipSample) {
    EXPECT_EQ(*batches, whole);
    return;
  }
  ASSERT_EQ(batches->size(), whole.size());
  size_t samples = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(IsPartOf((*batches)[i], whole[i], 2));
    samples += (*batches)[i].values.size();
  }
  // One that kills, and the one at the step where another worker is killed.
  EXPECT_GE(samples, static_cast<size_t>(kSamples) - 2);
}

TEST_P(LoaderKillTest, AtEachStep) {
  const OnWorkerDeath policy = std::get<0>(GetParam());
  const int workers = std::get<1>(GetParam());
  const KillMethod method = std::get<2>(GetParam());
  const SharedObject<std::atomic<bool>> killed;
  has_killed = killed.get();
  KillScenario scenario;
  scenario.name = absl::StrCat("loader ", static_cast<int>(policy), ", ",
                               workers, " workers");
  // Those of a replacement are "loader_replace.".
  scenario.points = policy == OnWorkerDeath::kFail ? "loader." : "loader";
  scenario.prepare = [&] { killed->store(false); };
  scenario.roles = {
      {"trainer", [=](Peer&) { Train(policy, workers, method); }}};
  scenario.method = method;
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.ok()) << report.ToString();
}

std::string KillCaseName(
    const ::testing::TestParamInfo<LoaderKillTest::ParamType>& test) {
  const auto [policy, workers, method] = test.param;
  const char* const name = policy == OnWorkerDeath::kFail      ? "fail"
                           : policy == OnWorkerDeath::kRestart ? "restart"
                                                               : "skip";
  return absl::StrCat(name, "_w", workers,
                      method == KillMethod::kKill ? "_kill" : "_stop");
}
INSTANTIATE_TEST_SUITE_P(
    Policies, LoaderKillTest,
    ::testing::Combine(::testing::Values(OnWorkerDeath::kFail,
                                         OnWorkerDeath::kRestart,
                                         OnWorkerDeath::kSkipSample),
                       ::testing::Values(1, 2),
                       ::testing::Values(KillMethod::kKill, KillMethod::kStop)),
    KillCaseName);

}  // namespace
}  // namespace tenon::loader
