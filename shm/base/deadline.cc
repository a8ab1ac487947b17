// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/deadline.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include <chrono>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/posix_error.h"

namespace tenon {

Deadline Deadline::After(absl::Duration wait) {
  if (wait <= absl::ZeroDuration()) return Passed();
  const Clock::time_point now = Clock::now();
  const absl::Duration left = absl::FromChrono(Clock::time_point::max() - now);
  if (wait >= left) return Never();
  return Deadline(now + absl::ToChronoNanoseconds(wait));
}

absl::Duration Deadline::Remaining() const {
  if (is_never()) return absl::InfiniteDuration();
  const Clock::time_point now = Clock::now();
  // Compared before subtracting: Passed() is the least time point, and the
  // difference to it would overflow.
  if (now >= when_) return absl::ZeroDuration();
  return absl::FromChrono(when_ - now);
}

absl::StatusOr<int> PollUntil(std::span<pollfd> fds, Deadline deadline) {
  for (;;) {
    timespec timeout;
    timespec* wait = nullptr;
    if (!deadline.is_never()) {
      timeout = absl::ToTimespec(deadline.Remaining());
      wait = &timeout;
    }
    const int ready = ppoll(fds.data(), fds.size(), wait, nullptr);
    if (ready >= 0) return ready;
    const int error = errno;
    if (error != EINTR) {
      return PosixError(error, "ppoll",
                        absl::StrCat(fds.size(), " descriptors"));
    }
  }
}

}  // namespace tenon
