// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/step_trace.h"

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {

absl::StatusOr<StepTrace> StepTrace::Record(Tracee& victim) {
  StepTrace trace;
  std::unordered_map<uint64_t, bool> is_syscall;  // By address.
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const uint64_t at, victim.InstructionPointer());
    const uint64_t position = trace.addresses_.size();
    trace.addresses_.push_back(at);
    if (victim.region_ended()) return trace;
    const auto [known, is_new] = is_syscall.try_emplace(at);
    if (is_new) known->second = victim.AtSyscall();
    if (known->second) {
      ++trace.num_syscalls_;
      trace.around_syscalls_.push_back(position);
      trace.around_syscalls_.push_back(position + 1);
    }
    TENON_ASSIGN_OR_RETURN(const Tracee::Stop stop,
                           victim.Resume(Tracee::How::kStep));
    if (stop == Tracee::Stop::kEnded) {
      return absl::AbortedError(
          absl::StrCat("the victim ", victim.child().Describe(victim.end()),
                       " by itself, at instruction ", position,
                       " of the region, address 0x", absl::Hex(at)));
    }
  }
}

std::vector<StepRoute> StepTrace::Routes(bool use_breakpoints) const {
  // A rep-prefixed instruction is stepped in rounds, but a breakpoint hits it
  // once.
  std::unordered_set<uint64_t> repeated = {addresses_[0]};
  for (uint64_t i = 1; i < addresses_.size(); ++i) {
    if (addresses_[i] == addresses_[i - 1]) repeated.insert(addresses_[i]);
  }
  std::unordered_map<uint64_t, uint64_t> arrivals;
  std::vector<StepRoute> routes = {StepRoute()};
  for (uint64_t i = 1; i < addresses_.size(); ++i) {
    StepRoute route = routes.back();
    ++route.steps;
    const uint64_t arrival = ++arrivals[addresses_[i]];
    if (use_breakpoints && repeated.count(addresses_[i]) == 0 &&
        arrival <= route.cost()) {
      route = {.breakpoint = addresses_[i], .arrivals = arrival};
    }
    routes.push_back(route);
  }
  return routes;
}

}  // namespace tenon
