// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StepTrace: the instructions of a region, in order, and the cheapest route to
// each of them. For single_stepper.h.

#ifndef TENON_SHM_TESTING_TRACE_STEP_TRACE_H_
#define TENON_SHM_TESTING_TRACE_STEP_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {

// Brings a fresh victim from the start of the region to a position: `arrivals`
// hits of `breakpoint`, then single steps. Without a breakpoint (0) single
// steps only.
struct StepRoute {
  uint64_t breakpoint = 0;
  uint64_t arrivals = 0;
  uint64_t steps = 0;

  // In stops of the victim, which dominate the time.
  uint64_t cost() const { return arrivals + steps; }
};

// A value. Positions are counted from 0 (BeginRegion() is done) to size() (the
// region has ended): at position i, i instructions have been executed. A round
// of a rep-prefixed instruction counts as one, because a process can die
// between two of them; a system call counts as one, and so does a call of the
// vDSO.
class StepTrace {
 public:
  // Steps `victim` from the start of its region, where it is stopped, to the
  // end.
  // Errors: kAborted with the cause and the position if it ends within the
  // region.
  static absl::StatusOr<StepTrace> Record(Tracee& victim);

  uint64_t size() const { return addresses_.size() - 1; }
  uint64_t address(uint64_t position) const { return addresses_[position]; }
  // Positions just before and just after each system call, in order: the
  // kernel's state changes nowhere else.
  const std::vector<uint64_t>& around_syscalls() const {
    return around_syscalls_;
  }
  size_t num_syscalls() const { return num_syscalls_; }

  // The route to each position.
  std::vector<StepRoute> Routes(bool use_breakpoints) const;

 private:
  std::vector<uint64_t> addresses_;
  std::vector<uint64_t> around_syscalls_;
  size_t num_syscalls_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_STEP_TRACE_H_
