// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SpinBudget: how long it is worth spinning before going to sleep.
//
// To be woken across cores costs some 35 us, to see a cache line change 0.1 us;
// but a spinning thread takes a core from working ones. So: not at all where
// there is one core, shortly where there are two, longer where there are more;
// and less where it was in vain.

#ifndef TENON_IPC_DOORBELL_SPIN_BUDGET_H_
#define TENON_IPC_DOORBELL_SPIN_BUDGET_H_

#include <cstdint>

namespace tenon {

// A value. Thread-compatible. A turn is one look and one pause instruction,
// some 40 ns on present processors.
class SpinBudget {
 public:
  static constexpr uint32_t kTwoCores = 256;    // Some 10 us.
  static constexpr uint32_t kManyCores = 1024;  // Some 40 us.
  static constexpr uint32_t kLeast = 8;         // To find out that it is worth.
  // So many spins in vain halve the budget; one with success doubles it.
  static constexpr uint32_t kPatience = 4;

  // For a process that may use `cores` cores.
  explicit SpinBudget(int cores);
  // For this one, by its affinity at the time of the call.
  static SpinBudget ForThisProcess();

  // How many turns the next spin may take; 0: none.
  uint32_t turns() const { return turns_; }
  void Succeeded();
  void Failed();

 private:
  uint32_t most_;
  uint32_t turns_;
  uint32_t failed_ = 0;  // In a row.
};

// How many cores the calling thread may run on; 1 if that cannot be told.
int UsableCores();

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_SPIN_BUDGET_H_
