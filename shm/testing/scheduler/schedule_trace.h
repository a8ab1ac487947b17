// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ScheduleTrace: the operations of the logical threads of one schedule, in
// order, in readable form. A line is an operation:
//
//     12 consumer   load   head        1 acquire, stale
//     13 producer   add    cell[0]     0x100000001 -> 0x200000002 seq_cst

#ifndef TENON_SHM_TESTING_SCHEDULER_SCHEDULE_TRACE_H_
#define TENON_SHM_TESTING_SCHEDULER_SCHEDULE_TRACE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// The name of a word, a piece of data or an event: "name", or "name[index]".
struct ScheduleLabel {
  const char* name = "";  // Not owned; a literal.
  int index = -1;
};

std::string ToString(const ScheduleLabel& label);

enum class ScheduleVerb : uint8_t {
  kLoad,
  kStore,
  kAdd,
  kSwap,
  kSwapFailed,
  kFence,
  kFenceAll,
  kPause,
  kRead,  // Plain data.
  kWrite,
  kNotify,
  kWait,
  kWoken,
  kSawRunning,  // Of another thread.
  kSawEnded,
  kEnded,
  kKilled,
};

struct ScheduleEvent {
  int thread;
  ScheduleVerb verb;
  ScheduleLabel label = {};
  uint64_t value = 0;   // Loaded or stored; kRead, kWrite: see `shown`.
  uint64_t before = 0;  // kAdd, kSwap: the previous value.
  std::memory_order order = std::memory_order_relaxed;
  bool stale = false;  // A newer value existed, and was not seen yet.
  bool shown = true;   // `value` is the value of plain data.
};

// Thread-compatible.
class ScheduleTrace {
 public:
  // Clears the trace. Keeps later events if `keep`.
  void Reset(bool keep);

  void Add(const ScheduleEvent& event) {
    fingerprint_ ^= event.value + (static_cast<uint64_t>(event.thread) << 56) +
                    (static_cast<uint64_t>(event.verb) << 48);
    fingerprint_ *= 0x9e3779b97f4a7c15;
    fingerprint_ ^= fingerprint_ >> 29;
    if (keep_) events_.push_back(event);
  }

  // Of all added events, kept or not: equal for equal events, and almost
  // certainly different for different ones.
  uint64_t fingerprint() const { return fingerprint_; }

  // One line for each event. `names` are those of the threads, by number. The
  // middle of a very long trace is omitted, with a note.
  std::string ToString(const std::vector<std::string>& names) const;

 private:
  bool keep_ = false;
  uint64_t fingerprint_ = 0;
  std::vector<ScheduleEvent> events_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SCHEDULE_TRACE_H_
