// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/sim_event.h"

#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/schedule_trace.h"

namespace tenon {

void SimEvent::Notify() {
  Schedule& s = Schedule::Current();
  s.threads_.Point();
  const int self = s.threads_.current();
  s.trace_.Add({self, ScheduleVerb::kNotify, label_});
  s.memory_.Publish(self, view_);
  notified_ = true;
  s.threads_.Wake(this);
}

bool SimEvent::WaitUnlessEnds(int thread) {
  Schedule& s = Schedule::Current();
  s.threads_.Point();
  const int self = s.threads_.current();
  while (!notified_) {
    if (thread >= 0 && s.threads_.ended(thread)) {
      s.memory_.Synchronise(thread, self);
      s.trace_.Add({self, ScheduleVerb::kSawEnded, {s.threads_.name(thread)}});
      return false;
    }
    s.trace_.Add({self, ScheduleVerb::kWait, label_});
    s.threads_.Block(this, thread);
  }
  notified_ = false;
  s.memory_.Observe(self, view_);
  s.trace_.Add({self, ScheduleVerb::kWoken, label_});
  return true;
}

}  // namespace tenon
