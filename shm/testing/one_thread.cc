// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/one_thread.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/fork_count.h"

namespace tenon {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr bool kHasThreadSanitizer = true;
#else
constexpr bool kHasThreadSanitizer = false;
#endif

}  // namespace

absl::Status CheckOneThread() {
  if (kHasThreadSanitizer) return absl::OkStatus();
  const absl::Time give_up = absl::Now() + absl::Seconds(1);
  while (CountThreads() > 1) {
    if (absl::Now() > give_up) {
      return absl::FailedPreconditionError(absl::StrCat(
          "fork() of a test with ", CountThreads(),
          " threads; fork before they start, or set may_have_threads"));
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return absl::OkStatus();
}

}  // namespace tenon
