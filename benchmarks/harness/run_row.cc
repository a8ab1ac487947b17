// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/run_row.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenon/benchmarks/harness/pair.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/benchmarks/harness/turns.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon::benchmarks {
namespace {

// Now and then a wait begins when its message is there already: this process
// did not run for a while.
constexpr double kMustSleep = 0.9;

// A row that has kept no turn goes on for this many times as long.
constexpr int kPatience = 10;

Turn TakeTurn(const std::vector<NamedSubject>& subjects, const Row& row,
              Pair& pair) {
  Turn turn = {.line_ns = {pair.Line()}, .slept = INFINITY};
  for (size_t i = 0; i < subjects.size(); ++i) {
    if (subjects[i].subject == nullptr ||
        !subjects[i].subject->failure().empty()) {
      turn.ns.push_back(NAN);
      continue;
    }
    const Measured measured = pair.Run(i, row.count);
    turn.ns.push_back(measured.ns);
    turn.slept = std::min(turn.slept, measured.slept);
    turn.line_ns.push_back(pair.Line());
  }
  return turn;
}

// The smallest and the largest number of turns that a distance has.
std::pair<size_t, size_t> KeptTurns(const RowResult& result) {
  std::vector<size_t> counts;
  for (const Group group : GroupsOf(result.row)) {
    counts.push_back(result.turns.count(group));
  }
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return {*least, *most};
}

void TakeTurns(const std::vector<NamedSubject>& subjects, const TwoCores& cores,
               const RunOptions& options, RowResult& result) {
  Pair pair(subjects, cores);
  TakeTurn(subjects, result.row, pair);  // The first one warms up.
  const Deadline end = Deadline::After(options.time);
  const Deadline last = Deadline::After(kPatience * options.time);
  for (;;) {
    result.turns.Add(TakeTurn(subjects, result.row, pair));
    const auto [least, most] = KeptTurns(result);
    if (least >= options.turns || last.has_passed()) return;
    if (most > 0 && end.has_passed()) return;
  }
}

void CheckThatItWasMeasured(RowResult& result) {
  if (KeptTurns(result).second > 0) return;
  result.status = RowResult::kFailed;
  result.reason = absl::StrCat(
      "no turn could be kept: in ", result.turns.count(Group::kMixed),
      " the distance of the cores changed, in ",
      result.turns.count(Group::kAwake), " a waiter that should sleep did not");
}

}  // namespace

std::vector<Group> GroupsOf(const Row& row) {
  if (!row.crosses_cores) return {Group::kAny};
  return {Group::kNear, Group::kFar};
}

RowResult RunRow(const Row& row, const TwoCores& cores,
                 const RunOptions& options) {
  const TurnRules rules = {.near_below_ns = options.near_below_ns,
                           .crosses_cores = row.crosses_cores,
                           .must_sleep = row.sleeps ? kMustSleep : 0};
  RowResult result = {.row = row, .turns = Turns(rules)};
  result.row.count = std::min(row.count, options.most_in_a_turn);
  if (!cores.are_there()) {
    result.status = RowResult::kSkipped;
    result.reason = "this process may use one core only";
    return result;
  }
  const std::vector<NamedSubject> subjects = row.subjects();
  TakeTurns(subjects, cores, options, result);
  for (const NamedSubject& named : subjects) {
    result.subjects.push_back(
        {.name = named.name,
         .missing = named.missing,
         .failure = named.subject ? named.subject->failure() : ""});
  }
  CheckThatItWasMeasured(result);
  return result;
}

}  // namespace tenon::benchmarks
