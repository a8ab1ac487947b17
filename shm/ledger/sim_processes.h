// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimProcesses: the processes of a LeaseSimulation, each of which has several
// logical threads.
//
// A process of which one thread was killed is dying: its other threads run on
// to their next wait, as after SIGKILL. It is dead when all have ended.

#ifndef TENON_SHM_LEDGER_SIM_PROCESSES_H_
#define TENON_SHM_LEDGER_SIM_PROCESSES_H_

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "absl/types/span.h"
#include "tenon/shm/testing/scheduler/schedule.h"

namespace tenon {

// A logical thread of a process.
struct SimThread {
  static constexpr int kNoHop = -1;

  int process = 0;
  int hop = kNoHop;  // The hop of the route at which it receives.
  int thread = 0;    // Of the schedule.
  int column = 0;    // The column through which it claimed.
  // It has a valid claim. Outside of the simulation, for the checks.
  bool has = false;
};

// Lives in the body of a schedule.
class SimProcesses {
 public:
  explicit SimProcesses(Schedule& schedule) : schedule_(schedule) {}

  // The thread of the owner, which is never killed, like all threads of process
  // 0.
  void AddOwner(std::function<void()> run) {
    owner_ = schedule_.AddThread("owner", std::move(run));
  }
  bool OwnerHasEnded() { return schedule_.HasEnded(owner_); }

  void Add(const char* name, int process, int hop,
           std::function<void(SimThread&)> run) {
    SimThread& thread = threads_[count_++];
    thread.process = process;
    thread.hop = hop;
    auto body = [&thread, run = std::move(run)] { run(thread); };
    thread.thread = process == 0 ? schedule_.AddThread(name, body)
                                 : schedule_.AddKillableThread(name, body);
  }

  absl::Span<const SimThread> threads() const {
    return absl::MakeConstSpan(threads_.data(), count_);
  }

  bool IsDying(int process) const {
    for (const SimThread& t : threads()) {
      if (t.process == process && schedule_.was_killed(t.thread)) return true;
    }
    return false;
  }

  // Must a waiting thread of the process give up? After the owner's end no
  // event follows.
  bool MustStop(int process) { return IsDying(process) || OwnerHasEnded(); }

  // As its pidfd reports: its steps happen before a true result.
  bool IsDead(int process) {
    if (!IsDying(process)) return false;
    for (const SimThread& t : threads()) {
      if (t.process == process && !schedule_.HasEnded(t.thread)) return false;
    }
    return true;
  }

  // Have all threads of the hop ended?
  bool HopHasEnded(int hop) {
    for (const SimThread& t : threads()) {
      if (t.hop == hop && !schedule_.HasEnded(t.thread)) return false;
    }
    return true;
  }

  // Does the process receive nothing more?
  bool HasReceivedAll(int process) {
    for (const SimThread& t : threads()) {
      if (t.process == process && t.hop != SimThread::kNoHop &&
          !schedule_.HasEnded(t.thread)) {
        return false;
      }
    }
    return true;
  }

  // The truth, for checks: does a live thread of a hop have a valid claim?
  bool AnyHas() const {
    for (const SimThread& t : threads()) {
      if (t.hop != SimThread::kNoHop && t.has &&
          !schedule_.was_killed(t.thread)) {
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr size_t kMaxThreads = 7;

  Schedule& schedule_;
  std::array<SimThread, kMaxThreads> threads_;
  size_t count_ = 0;
  int owner_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_SIM_PROCESSES_H_
