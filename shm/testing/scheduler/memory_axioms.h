// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// AllowedOutcomes: what the memory model of C++20 allows a litmus program to
// do, worked out from the axioms. It shares nothing with WeakMemory, which it
// checks: it runs nothing, but tries every reads-from and every modification
// order, and keeps those that the axioms accept (notation of RC11; Lahav et
// al., "Repairing Sequential Consistency in C/C++11", PLDI 2017):
//
//   coherence   irreflexive(hb ; eco?)
//   atomicity   a RMW comes right behind what it reads, in modification order
//   no load buffering and seq_cst
//               acyclic(sb | rf | scord), where A scord B if A eco B, A is
//               seq_cst or comes after a seq_cst fence, B is or comes before
//               one: [atomics.order] paragraph 4 with a total order that
//               contains sb and rf.
//
// The last line is where WeakMemory is stricter than C++20, which asks for two
// conditions apart: see its header.

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
