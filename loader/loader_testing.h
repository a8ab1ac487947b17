// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of loaders: what they give, and that nothing is left of them.

#ifndef TENON_LOADER_LOADER_TESTING_H_
#define TENON_LOADER_LOADER_TESTING_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/dead_names_testing.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon::loader {

// Ten times what anything here may take.
inline Deadline Watchdog() { return Deadline::After(absl::Seconds(60)); }

// The part of a batch that runs must agree on: number, values, noise.
struct Copy {
  int64_t number;
  std::vector<int64_t> values;
  std::vector<float> noise;
  friend bool operator==(const Copy&, const Copy&) = default;
};

inline Copy CopyOf(const Batch& batch) {
  const auto values = *batch.data<int64_t>("value");
  const auto noise = *batch.data<float>("noise");
  return {batch.number(),
          {values.begin(), values.end()},
          {noise.begin(), noise.end()}};
}

inline std::vector<int64_t> NumbersOf(const std::vector<Copy>& batches) {
  std::vector<int64_t> numbers;
  for (const Copy& batch : batches) numbers.push_back(batch.number);
  return numbers;
}

// All batches of one epoch, or the first error.
inline absl::StatusOr<std::vector<Copy>> RunEpoch(Loader& loader,
                                                  int64_t epoch) {
  std::vector<Copy> batches;
  EpochRange range = loader.Epoch(epoch);
  for (;;) {
    absl::StatusOr<std::optional<Batch>> batch = range.Next(Watchdog());
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return batches;
    batches.push_back(CopyOf(**batch));
  }
}

// That loaders of process `pid` have left behind.
inline std::vector<std::string> DeadNamesOf(pid_t pid) {
  return DeadNames(absl::StrCat("tenon-loader-", pid, "-"));
}

// Remembers the processes of a loader, to see them gone.
class Pids {
 public:
  explicit Pids(const Loader& loader) {
    for (const pid_t pid : loader.worker_pids()) {
      fds_.push_back(*PidFd::Open(pid));
    }
  }
  bool AllEnded() const {
    for (const PidFd& fd : fds_) {
      if (!fd.HasEnded()) return false;
    }
    return true;
  }

 private:
  std::vector<PidFd> fds_;
};

// Every test of a running loader: with so many workers of that kind, by that
// strategy.
class LoaderTest : public ::testing::TestWithParam<
                       std::tuple<int, SharingStrategy, WorkerKind>> {
 protected:
  int workers() const { return std::get<0>(GetParam()); }

  LoaderOptions Options(int64_t batch_size = 1) const {
    return {.batch_size = batch_size,
            .workers = workers(),
            .worker_kind = std::get<2>(GetParam()),
            .seed = 7,
            .strategy = std::get<1>(GetParam())};
  }

  void SetUp() override { NoteFds(); }
  // What is open now may stay open.
  void NoteFds() { fds_before_ = CountOpenFds(); }

  // Nothing is left of any loader: it must be gone when the test ends.
  void TearDown() override {
    EXPECT_EQ(CountOpenFds(), fds_before_);
    // Those of others come and go; what this one has left would stay.
    EXPECT_TRUE(Becomes([] { return DeadNamesOf(getpid()).empty(); }))
        << testing::PrintToString(DeadNamesOf(getpid()));
  }

 private:
  size_t fds_before_ = 0;
};

inline std::string LoaderCaseName(
    const ::testing::TestParamInfo<LoaderTest::ParamType>& test) {
  return absl::StrCat(
      std::get<2>(test.param) == WorkerKind::kThread ? "t" : "w",
      std::get<0>(test.param), "_",
      std::string(SharingStrategyName(std::get<1>(test.param))));
}

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOADER_TESTING_H_
