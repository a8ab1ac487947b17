// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimEvent: an eventfd between logical threads. Waiting for one that no thread
// will notify is a deadlock, which fails the schedule: so a lost wake-up is
// detected.

#ifndef TENON_SHM_TESTING_SCHEDULER_SIM_EVENT_H_
#define TENON_SHM_TESTING_SCHEDULER_SIM_EVENT_H_

#include "tenon/shm/testing/scheduler/schedule_trace.h"
#include "tenon/shm/testing/scheduler/weak_memory.h"

namespace tenon {

// Lives in the body, for one schedule. Notify() and Wait() are scheduling
// points. A thread's steps before Notify() happen before the return of the
// Wait() that it ends; neither is a seq_cst fence.
class SimEvent {
 public:
  // `name` is not copied.
  explicit SimEvent(const char* name) : label_{name} {}
  SimEvent(const SimEvent&) = delete;
  SimEvent& operator=(const SimEvent&) = delete;

  void Notify();

  // Blocks until Notify() has been called since the last Wait() returned.
  void Wait() { WaitUnlessEnds(-1); }

  // The same, but returns false if `thread` ends (has ended) without that.
  bool WaitUnlessEnds(int thread);

 private:
  const ScheduleLabel label_;
  bool notified_ = false;
  WeakMemory::View view_ = {};
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SIM_EVENT_H_
