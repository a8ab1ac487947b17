// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimVar<T>: plain data under the seeded scheduler. It replaces a T in code
// that is a template of its payload, and fails the schedule on a data race: two
// accesses by different threads, at least one of them a write, that no release
// and acquire (or start, end or event) orders.
//
//   SimVar<int> slot("slot", 0);
//   slot = 7;              // In the producer, then a release store.
//   const int got = slot;  // In the consumer, after the acquire load.

#ifndef TENON_SHM_TESTING_SCHEDULER_SIM_VAR_H_
#define TENON_SHM_TESTING_SCHEDULER_SIM_VAR_H_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/schedule_trace.h"
#include "tenon/shm/testing/scheduler/weak_memory.h"

namespace tenon {

// Lives in the body, for one schedule. Its accesses are not scheduling points,
// but a killable thread may die before each of them.
template <typename T>
class SimVar {
 public:
  // In traces: name, or name[0] and so on. `name` is not copied.
  explicit SimVar(const char* name = "data", int index = -1)
      : label_{name, index} {}

  SimVar(const SimVar&) = delete;
  SimVar& operator=(const SimVar&) = delete;

  // A write.
  SimVar& operator=(T value) {
    Schedule& s = Schedule::Current();
    s.WritePlain(accesses_,
                 Event(s.threads_.current(), ScheduleVerb::kWrite, value));
    value_ = std::move(value);
    return *this;
  }

  // A read. Implicit, as for a T.
  operator T() const {  // NOLINT(google-explicit-constructor): like a T.
    Schedule& s = Schedule::Current();
    s.ReadPlain(accesses_,
                Event(s.threads_.current(), ScheduleVerb::kRead, value_));
    return value_;
  }

  void set_label(const char* name, int index) { label_ = {name, index}; }

 private:
  ScheduleEvent Event(int thread, ScheduleVerb verb, const T& value) const {
    ScheduleEvent event = {thread, verb, label_};
    if constexpr (std::is_integral_v<T>) {
      event.value = static_cast<uint64_t>(value);
    } else {
      event.shown = false;
    }
    return event;
  }

  ScheduleLabel label_;
  T value_ = {};
  mutable WeakMemory::PlainAccesses accesses_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SIM_VAR_H_
