// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Litmus programs: a few operations per thread, whose outcomes distinguish
// memory models. The same program runs under the scheduler (here) and is
// evaluated by the axioms of C++20 (memory_axioms.h).
//
//   const LitmusProgram store_buffering = {
//       {Write(0, 1, relaxed), Read(1, relaxed)},
//       {Write(1, 1, relaxed), Read(0, relaxed)}};
//   RunLitmus(store_buffering, 100000);  // "0 0 | 1 1", "0 1 | 1 1", ...

#ifndef TENON_SHM_TESTING_SCHEDULER_LITMUS_H_
#define TENON_SHM_TESTING_SCHEDULER_LITMUS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon {

struct LitmusOp {
  enum class Kind { kRead, kWrite, kAdd, kFence };
  Kind kind;
  int word = 0;
  uint64_t value = 0;
  std::memory_order order;
};

inline LitmusOp Read(int word, std::memory_order order) {
  return {LitmusOp::Kind::kRead, word, 0, order};
}
inline LitmusOp Write(int word, uint64_t value, std::memory_order order) {
  return {LitmusOp::Kind::kWrite, word, value, order};
}
inline LitmusOp Add(int word, uint64_t value, std::memory_order order) {
  return {LitmusOp::Kind::kAdd, word, value, order};
}
inline LitmusOp Fence(std::memory_order order) {
  return {LitmusOp::Kind::kFence, 0, 0, order};
}

using LitmusThread = std::vector<LitmusOp>;
// Words are numbered from 0 and are initially 0.
using LitmusProgram = std::vector<LitmusThread>;

int CountWords(const LitmusProgram& program);

// The results of all reads and adds, thread by thread, and the final values of
// the words: "1 0 | 1 1".
using LitmusOutcome = std::string;

LitmusOutcome MakeOutcome(const std::vector<uint64_t>& found,
                          const std::vector<uint64_t>& at_end);

// The outcomes of `schedules` schedules, each with the number, from 1, of the
// first schedule that produced it.
std::map<LitmusOutcome, uint64_t> RunLitmus(const LitmusProgram& program,
                                            uint64_t schedules);

// For messages: "W0=1.rlx R1.rlx || ...".
std::string ToString(const LitmusProgram& program);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_LITMUS_H_
