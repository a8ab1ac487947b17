// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/schedule_strategy.h"

#include <algorithm>
#include <cstdint>

#include "tenon/shm/base/check.h"

namespace tenon {
namespace {

// A thread that spins without Pause() would run for ever.
constexpr uint32_t kLongestRow = 1000;

}  // namespace

void ScheduleStrategy::Begin(const Options& options, ScheduleRandom* random) {
  TENON_CHECK(
      options.change_points >= 0 && options.change_points <= kMaxChangePoints,
      "too many change points");
  random_ = random;
  step_ = 0;
  steps_expected_ = std::max<uint32_t>(options.steps, 2);
  waiting_ = 0;
  kind_ = options.kind;
  if (kind_ == ScheduleStrategyKind::kMixed) {
    static constexpr ScheduleStrategyKind kDrawn[] = {
        ScheduleStrategyKind::kUniform, ScheduleStrategyKind::kUniform,
        ScheduleStrategyKind::kPriorities, ScheduleStrategyKind::kStarvation};
    kind_ = kDrawn[random->Below(4)];
  }
  if (kind_ == ScheduleStrategyKind::kPriorities) {
    for (int64_t& priority : priority_) {
      priority = 1 + static_cast<int64_t>(random->Next() >> 2);
    }
    lowest_ = 0;
    in_a_row_ = 0;
    changes_ = options.change_points;
    for (int i = 0; i < changes_; ++i) {
      change_at_[i] = 1 + random->Below(steps_expected_);
    }
  } else if (kind_ == ScheduleStrategyKind::kStarvation) {
    starved_ = 0;
    stretch_ends_ = 0;
  }
}

void ScheduleStrategy::Waits(int thread) {
  waiting_ |= 1u << thread;
  if (kind_ == ScheduleStrategyKind::kPriorities) priority_[thread] = --lowest_;
}

int ScheduleStrategy::PickUniform(uint32_t runnable) {
  uint32_t count = 0;
  for (uint32_t left = runnable; left != 0; left &= left - 1) ++count;
  const uint64_t random = random_->Next();
  if (random % 16 == 0) waiting_ = 0;
  uint32_t skip = static_cast<uint32_t>(((random >> 32) * count) >> 32);
  while (skip-- > 0) runnable &= runnable - 1;
  return __builtin_ctz(runnable);
}

int ScheduleStrategy::PickByPriority(uint32_t runnable, int current) {
  if (std::count(change_at_.begin(), change_at_.begin() + changes_, step_) >
      0) {
    priority_[current] = --lowest_;
  }
  int picked = -1;
  for (uint32_t left = runnable; left != 0; left &= left - 1) {
    const int thread = __builtin_ctz(left);
    if (picked < 0 || priority_[thread] > priority_[picked]) picked = thread;
  }
  in_a_row_ = picked == current ? in_a_row_ + 1 : 0;
  if (in_a_row_ == kLongestRow) {
    in_a_row_ = 0;
    priority_[picked] = --lowest_;
  }
  return picked;
}

int ScheduleStrategy::PickStarving(uint32_t runnable) {
  if (step_ >= stretch_ends_) {
    starved_ = starved_ != 0 ? 0 : 1u << PickUniform(runnable);
    stretch_ends_ = step_ + Stretch();
  }
  if ((runnable & ~starved_) != 0) runnable &= ~starved_;
  return PickUniform(runnable);
}

// From 1 to twice the expected length.
uint32_t ScheduleStrategy::Stretch() {
  const int magnitudes = 33 - __builtin_clz(steps_expected_);
  return 1 + random_->Below(2u << random_->Below(magnitudes));
}

const char* ToString(ScheduleStrategyKind kind) {
  switch (kind) {
    case ScheduleStrategyKind::kMixed:
      return "mixed";
    case ScheduleStrategyKind::kUniform:
      return "uniform";
    case ScheduleStrategyKind::kPriorities:
      return "priorities";
    case ScheduleStrategyKind::kStarvation:
      return "starvation";
  }
  return "?";
}

}  // namespace tenon
