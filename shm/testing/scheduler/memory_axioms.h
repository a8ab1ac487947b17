// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// AllowedOutcomes: the outcomes that C++20's memory model allows for a litmus
// program, computed from the axioms. It shares no code with WeakMemory, which
// it checks: it does not run the program, but enumerates every reads-from and
// every modification order, and keeps those that the axioms accept (notation of
// RC11; Lahav et al., "Repairing Sequential Consistency in C/C++11", PLDI
// 2017):
//
//   coherence   irreflexive(hb ; eco?)
//   atomicity   a RMW comes right behind its source, in modification order
//   no load buffering and seq_cst
//               acyclic(sb | rf | scord), where A scord B if A eco B, A is
//               seq_cst or comes after a seq_cst fence, B is or comes before
//               one: [atomics.order] paragraph 4 with a total order that
//               contains sb and rf.
//
// In the last line WeakMemory is stricter than C++20, which requires two
// separate conditions: see its header.

#ifndef TENON_SHM_TESTING_SCHEDULER_MEMORY_AXIOMS_H_
#define TENON_SHM_TESTING_SCHEDULER_MEMORY_AXIOMS_H_

#include <set>

#include "tenon/shm/testing/scheduler/litmus.h"

namespace tenon {

// For programs of up to 30 operations and words together. Time is exponential:
// at most four writes to a word, and eight reads, are quick.
std::set<LitmusOutcome> AllowedOutcomes(const LitmusProgram& program);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_MEMORY_AXIOMS_H_
