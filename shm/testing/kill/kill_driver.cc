// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/kill_driver.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/testing/kill/crash_watch.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_run.h"
#include "tenon/shm/testing/kill/kill_scenario.h"

namespace tenon {
namespace {

using Plan = std::vector<KillOrder>;

class Matrix {
 public:
  explicit Matrix(const KillScenario& scenario)
      : scenario_(scenario), runner_(scenario) {
    report_.scenario = scenario.name;
    for (const KillRole& role : scenario.roles) {
      report_.roles.push_back(role.name);
    }
  }

  KillReport Run() {
    const absl::Time began = absl::Now();
    KillRun nobody;
    for (size_t i = 0; i < scenario_.repeat; ++i) nobody = RunOnce({});
    Extend({}, nobody);
    for (const std::string& point : CrashPointNames(scenario_.points)) {
      if (reached_.count(point) == 0) report_.unreached.push_back(point);
    }
    report_.time = absl::Now() - began;
    return std::move(report_);
  }

 private:
  // Runs all plans that have one order more than `plan`, whose run was `run`.
  void Extend(const Plan& plan, const KillRun& run) {
    if (plan.size() == scenario_.victims) return;
    for (const KillRole& role : scenario_.roles) {
      const bool dead = std::any_of(
          plan.begin(), plan.end(),
          [&](const KillOrder& order) { return order.role == role.name; });
      if (dead) continue;
      for (const auto& [point, count] : run.passed.at(role.name)) {
        if (absl::StartsWith(point, scenario_.points)) {
          ExtendAt(plan, role.name, point);
        }
      }
    }
  }

  void ExtendAt(const Plan& plan, const std::string& role,
                const std::string& point) {
    for (uint64_t passing = 1; !Enough(); ++passing) {
      Plan longer = plan;
      longer.push_back({.role = role, .point = point, .passing = passing});
      if (!tried_.insert(Key(longer)).second) continue;
      KillRun run;
      for (size_t i = 0; i < scenario_.repeat && !Enough(); ++i) {
        run = RunOnce(longer);
      }
      if (run.fired.size() < longer.size()) return;
      Extend(longer, run);
    }
  }

  bool Enough() {
    report_.given_up = report_.failures.size() >= scenario_.max_failures ||
                       report_.runs >= scenario_.max_runs;
    return report_.given_up;
  }

  KillRun RunOnce(const Plan& plan) {
    KillRun run = runner_.Run(plan);
    ++report_.runs;
    for (const auto& [role, points] : run.passed) {
      for (const auto& [point, count] : points) reached_.insert(point);
    }
    for (const auto& [note, count] : run.notes) report_.notes[note] += count;
    const bool complete = run.fired.size() == plan.size();
    // A plan whose orders were not all executed is a run of the shorter plan.
    if (!plan.empty() && complete) {
      ++report_.kills;
      KillReport::Cell& cell =
          report_.table[plan.back().point][plan.back().role];
      ++cell.kills;
      if (!run.failures.empty()) ++cell.failures;
    }
    for (const std::string& failure : run.failures) {
      KillFailure entry = {.where = InWords(run.fired), .what = failure};
      if (!plan.empty() && complete) {
        entry.role = plan.back().role;
        entry.point = plan.back().point;
      }
      report_.failures.push_back(std::move(entry));
    }
    return run;
  }

  // The same for all orders of the same kills.
  static std::string Key(const Plan& plan) {
    std::set<std::string> orders;
    for (const KillOrder& order : plan) {
      orders.insert(
          absl::StrCat(order.role, "/", order.point, "/", order.passing));
    }
    return absl::StrJoin(orders, " ");
  }

  std::string InWords(const Plan& fired) const {
    if (fired.empty()) return "no kill";
    const char* how =
        scenario_.method == KillMethod::kKill ? " killed at " : " stopped at ";
    return absl::StrJoin(fired, " and ",
                         [&](std::string* out, const KillOrder& order) {
                           absl::StrAppend(out, order.role, how, order.point,
                                           ", pass ", order.passing);
                         });
  }

  const KillScenario& scenario_;
  KillRunner runner_;
  std::set<std::string> tried_;
  std::set<std::string> reached_;
  KillReport report_;
};

}  // namespace

KillReport RunKillMatrix(const KillScenario& scenario) {
  return Matrix(scenario).Run();
}

}  // namespace tenon
