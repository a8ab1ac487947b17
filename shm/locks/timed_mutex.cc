// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/locks/timed_mutex.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/system_fence.h"

namespace tenon::timed_mutex_internal {
namespace {

// A processor publishes a store within microseconds.
constexpr absl::Duration kAnyStoreIsSeen = absl::Milliseconds(100);

}  // namespace

// ThreadSanitizer does not know that a fence in one thread orders the accesses
// of another: it would report each hand-over as a race, and if these were
// suppressed it would miss the races of the data.
bool System::CanFence() {
#ifdef __SANITIZE_THREAD__
  return false;
#else
  return JoinSystemFence();
#endif
}

void System::FenceAll() {
  // A child whose bias was claimed before fork() joins here.
  if (JoinSystemFence() && SystemFence().ok()) return;
  // The process has since forbidden itself the call.
  absl::SleepFor(kAnyStoreIsSeen);
}

}  // namespace tenon::timed_mutex_internal
