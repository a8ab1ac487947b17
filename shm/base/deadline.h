// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Deadline: the moment after which a call stops waiting.
//
//   return child.WaitForEnd(Deadline::After(absl::Seconds(2)));
//
// A deadline is a moment, not a duration, so that a call made of several waits
// passes one deadline on and meets it as a whole. It is counted on
// CLOCK_MONOTONIC: a wall clock that jumps neither fires nor delays it, which
// is why it is not an absl::Time.

#ifndef TENON_SHM_BASE_DEADLINE_H_
#define TENON_SHM_BASE_DEADLINE_H_

#include <poll.h>

#include <chrono>
#include <span>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// A value; copying it is free. Meaningful only within the process that made it.
class Deadline {
 public:
  // `wait` from now; a zero or negative wait has passed already. Very long
  // waits saturate to Never().
  static Deadline After(absl::Duration wait);
  // Waits as long as it takes.
  static Deadline Never() { return Deadline(Clock::time_point::max()); }
  // Has passed: a call with it tries once and does not wait.
  static Deadline Passed() { return Deadline(Clock::time_point::min()); }

  bool is_never() const { return when_ == Clock::time_point::max(); }
  bool has_passed() const { return !is_never() && Clock::now() >= when_; }

  // The time left to wait: zero once passed, infinite if never.
  absl::Duration Remaining() const;

  // The earlier of the two.
  friend Deadline Earlier(Deadline a, Deadline b) {
    return a.when_ < b.when_ ? a : b;
  }

 private:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(Clock::time_point when) : when_(when) {}

  Clock::time_point when_;
};

// poll() with a deadline: waits until one of `fds` has an event or `deadline`
// passes, over any number of signals. Returns how many have events; 0 means
// that the deadline passed. Without descriptors it sleeps.
//
//   pollfd fd = {.fd = process.fd(), .events = POLLIN};
//   TENON_ASSIGN_OR_RETURN(const int ready, PollUntil({&fd, 1}, deadline));
//
// Errors: what poll() reports (kResourceExhausted; kInvalidArgument for more
// descriptors than RLIMIT_NOFILE).
absl::StatusOr<int> PollUntil(std::span<pollfd> fds, Deadline deadline);

}  // namespace tenon

#endif  // TENON_SHM_BASE_DEADLINE_H_
