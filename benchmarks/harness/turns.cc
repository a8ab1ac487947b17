// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/turns.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace tenon::benchmarks {
namespace {

// `samples` are sorted, and not empty.
double Quantile(const std::vector<double>& samples, double at) {
  const double position = at * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, samples.size() - 1);
  const double share = position - static_cast<double>(below);
  return samples[below] + share * (samples[above] - samples[below]);
}

template <typename Value>
Quartiles QuartilesOfEach(absl::Span<const Turn> turns, const Value& value) {
  std::vector<double> samples;
  samples.reserve(turns.size());
  for (const Turn& turn : turns) samples.push_back(value(turn));
  return QuartilesOf(std::move(samples));
}

}  // namespace

std::string GroupName(Group group) {
  switch (group) {
    case Group::kNear:
      return "near";
    case Group::kFar:
      return "far";
    case Group::kAny:
      return "any";
    case Group::kMixed:
      return "mixed";
    case Group::kAwake:
      return "awake";
  }
  return "unknown";
}

Group GroupOf(const Turn& turn, const TurnRules& rules) {
  if (turn.slept < rules.must_sleep) return Group::kAwake;
  if (!rules.crosses_cores) return Group::kAny;
  const auto near =
      std::count_if(turn.line_ns.begin(), turn.line_ns.end(),
                    [&](double ns) { return ns < rules.near_below_ns; });
  if (near == 0) return Group::kFar;
  const auto all = static_cast<ptrdiff_t>(turn.line_ns.size());
  return near == all ? Group::kNear : Group::kMixed;
}

Quartiles QuartilesOf(std::vector<double> samples) {
  std::erase_if(samples, [](double sample) { return std::isnan(sample); });
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {.count = samples.size(),
          .least = samples.front(),
          .lower = Quantile(samples, 0.25),
          .median = Quantile(samples, 0.5),
          .upper = Quantile(samples, 0.75)};
}

Group Turns::Add(Turn turn) {
  const Group group = GroupOf(turn, rules_);
  turns_[group].push_back(std::move(turn));
  return group;
}

Quartiles Turns::Nanoseconds(Group group, size_t subject) const {
  return QuartilesOfEach(Of(group),
                         [&](const Turn& turn) { return turn.ns.at(subject); });
}

Quartiles Turns::Ratio(Group group, size_t subject, size_t limit) const {
  return QuartilesOfEach(Of(group), [&](const Turn& turn) {
    return turn.ns.at(subject) / turn.ns.at(limit);
  });
}

Quartiles Turns::Line(Group group) const {
  std::vector<double> samples;
  for (const Turn& turn : Of(group)) {
    samples.insert(samples.end(), turn.line_ns.begin(), turn.line_ns.end());
  }
  return QuartilesOf(std::move(samples));
}

Quartiles Turns::Slept(Group group) const {
  return QuartilesOfEach(Of(group),
                         [](const Turn& turn) { return turn.slept; });
}

absl::Span<const Turn> Turns::Of(Group group) const {
  const auto found = turns_.find(group);
  if (found == turns_.end()) return {};
  return found->second;
}

}  // namespace tenon::benchmarks
