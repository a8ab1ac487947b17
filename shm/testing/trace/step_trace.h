// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StepTrace: the instructions that a region consists of, in order, and the
// cheapest way to each of them. For single_stepper.h.

#ifndef TENON_SHM_TESTING_TRACE_STEP_TRACE_H_
#define TENON_SHM_TESTING_TRACE_STEP_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {

// How to bring a fresh victim from the begin of the region to a position: let
// it arrive `arrivals` times at `breakpoint`, then step. Without a breakpoint
// (0) step all the way.
struct StepRoute {
  uint64_t breakpoint = 0;
  uint64_t arrivals = 0;
  uint64_t steps = 0;

  // In stops of the victim, which is what takes the time.
  uint64_t cost() const { return arrivals + steps; }
};

// A value. Positions are counted from 0 (BeginRegion() is done) to size() (the
// region has ended): at position i, i instructions have been executed. A round
// of a rep-prefixed instruction counts as one, because a process can die
// between two of them; a system call counts as one.
class StepTrace {
 public:
  // Steps `victim`, which stands at the begin of its region, to the end of it.
  // Errors: kAborted if it ends within the region, saying how and where.
  static absl::StatusOr<StepTrace> Record(Tracee& victim);

  uint64_t size() const { return addresses_.size() - 1; }
  uint64_t address(uint64_t position) const { return addresses_[position]; }
  // Positions just before and just after each system call, in order: what the
  // kernel holds changes nowhere else.
  const std::vector<uint64_t>& around_syscalls() const {
    return around_syscalls_;
  }
  size_t num_syscalls() const { return num_syscalls_; }

  // The way to each position.
  std::vector<StepRoute> Routes(bool use_breakpoints) const;

 private:
  std::vector<uint64_t> addresses_;
  std::vector<uint64_t> around_syscalls_;
  size_t num_syscalls_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_STEP_TRACE_H_
