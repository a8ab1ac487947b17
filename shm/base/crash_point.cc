// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/crash_point.h"

#include <atomic>

namespace tenon {
namespace {

// Constant-initialised: points of other files register themselves in any order.
constinit std::atomic<const CrashPoint*> last{nullptr};

}  // namespace

CrashPoint::CrashPoint(const char* name) : name_(name) {
  // A loop, because a library may be loaded while another one is.
  next_ = last.load(std::memory_order_acquire);
  do {
    index_ = next_ == nullptr ? 0 : next_->index_ + 1;
  } while (!last.compare_exchange_weak(next_, this, std::memory_order_acq_rel,
                                       std::memory_order_acquire));
}

const CrashPoint* LastCrashPoint() {
  return last.load(std::memory_order_acquire);
}

CrashPointHook SetCrashPointHook(CrashPointHook hook) {
  return internal_crash_point::hook.exchange(hook, std::memory_order_acq_rel);
}

namespace internal_crash_point {

void Pass(const CrashPoint& point) {
  // Loads again, with acquire, so that the data that the hook reads is visible.
  const CrashPointHook present = hook.load(std::memory_order_acquire);
  if (present != nullptr) present(point);
}

}  // namespace internal_crash_point
}  // namespace tenon
