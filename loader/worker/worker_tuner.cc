// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tenon::loader {
namespace {

constexpr int64_t kWindowBatches = 8;
constexpr double kWaits = 0.05;  // Of the consumer's time.
constexpr double kHardlyWaits = 0.01;
constexpr double kFaster = 0.95;  // Of the time for a batch.
constexpr int kIdleWindows = 8;
constexpr int kRetryWindows = 16;  // After the first failed trial.

std::string Percent(double share) {
  return absl::StrCat(std::lround(100 * share), "%");
}

}  // namespace

WorkerTuner::WorkerTuner(int most, int prefetch)
    : most_(most),
      prefetch_(prefetch),
      enough_(most),
      to_retry_(kRetryWindows),
      retry_after_(kRetryWindows),
      reason_(absl::StrCat("1 of at most ", most, ", to begin with")) {}

void WorkerTuner::OnBatch(int64_t waited_ns, int64_t passed_ns) {
  if (to_skip_ > 0) {
    --to_skip_;
    return;
  }
  ++batches_;
  waited_ns_ += waited_ns;
  passed_ns_ += std::max<int64_t>(passed_ns, 1);
  if (batches_ < std::max<int64_t>(kWindowBatches, 2 * workers_)) return;
  const double passed = static_cast<double>(passed_ns_);
  const double waiting = static_cast<double>(waited_ns_) / passed;
  const double ns_per_batch = passed / static_cast<double>(batches_);
  batches_ = waited_ns_ = passed_ns_ = 0;
  OnWindow(waiting, ns_per_batch);
}

void WorkerTuner::OnWindow(double waiting, double ns_per_batch) {
  if (trial_) {
    const Trial trial = *std::exchange(trial_, std::nullopt);
    if (ns_per_batch > kFaster * trial.ns_per_batch) {
      enough_ = trial.before;
      to_retry_ = retry_after_;
      retry_after_ = std::min(2 * retry_after_, 1 << 20);
      Use(trial.before,
          absl::StrCat(workers_, " were not faster than ", trial.before));
      return;
    }
  }
  if (waiting > kWaits) {
    idle_windows_ = 0;
    if (workers_ >= enough_ && --to_retry_ <= 0) enough_ = most_;
    if (workers_ >= enough_) return;
    too_few_ = std::max(too_few_, workers_);
    if (std::exchange(lowered_, false)) {
      Use(workers_ + 1, absl::StrCat(workers_, " were too few"));
      return;
    }
    trial_ = {.before = workers_, .ns_per_batch = ns_per_batch};
    Use(std::min(2 * workers_, enough_),
        absl::StrCat("the consumer waited for ", Percent(waiting),
                     " of its time with ", workers_));
    return;
  }
  idle_windows_ = waiting < kHardlyWaits ? idle_windows_ + 1 : 0;
  if (idle_windows_ < kIdleWindows || workers_ - 1 <= too_few_) return;
  lowered_ = true;
  Use(workers_ - 1, absl::StrCat("the consumer hardly waited with ", workers_));
}

void WorkerTuner::Use(int workers, const std::string& reason) {
  // What is ahead now was assigned to the workers so far.
  to_skip_ = int64_t{prefetch_} * std::max(workers, workers_);
  workers_ = workers;
  reason_ = absl::StrCat(workers, " of at most ", most_, ": ", reason);
  idle_windows_ = 0;
}

}  // namespace tenon::loader
