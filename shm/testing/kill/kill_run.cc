// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/kill_run.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/crash_watch.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"

namespace tenon {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(1);
// The time in which descendants of a role have to notice the end of all roles
// and exit.
constexpr absl::Duration kStrayGrace = absl::Seconds(2);

void Sleep(absl::Duration time) {
  PollUntil({}, Deadline::After(time)).IgnoreError();
}

std::vector<pid_t> Strays(const std::vector<pid_t>& known) {
  std::vector<pid_t> strays;
  for (pid_t pid : ChildPids()) {
    const bool is_known =
        std::find(known.begin(), known.end(), pid) != known.end();
    if (!is_known && waitpid(pid, nullptr, WNOHANG) != pid) {
      strays.push_back(pid);
    }
  }
  return strays;
}

// Waits for the end of children that are not in `known`, then kills them.
void EndStrays(const std::vector<pid_t>& known, KillRun& run) {
  const Deadline grace = Deadline::After(kStrayGrace);
  for (;;) {
    const std::vector<pid_t> strays = Strays(known);
    if (strays.empty()) return;
    if (grace.has_passed()) {
      for (pid_t pid : strays) {
        run.failures.push_back(
            absl::StrCat("process ", pid, " was left behind"));
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
      }
    }
    Sleep(kTick);
  }
}

}  // namespace

KillRunner::KillRunner(const KillScenario& scenario)
    : scenario_(scenario), counts_(scenario.roles.size() + 1) {
  prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

KillRunner::~KillRunner() { prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_); }

absl::Status KillRunner::ForkRoles(const std::vector<KillOrder>& plan) {
  std::vector<std::string> names;
  for (const KillRole& role : scenario_.roles) names.push_back(role.name);
  // Its waits end before the watchdog, so that it can still report the awaited
  // step.
  TENON_ASSIGN_OR_RETURN(
      std::vector<Peer> peers,
      MakePeers(names, PeerMode::kProcesses,
                Deadline::After(scenario_.watchdog * 3 / 4)));
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<CrashOrder> orders;
    for (const KillOrder& order : plan) {
      if (order.role != names[i]) continue;
      orders.push_back({.point = order.point,
                        .passing = order.passing,
                        .action = scenario_.method == KillMethod::kKill
                                      ? CrashAction::kKill
                                      : CrashAction::kStop});
    }
    TENON_ASSIGN_OR_RETURN(
        ForkedChild child,
        ForkedChild::Fork({.name = names[i], .watchdog = scenario_.watchdog},
                          [&](const Reporter& reporter) {
                            Peer self = std::move(peers[i]);
                            peers.clear();
                            self.set_reporter(reporter);
                            CrashWatch watch(counts_[i], orders);
                            scenario_.roles[i].body(self);
                          }));
    const pid_t pid = child.pid();
    players_.push_back({.child = std::move(child), .pid = pid});
  }
  return absl::OkStatus();
}

absl::Status KillRunner::WaitForRoles(bool may_stop) {
  // Each child has its own watchdog; this one is a backstop.
  const Deadline deadline = Deadline::After(2 * scenario_.watchdog);
  for (;;) {
    bool all_ended = true;
    for (Player& player : players_) {
      const Deadline wait = may_stop ? Deadline::After(kTick) : deadline;
      all_ended &= player.child.Wait(Earlier(wait, deadline)).ok();
    }
    if (all_ended) return absl::OkStatus();
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError("a role could not even be killed");
    }
    ResumeStopped();
  }
}

void KillRunner::ResumeStopped() {
  for (size_t i = 0; i < players_.size(); ++i) {
    Player& player = players_[i];
    const pid_t stopped = counts_[i].fired_by();
    // It is recorded just before the process stops itself.
    if (stopped == 0 || ProcessState(stopped) != 'T') continue;
    if (player.resume.is_never()) {
      player.resume = Deadline::After(scenario_.stop_for);
    }
    const bool alone =
        std::all_of(players_.begin(), players_.end(), [&](const Player& other) {
          return &other == &player || other.child.reaped();
        });
    if (alone || player.resume.has_passed()) kill(stopped, SIGCONT);
  }
}

absl::Status KillRunner::RunRoles(const std::vector<KillOrder>& plan,
                                  KillRun& run) {
  TENON_RETURN_IF_ERROR(ForkRoles(plan));
  const bool may_stop = scenario_.method == KillMethod::kStop && !plan.empty();
  TENON_RETURN_IF_ERROR(WaitForRoles(may_stop));
  for (size_t i = 0; i < players_.size(); ++i) {
    CheckEnd(i, run);
    if (counts_[i].fired_by() == 0) continue;
    for (const KillOrder& order : plan) {
      if (order.role == scenario_.roles[i].name) run.fired.push_back(order);
    }
  }
  return absl::OkStatus();
}

void KillRunner::CheckEnd(size_t role, KillRun& run) {
  Player& player = players_[role];
  ForkedChild& child = player.child;
  const ExitStatus end = child.Wait(Deadline::Passed()).value();
  for (const std::string& failure : child.report().failures) {
    run.failures.push_back(absl::StrCat(child.name(), ": ", failure));
  }
  for (const auto& [note, count] : child.report().notes) {
    run.notes[note] += count;
  }
  // If it was a child of the role that died, the role itself lives on.
  const bool ordered = scenario_.method == KillMethod::kKill &&
                       counts_[role].fired_by() == player.pid;
  if (ordered || child.report().will_die) {
    if (end.signal == SIGKILL) return;
    run.failures.push_back(absl::StrCat(
        child.name(), " should have been killed, but ", child.Describe(end)));
  } else if (!end.success()) {
    run.failures.push_back(
        absl::StrCat(child.name(), " ", child.Describe(end)));
  }
}

void KillRunner::Check(KillRun& run) {
  if (scenario_.check == nullptr) return;
  absl::StatusOr<ForkedChild> child =
      ForkedChild::Fork({.name = "check", .watchdog = scenario_.watchdog},
                        [&](const Reporter& reporter) {
                          CrashWatch watch(counts_.back());
                          scenario_.check(reporter, run.fired);
                        });
  if (!child.ok()) {
    run.failures.push_back(child.status().ToString());
    return;
  }
  const testing::AssertionResult well = child->EndsWell();
  if (!well) run.failures.push_back(well.message());
  for (const auto& [note, count] : child->report().notes) {
    run.notes[note] += count;
  }
}

void KillRunner::CountPassings(KillRun& run) const {
  for (size_t i = 0; i < scenario_.roles.size(); ++i) {
    run.passed[scenario_.roles[i].name] = counts_[i].Passed();
  }
  run.passed[""] = counts_.back().Passed();
}

KillRun KillRunner::Run(const std::vector<KillOrder>& plan) {
  KillRun run;
  if (scenario_.prepare != nullptr) scenario_.prepare();
  for (PassingCounts& counts : counts_) counts.Reset();
  const CensusOptions options = {.shm_prefix = scenario_.shm_prefix};
  const ShmNamesGuard names(scenario_.shm_prefix);
  const Census before = TakeCensus(options);
  const std::vector<pid_t> children_before = ChildPids();

  const absl::Status ran = RunRoles(plan, run);
  if (!ran.ok()) run.failures.push_back(ran.ToString());
  players_.clear();  // Kills the remaining players.
  EndStrays(children_before, run);
  Check(run);
  EndStrays(children_before, run);
  CountPassings(run);

  const std::string difference = LeftSince(before, options);
  if (!difference.empty()) {
    run.failures.push_back(absl::StrCat("left behind: ", difference));
  }
  return run;
}

}  // namespace tenon
