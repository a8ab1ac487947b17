// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Turns: the samples of a row, sorted by the distance between the two cores.
//
// On virtual machines the distance of two cores changes within seconds, and a
// cache line there and back takes five times as long. So the subjects of a row
// take turns, with the cache line before, between and after them; the lines
// decide to which distance a turn belongs, and subjects are compared within the
// turns of one distance only.

#ifndef TENON_BENCHMARKS_HARNESS_TURNS_H_
#define TENON_BENCHMARKS_HARNESS_TURNS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace tenon::benchmarks {

// The groups into which turns are sorted.
enum class Group {
  kNear,   // Each line took less than the bound.
  kFar,    // None did.
  kAny,    // The distance does not matter: one thread does all the work.
  kMixed,  // The distance changed during the turn. Discarded.
  kAwake,  // A waiter that should sleep found its message there. Discarded.
};
// "near", and so on, as in the report.
std::string GroupName(Group group);

// One run of each subject of a row, in nanoseconds for one hand-over.
struct Turn {
  std::vector<double> line_ns;  // Before each subject, and after the last.
  std::vector<double> ns;       // By subject; NaN: it was not measured.
  // The share of hand-overs for which a waiter slept; the smaller one of the
  // two processes, and of the subjects.
  double slept = 0;
};

struct TurnRules {
  double near_below_ns = 250;  // A cache line there and back.
  bool crosses_cores = true;
  // At least this share of hand-overs must find both sides asleep.
  double must_sleep = 0;
};

Group GroupOf(const Turn& turn, const TurnRules& rules);

// Of a sample. Quantiles between two samples are interpolated.
struct Quartiles {
  size_t count = 0;
  double least = 0, lower = 0, median = 0, upper = 0;
};
// Without the samples that are NaN.
Quartiles QuartilesOf(std::vector<double> samples);

// Ownership: a value. Threads: thread-compatible.
class Turns {
 public:
  explicit Turns(const TurnRules& rules) : rules_(rules) {}

  // Returns the turn's group.
  Group Add(Turn turn);

  const TurnRules& rules() const { return rules_; }
  size_t count(Group group) const { return Of(group).size(); }
  // Of one subject, by its index.
  Quartiles Nanoseconds(Group group, size_t subject) const;
  // Of one subject to another one in the same turns.
  Quartiles Ratio(Group group, size_t subject, size_t limit) const;
  Quartiles Line(Group group) const;
  Quartiles Slept(Group group) const;

 private:
  absl::Span<const Turn> Of(Group group) const;

  TurnRules rules_;
  std::map<Group, std::vector<Turn>> turns_;
};

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HARNESS_TURNS_H_
