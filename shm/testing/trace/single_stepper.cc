// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/single_stepper.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/pin_to_one_core.h"
#include "tenon/shm/testing/trace/step_report.h"
#include "tenon/shm/testing/trace/step_trace.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

// The number of failures whose addresses are symbolised.
constexpr size_t kMaxNamed = 50;

// To check whether breakpoints are supported.
constexpr uint64_t kAnyAddress = 0x1000;

class Stepper {
 public:
  explicit Stepper(const StepScenario& scenario) : scenario_(scenario) {
    report_.scenario = scenario.name;
  }

  absl::StatusOr<StepReport> Run() {
    const absl::Time began = absl::Now();
    const PinToOneCore pinned;
    TENON_ASSIGN_OR_RETURN(StepTrace trace, FirstRun());
    for (size_t i = 1; i < scenario_.first_runs; ++i) {
      TENON_ASSIGN_OR_RETURN(StepTrace again, FirstRun());
      if (again.size() < trace.size()) trace = std::move(again);
    }
    report_.instructions = trace.size();
    report_.syscalls = trace.num_syscalls();
    const std::vector<StepRoute> routes = trace.Routes(has_breakpoints_);
    // Every position must leave the same resources in this process.
    const Census before = TakeCensus();
    for (uint64_t position : LeaveOutFar(Select(trace), routes)) {
      report_.given_up = report_.failures.size() >= scenario_.max_failures ||
                         absl::Now() - began > scenario_.budget;
      if (report_.given_up) break;
      TENON_RETURN_IF_ERROR(TryPosition(trace, routes, position));
    }
    const std::string left = LeftSince(before);
    if (!left.empty()) Fail({}, absl::StrCat("left in the test: ", left));
    report_.time = absl::Now() - began;
    NameFailures();
    return std::move(report_);
  }

 private:
  // The run without a kill.
  absl::StatusOr<StepTrace> FirstRun() {
    TENON_ASSIGN_OR_RETURN(Tracee victim, Start());
    has_breakpoints_ = scenario_.use_breakpoints &&
                       victim.SetBreakpoint(kAnyAddress).ok() &&
                       victim.SetBreakpoint(0).ok();
    TENON_ASSIGN_OR_RETURN(StepTrace trace, StepTrace::Record(victim));
    report_.stops += trace.size();
    TENON_RETURN_IF_ERROR(LetEnd(victim, {.index = trace.size()}));
    return trace;
  }

  absl::StatusOr<Tracee> Start() {
    if (scenario_.prepare != nullptr) scenario_.prepare();
    names_.emplace(scenario_.shm_prefix);
    TENON_ASSIGN_OR_RETURN(
        Tracee victim,
        Tracee::Start({.name = "the victim",
                       .watchdog = scenario_.watchdog,
                       .may_have_threads = scenario_.may_have_threads},
                      scenario_.victim));
    TENON_RETURN_IF_ERROR(victim.RunToRegion());
    return victim;
  }

  std::vector<uint64_t> Select(const StepTrace& trace) {
    std::vector<uint64_t> positions;
    std::vector<std::string> selection;
    if (const uint64_t stride = scenario_.stride; stride > 0) {
      selection.push_back(stride == 1
                              ? "every position"
                              : absl::StrCat("one position in ", stride));
      for (uint64_t i = 0; i <= trace.size(); i += stride) {
        positions.push_back(i);
      }
    }
    if (scenario_.random > 0) {
      selection.push_back(absl::StrCat(
          scenario_.random, " random positions, seed ", scenario_.seed));
      std::mt19937_64 random(scenario_.seed);
      std::vector<uint64_t> all(trace.size() + 1);
      std::iota(all.begin(), all.end(), uint64_t{0});
      std::sample(all.begin(), all.end(), std::back_inserter(positions),
                  scenario_.random, random);
    }
    if (scenario_.around_syscalls) {
      selection.push_back("before and after each system call");
      positions.insert(positions.end(), trace.around_syscalls().begin(),
                       trace.around_syscalls().end());
    }
    report_.selection = absl::StrJoin(selection, ", ");
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()),
                    positions.end());
    return positions;
  }

  std::vector<uint64_t> LeaveOutFar(std::vector<uint64_t> positions,
                                    const std::vector<StepRoute>& routes) {
    if (scenario_.max_stops == 0) return positions;
    const size_t far = std::erase_if(positions, [&](uint64_t position) {
      return routes[position].cost() > scenario_.max_stops;
    });
    absl::StrAppend(&report_.selection, ", but not ", far, " more than ",
                    scenario_.max_stops, " stops away");
    return positions;
  }

  absl::Status TryPosition(const StepTrace& trace,
                           const std::vector<StepRoute>& routes,
                           uint64_t index) {
    TENON_ASSIGN_OR_RETURN(Tracee victim, Start());
    TENON_ASSIGN_OR_RETURN(const bool there,
                           Reach(victim, trace, routes, index));
    if (!there) {
      ++report_.missed;
      return LetEnd(victim, {.index = index});
    }
    TENON_ASSIGN_OR_RETURN(const uint64_t here, victim.InstructionPointer());
    ++report_.positions;
    StepPosition position = {
        .index = index, .address = here, .victim = &victim.child().pid_fd()};
    if (scenario_.fate == StepFate::kPause) {
      position.moment = StepMoment::kPaused;
      Check(position);
      return LetEnd(victim, position);
    }
    victim.Kill();
    position.moment = StepMoment::kKilled;
    Check(position);
    CheckNames(position);
    return absl::OkStatus();
  }

  // Brings `victim`, or a new one in its place, to a position. False if it does
  // not reach it.
  absl::StatusOr<bool> Reach(Tracee& victim, const StepTrace& trace,
                             const std::vector<StepRoute>& routes,
                             uint64_t index) {
    TENON_ASSIGN_OR_RETURN(bool there,
                           Follow(victim, routes[index], trace.address(index)));
    if (there) {
      followed_ = index;
      return true;
    }
    ++report_.diverged;
    // The effects of the former victim must not be visible.
    TENON_RETURN_IF_ERROR(Restart(victim));
    // By steps from the last position that a victim has reached by its route:
    // the paths are the same up to there.
    TENON_ASSIGN_OR_RETURN(
        there, Follow(victim, routes[followed_], trace.address(followed_)));
    if (there) return Step(victim, index - followed_);
    TENON_RETURN_IF_ERROR(Restart(victim));
    return Step(victim, index);
  }

  absl::Status Restart(Tracee& victim) {
    victim.Kill();
    TENON_ASSIGN_OR_RETURN(victim, Start());
    return absl::OkStatus();
  }

  // Whether it led to `address`.
  absl::StatusOr<bool> Follow(Tracee& victim, const StepRoute& route,
                              uint64_t address) {
    if (route.breakpoint != 0) {
      TENON_RETURN_IF_ERROR(victim.SetBreakpoint(route.breakpoint));
      for (uint64_t i = 0; i < route.arrivals; ++i) {
        ++report_.stops;
        TENON_ASSIGN_OR_RETURN(const Tracee::Stop stop,
                               victim.Resume(Tracee::How::kRun));
        if (stop != Tracee::Stop::kBreakpoint) return false;
      }
      TENON_RETURN_IF_ERROR(victim.SetBreakpoint(0));
    }
    TENON_ASSIGN_OR_RETURN(const bool stepped, Step(victim, route.steps));
    if (!stepped) return false;
    TENON_ASSIGN_OR_RETURN(const uint64_t here, victim.InstructionPointer());
    return here == address;
  }

  // Whether the region had that many instructions.
  absl::StatusOr<bool> Step(Tracee& victim, uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) {
      if (victim.region_ended()) return false;
      ++report_.stops;
      TENON_ASSIGN_OR_RETURN(const Tracee::Stop stop,
                             victim.Resume(Tracee::How::kStep));
      if (stop == Tracee::Stop::kEnded) return false;
    }
    return true;
  }

  absl::Status LetEnd(Tracee& victim, StepPosition position) {
    if (!victim.ended()) TENON_RETURN_IF_ERROR(victim.RunToEnd());
    for (const std::string& failure : victim.child().report().failures) {
      Fail(position, absl::StrCat("the victim: ", failure));
    }
    if (!victim.end().success()) {
      Fail(position,
           absl::StrCat("the victim ", victim.child().Describe(victim.end())));
    }
    position.moment = StepMoment::kEnded;
    position.victim = &victim.child().pid_fd();
    Check(position);
    CheckNames(position);
    return absl::OkStatus();
  }

  void Check(const StepPosition& position) {
    if (scenario_.check == nullptr) return;
    const absl::Status whole = scenario_.check(position);
    if (!whole.ok()) Fail(position, whole.ToString());
  }

  void CheckNames(const StepPosition& position) {
    for (const std::string& name : names_->RemoveNew()) {
      Fail(position, absl::StrCat("left /dev/shm/", name));
    }
  }

  void NameFailures() {
    std::vector<uint64_t> addresses;
    for (const StepFailure& failure : report_.failures) {
      if (addresses.size() == kMaxNamed) break;
      addresses.push_back(failure.address);
    }
    const std::vector<std::string> names = DescribeAddresses(addresses);
    for (size_t i = 0; i < names.size(); ++i) {
      report_.failures[i].where = names[i];
    }
  }

  void Fail(const StepPosition& position, const std::string& what) {
    report_.failures.push_back(
        {.index = position.index, .address = position.address, .what = what});
  }

  const StepScenario& scenario_;
  std::optional<ShmNamesGuard> names_;  // Of the present position.
  bool has_breakpoints_ = false;
  uint64_t followed_ = 0;  // The last position that was reached by its route.
  StepReport report_;
};

}  // namespace

absl::StatusOr<StepReport> KillAtEveryInstruction(
    const StepScenario& scenario) {
  TENON_RETURN_IF_ERROR(CanTrace());
  return Stepper(scenario).Run();
}

}  // namespace tenon
