// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/doorbell/spin_budget.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace tenon {
namespace {

uint32_t MostFor(int cores) {
  if (cores <= 1) return 0;
  return cores == 2 ? SpinBudget::kTwoCores : SpinBudget::kManyCores;
}

}  // namespace

SpinBudget::SpinBudget(int cores) : most_(MostFor(cores)), turns_(most_) {}

SpinBudget SpinBudget::ForThisProcess() { return SpinBudget(UsableCores()); }

SpinBudget SpinBudget::ForThisProcess(int others) {
  SpinBudget budget(UsableCores());
  if (UsableCores() > std::max(1, others)) {
    budget.most_ = budget.turns_ = kManyCores;
  }
  return budget;
}

void SpinBudget::Succeeded() {
  turns_ = IsProbe() ? most_ : std::min(most_, turns_ * 2);
  failed_ = 0;
  unsuccessful_ = 0;
}

void SpinBudget::Failed() {
  if (IsProbe()) {
    unsuccessful_ = 0;
    return;
  }
  unsuccessful_ = std::min(unsuccessful_ + 1, kProbeAfter);
  if (++failed_ < kPatience) return;
  failed_ = 0;
  turns_ = std::min(most_, std::max(kLeast, turns_ / 2));
}

int UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
    return std::max(1, CPU_COUNT(&cores));
  }
  // More cores than a cpu_set_t has: EINVAL.
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace tenon
