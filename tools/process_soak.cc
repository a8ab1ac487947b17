// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A parent that starts trees of processes by each method, while another process
// kills random descendants at random moments: children, fork servers, and
// supervisors, also while they are being created.
//
//   bazel run -c opt //tools:process_soak              # 20,000 starts
//   bazel run -c opt //tools:process_soak -- --starts=500
//
// After each batch no descendant is left, in any state, and the parent's
// descriptors, mappings, memory and children are as before. Prints figures
// every ten seconds. Exits 1 with the reason if not, or if a start or an end is
// reported wrongly; 3 on a hang.

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/tools/soak.h"

ABSL_FLAG(uint64_t, starts, 20'000, "children to start");
ABSL_FLAG(absl::Duration, time, absl::Hours(24),
          "ends after this at the latest");
ABSL_FLAG(uint64_t, seed, 0, "of all that is random; 0: the clock");

namespace tenon::spawn {
namespace {

using Random = std::mt19937_64;

constexpr uint64_t kStartsInABatch = 20;
constexpr uint64_t kWarmUpBatches = 2;

Deadline Patience() { return Deadline::After(absl::Seconds(60)); }

// Starts up to two copies of itself, one level less deep; argument: the levels.
absl::Status Branch(Child& child) {
  int levels = 0;
  if (!absl::SimpleAtoi(child.argument(), &levels)) {
    return absl::InvalidArgumentError("malformed number of levels");
  }
  if (levels == 0) return absl::OkStatus();
  auto below = Processes::Start(
      1 + child.index() % 2,
      {.entry = "branch", .argument = absl::StrCat(levels - 1)});
  // They may be killed at any moment.
  if (below.ok()) below->Join(Patience()).IgnoreError();
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("branch", Branch);

// ---- The killer ----

// Kills random processes of this setsid() session except `parent`, forever. A
// process whose parent has changed since the last scan may be another process:
// it is spared.
[[noreturn]] void KillAtRandom(pid_t parent, uint64_t seed) {
  Random random(seed);
  for (;;) {
    absl::SleepFor(absl::Microseconds(random() % 20'000));
    const std::vector<SessionProcess> others = OthersOfThisSession(parent);
    if (others.empty()) continue;
    const SessionProcess& victim = others[random() % others.size()];
    const absl::StatusOr<PidFd> fd = PidFd::Open(victim.pid);
    if (!fd.ok() || ParentPid(victim.pid) != victim.parent) continue;
    fd->SendSignal(SIGKILL).IgnoreError();
  }
}

pid_t StartKiller(uint64_t seed) {
  const pid_t parent = getpid();
  const pid_t killer = fork();
  if (killer != 0) return killer;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  KillAtRandom(parent, seed);
}

// ---- The parent ----

class Parent {
 public:
  explicit Parent(uint64_t seed) : random_(seed) {}

  absl::Status Run() {
    killer_ = StartKiller(random_());
    if (killer_ < 0) return absl::ErrnoToStatus(errno, "fork");
    for (uint64_t batch = 1; !IsOver() || batch <= kWarmUpBatches + 1;
         ++batch) {
      FeedWatchdog(300, "running a batch");
      TENON_RETURN_IF_ERROR(RunBatch());
      TENON_RETURN_IF_ERROR(CheckNothingIsLeft());
      if (batch == kWarmUpBatches) before_ = TakeHoldings(0);
      if (batch > kWarmUpBatches) TENON_RETURN_IF_ERROR(CheckStillFlat());
      if (absl::Now() >= printed_ + absl::Seconds(10)) Print();
    }
    Print();
    std::cout << "before: " << before_.ToString()
              << "\nnow:    " << TakeHoldings(0).ToString() << std::endl;
    return absl::OkStatus();
  }

 private:
  bool IsOver() const {
    return starts_ >= absl::GetFlag(FLAGS_starts) ||
           absl::Now() >= start_ + absl::GetFlag(FLAGS_time);
  }

  absl::Status RunBatch() {
    for (uint64_t n = 0; n < kStartsInABatch;) {
      const int children = static_cast<int>(1 + random_() % 3);
      const std::vector<StartMethod> methods = AllStartMethods();
      const StartMethod method = methods[random_() % methods.size()];
      ProcessOptions options = {.entry = "branch",
                                .argument = absl::StrCat(random_() % 3),
                                .method = method};
      options.orphan_grace = absl::Milliseconds(50);
      auto started = Processes::Start(children, std::move(options));
      n += static_cast<uint64_t>(children);
      starts_ += static_cast<uint64_t>(children);
      TENON_RETURN_IF_ERROR(Note(started.status(), "Start"));
      if (!started.ok()) continue;
      TENON_RETURN_IF_ERROR(
          Note(started->Join(Patience(), absl::ZeroDuration()), "Join"));
    }
    StopForkServer();
    return absl::OkStatus();
  }

  // Counts the status; returns errors that no kill explains.
  absl::Status Note(const absl::Status& status, const char* call) {
    ++results_[absl::StrCat(call, " ",
                            absl::StatusCodeToString(status.code()))];
    switch (status.code()) {
      case absl::StatusCode::kOk:
      case absl::StatusCode::kAborted:
      case absl::StatusCode::kUnavailable:
        return absl::OkStatus();
      default:
        return absl::Status(status.code(),
                            absl::StrCat(call, "(): ", status.message()));
    }
  }

  absl::Status CheckNothingIsLeft() {
    std::vector<SessionProcess> left;
    const bool none = Becomes([&] {
      ReapLingeringSupervisors();
      left = OthersOfThisSession(killer_);
      return left.empty();
    });
    if (none) return absl::OkStatus();
    std::string names;
    for (const SessionProcess& one : left) {
      absl::StrAppend(&names, " ", one.name, " ", std::string(1, one.state));
    }
    return absl::InternalError(absl::StrCat("left behind:", names));
  }

  absl::Status CheckStillFlat() {
    absl::Status flat;
    Becomes([&] {
      flat = CheckFlat("the parent", before_, TakeHoldings(0));
      return flat.ok();
    });
    return flat;
  }

  void Print() {
    printed_ = absl::Now();
    std::cout << absl::FormatDuration(
                     absl::Trunc(printed_ - start_, absl::Seconds(1)))
              << ": " << starts_ << " starts";
    for (const auto& [what, count] : results_) {
      std::cout << ", " << count << " " << what;
    }
    std::cout << "; " << TakeHoldings(0).ToString() << std::endl;
  }

  const absl::Time start_ = absl::Now();
  absl::Time printed_ = start_;
  Random random_;
  pid_t killer_ = 0;
  uint64_t starts_ = 0;
  std::map<std::string, uint64_t> results_;
  Holdings before_;
};

absl::Status Soak() {
  return Parent(ChooseSeed(absl::GetFlag(FLAGS_seed))).Run();
}

}  // namespace
}  // namespace tenon::spawn

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  absl::ParseCommandLine(argc, argv);
  return tenon::RunInOwnSession([] { return tenon::spawn::Soak(); });
}
