// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SpinBudget: how long spinning before a sleep pays off.
//
// To be woken across cores costs about 35 us, to see a cache line change 0.1
// us; but a spinning thread takes a core from working ones. So it does not spin
// on one core, spins briefly on two and longer on more, and less after spins in
// vain. Two that wait for each other and both sleep make each other's short
// spins fail: so now and then one spin is a long one.

#ifndef TENON_IPC_DOORBELL_SPIN_BUDGET_H_
#define TENON_IPC_DOORBELL_SPIN_BUDGET_H_

#include <cstdint>

namespace tenon {

// A value. Thread-compatible. A turn is one check and one pause instruction,
// about 40 ns on present processors.
class SpinBudget {
 public:
  static constexpr uint32_t kTwoCores = 256;    // About 10 us.
  static constexpr uint32_t kManyCores = 1024;  // About 40 us.
  static constexpr uint32_t kLeast = 8;
  // This many spins in vain halve the budget; one success doubles it.
  static constexpr uint32_t kPatience = 4;
  // After this many spins in vain the next one lasts longer than a wake-up of
  // the other side, to detect that spinning pays off again. Its success
  // restores the budget.
  static constexpr uint32_t kProbeAfter = 64;
  static constexpr uint32_t kProbe = kManyCores;

  // For a process that may use `cores` cores.
  explicit SpinBudget(int cores);
  // For this process, by its affinity at the time of the call.
  static SpinBudget ForThisProcess();
  // The same, for a thread that waits for `others` threads or processes: if all
  // of them and the waiter have a core each, its spins take none from them, and
  // may last as long as a wake-up also on two cores.
  static SpinBudget ForThisProcess(int others);

  // The turns of the next spin; 0: none.
  uint32_t turns() const { return IsProbe() ? kProbe : turns_; }
  void Succeeded();
  void Failed();

 private:
  bool IsProbe() const { return unsuccessful_ == kProbeAfter && most_ != 0; }

  uint32_t most_;
  uint32_t turns_;
  uint32_t failed_ = 0;        // In a row, at this budget.
  uint32_t unsuccessful_ = 0;  // In a row, since the last probe.
};

// The number of cores on which the calling thread may run; 1 if unknown.
int UsableCores();

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_SPIN_BUDGET_H_
