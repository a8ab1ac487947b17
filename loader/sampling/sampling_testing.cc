// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/sampling_testing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

std::vector<int64_t> EpochOf(Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> indices(static_cast<size_t>(sampler.size()));
  sampler.Fill(epoch, 0, absl::MakeSpan(indices));
  return indices;
}

std::vector<int64_t> EpochBackwards(Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> indices(static_cast<size_t>(sampler.size()));
  for (int64_t position = sampler.size() - 1; position >= 0; --position) {
    sampler.Fill(epoch, position, {&indices[static_cast<size_t>(position)], 1});
  }
  return indices;
}

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int64_t> Iota(int64_t size) {
  std::vector<int64_t> values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

double ChiSquare(const std::vector<int64_t>& counts) {
  const auto sum = static_cast<double>(
      std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const double expected = sum / static_cast<double>(counts.size());
  double result = 0;
  for (const int64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    result += off * off / expected;
  }
  return result;
}

double ChiSquareBound(size_t k) {
  // Laurent and Massart, 2000: P(X - d >= 2 sqrt(d x) + 2 x) <= exp(-x).
  const auto freedom = static_cast<double>(k - 1);
  const double x = 21;  // exp(-21) < 10^-9.
  return freedom + 2 * std::sqrt(freedom * x) + 2 * x;
}

}  // namespace tenon::loader
