// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/pin_to_one_core.h"

#include <sched.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace tenon {

struct PinToOneCore::Cores {
  cpu_set_t set;
};

PinToOneCore::PinToOneCore() {
  auto before = std::make_unique<Cores>();
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
  if (sched_getaffinity(0, sizeof(before->set), &before->set) == 0 &&
      sched_setaffinity(0, sizeof(here), &here) == 0) {
    before_ = std::move(before);
  }
}

PinToOneCore::~PinToOneCore() {
  if (before_ != nullptr) {
    sched_setaffinity(0, sizeof(before_->set), &before_->set);
  }
}

}  // namespace tenon
