// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/syscall_failer.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/pin_to_one_core.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/trace/fault_report.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/syscall_names.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

using Calls = std::map<std::string, size_t>;

// Injects one fault at the n-th call.
class Injector {
 public:
  // Sets `happened` when it injects the fault.
  Injector(const SyscallFault& fault, size_t n, std::atomic<bool>* happened)
      : fault_(fault), n_(n), happened_(happened) {}

  absl::Status OnEntry(Tracee& child, const std::string& call) {
    hit_ = call == fault_.call && IsDue(++seen_);
    if (!hit_) return absl::OkStatus();
    *happened_ = true;
    absl::SleepFor(fault_.delay);
    if (fault_.error == 0 || fault_.executed) return absl::OkStatus();
    return child.SkipSyscall();
  }

  absl::Status OnExit(Tracee& child) {
    if (!hit_ || fault_.error == 0) return absl::OkStatus();
    return child.SetSyscallError(fault_.error);
  }

 private:
  bool IsDue(size_t call) const {
    return call == n_ || (fault_.persistent && call > n_);
  }

  const SyscallFault& fault_;
  const size_t n_;
  size_t seen_ = 0;
  std::atomic<bool>* const happened_;
  bool hit_ = false;  // The call that is being made.
};

// Runs `child` from the start of its region to its end, counting its calls;
// with `injector`, unless it is null.
absl::StatusOr<Calls> RunRegion(Tracee& child, Injector* injector) {
  Calls calls;
  for (bool entry = true;; entry = !entry) {
    TENON_ASSIGN_OR_RETURN(const Tracee::Stop stop,
                           child.Resume(Tracee::How::kSyscall));
    if (stop == Tracee::Stop::kEnded) return calls;
    if (child.region_ended()) break;
    if (entry) {
      TENON_ASSIGN_OR_RETURN(const uint64_t number, child.SyscallNumber());
      const std::string call = SyscallName(number);
      ++calls[call];
      if (injector == nullptr) continue;
      TENON_RETURN_IF_ERROR(injector->OnEntry(child, call));
    } else if (injector != nullptr) {
      TENON_RETURN_IF_ERROR(injector->OnExit(child));
    }
  }
  TENON_RETURN_IF_ERROR(child.RunToEnd());
  return calls;
}

class Failer {
 public:
  explicit Failer(const FaultScenario& scenario) : scenario_(scenario) {
    report_.scenario = scenario.name;
  }

  absl::StatusOr<FaultReport> Run() {
    const absl::Time began = absl::Now();
    const PinToOneCore pinned;
    const SyscallFault none;
    TENON_RETURN_IF_ERROR(RunOnce(none, 1, nullptr).status());
    for (const SyscallFault& fault : scenario_.faults) {
      if (!SyscallNumber(fault.call).has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat("unknown system call '", fault.call, "'"));
      }
      report_.rows.push_back({.fault = fault});
      // Without faults it takes the same path each time.
      if (report_.calls.count(fault.call) == 0) continue;
      TENON_RETURN_IF_ERROR(TryFault(report_.rows.back()));
    }
    Spare();
    report_.time = absl::Now() - began;
    return std::move(report_);
  }

 private:
  absl::Status TryFault(FaultReport::Row& row) {
    for (size_t n = 1;; ++n) {
      report_.given_up = report_.failures.size() >= scenario_.max_failures;
      if (report_.given_up) return absl::OkStatus();
      TENON_ASSIGN_OR_RETURN(const bool happened, RunOnce(row.fault, n, &row));
      if (!happened) return absl::OkStatus();
    }
  }

  // Whether the fault happened. Without a `row` none is expected.
  absl::StatusOr<bool> RunOnce(const SyscallFault& fault, size_t n,
                               FaultReport::Row* row) {
    *happened_ = false;
    const ShmNamesGuard names(scenario_.shm_prefix);
    TENON_ASSIGN_OR_RETURN(
        Tracee child,
        Tracee::Start(
            {.name = "the child", .watchdog = scenario_.watchdog},
            [&](const Reporter& reporter) { RunChild(reporter, fault); }));
    TENON_RETURN_IF_ERROR(child.RunToRegion());
    Injector injector(fault, n, happened_.get());
    TENON_ASSIGN_OR_RETURN(const Calls calls, RunRegion(child, &injector));
    ++report_.runs;
    const std::string where =
        *happened_ ? absl::StrCat(FaultInWords(fault), ", call ", n)
                   : "no fault";
    const Report& said = child.child().report();
    for (const std::string& failure : said.failures) {
      report_.failures.push_back({.where = where, .what = failure});
    }
    if (!child.end().success()) {
      report_.failures.push_back(
          {.where = where,
           .what = absl::StrCat("the child ",
                                child.child().Describe(child.end()))});
    }
    if (row == nullptr) report_.calls = calls;
    if (!*happened_) return false;
    ++row->runs;
    for (const auto& [outcome, count] : said.notes) {
      row->outcomes[outcome] += count;
    }
    return true;
  }

  void RunChild(const Reporter& reporter, const SyscallFault& fault) const {
    if (scenario_.prepare != nullptr) scenario_.prepare();
    const absl::Status first = scenario_.body();
    if (!first.ok()) {
      reporter.Fail(absl::StrCat("the first try: ", first.ToString()));
    }
    const Census before = TakeCensus({.shm_prefix = scenario_.shm_prefix});
    BeginRegion();
    const absl::Status outcome = scenario_.body();
    EndRegion();
    CheckNothingLeft(reporter, before, "left by the fault: ");
    if (*happened_) {
      reporter.Note(absl::StatusCodeToString(outcome.code()));
      const absl::Status checked = scenario_.check == nullptr
                                       ? absl::OkStatus()
                                       : scenario_.check(fault, outcome);
      if (!checked.ok()) reporter.Fail(checked.ToString());
    } else if (!outcome.ok()) {
      reporter.Fail(absl::StrCat("the second try: ", outcome.ToString()));
    }
    const absl::Status again = scenario_.body();
    if (!again.ok()) {
      reporter.Fail(absl::StrCat("the next try: ", again.ToString()));
    }
    CheckNothingLeft(reporter, before, "left in the end: ");
  }

  void CheckNothingLeft(const Reporter& reporter, const Census& before,
                        absl::string_view by) const {
    const std::string left =
        LeftSince(before, {.shm_prefix = scenario_.shm_prefix});
    if (!left.empty()) reporter.Fail(absl::StrCat(by, left));
  }

  void Spare() {
    std::set<std::string> failed;
    for (const SyscallFault& fault : scenario_.faults) {
      failed.insert(fault.call);
    }
    for (const auto& [call, count] : report_.calls) {
      if (failed.count(call) == 0) report_.spared.push_back(call);
    }
  }

  const FaultScenario& scenario_;
  SharedObject<std::atomic<bool>> happened_;  // In the present run.
  FaultReport report_;
};

}  // namespace

absl::StatusOr<FaultReport> FailSystemCalls(const FaultScenario& scenario) {
  TENON_RETURN_IF_ERROR(CanTrace());
  return Failer(scenario).Run();
}

absl::StatusOr<std::map<std::string, size_t>> CountSyscalls(
    const std::function<void()>& body) {
  TENON_RETURN_IF_ERROR(CanTrace());
  // A body that spins for another process waits for the scheduler where other
  // processes want the cores.
  TENON_ASSIGN_OR_RETURN(
      Tracee child,
      Tracee::Start({.name = "the child", .watchdog = absl::Minutes(2)},
                    [&](const Reporter&) {
                      BeginRegion();
                      body();
                      EndRegion();
                    }));
  TENON_RETURN_IF_ERROR(child.RunToRegion());
  TENON_ASSIGN_OR_RETURN(Calls calls, RunRegion(child, nullptr));
  if (child.end().success() && child.child().report().failures.empty()) {
    return calls;
  }
  return absl::AbortedError(
      absl::StrCat("the child ", child.child().Describe(child.end()), "; ",
                   absl::StrJoin(child.child().report().failures, "; ")));
}

}  // namespace tenon
