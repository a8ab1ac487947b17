// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MeasureVersus: for benchmarks, the cost of an operation beside its limit.
//
//   void BM_Copy(benchmark::State& state) {
//     MeasureVersus(state, [&] { return tensor.CopyFrom(other); },
//                   [&] { std::memcpy(to, from, size); return OkStatus(); });
//   }
//
// Both alternate, one call each, so that other load of the machine affects
// both.

#ifndef TENON_SHM_TESTING_VERSUS_H_
#define TENON_SHM_TESTING_VERSUS_H_

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmark/benchmark.h"

namespace tenon {

namespace internal_versus {

// CPU time, because machines that measure are seldom idle.
inline double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

inline double Median(std::vector<double> samples) {
  const auto middle =
      samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// Appends the duration of one call.
template <typename Call>
absl::Status Sample(Call&& call, std::vector<double>& samples) {
  const double start = CpuSeconds();
  absl::Status status = call();
  samples.push_back(CpuSeconds() - start);
  return status;
}

}  // namespace internal_versus

// Runs `ours` and `limit`, which return a Status, by turns. The time is that of
// `ours`; the counters are vs_limit, the ratio of the medians, and limit_us,
// the median of the limit. For a benchmark that has UseManualTime().
template <typename Ours, typename Limit>
void MeasureVersus(benchmark::State& state, Ours&& ours, Limit&& limit) {
  std::vector<double> of_ours;
  std::vector<double> of_limit;
  bool ours_first = true;
  for (auto _ : state) {
    absl::Status first, second;
    if (ours_first) {
      first = internal_versus::Sample(ours, of_ours);
      second = internal_versus::Sample(limit, of_limit);
    } else {
      first = internal_versus::Sample(limit, of_limit);
      second = internal_versus::Sample(ours, of_ours);
    }
    ours_first = !ours_first;
    state.SetIterationTime(of_ours.back());
    if (first.ok()) first = std::move(second);
    if (!first.ok()) {
      state.SkipWithError(first.ToString().c_str());
      return;
    }
  }
  if (of_ours.empty()) return;
  const double median = internal_versus::Median(std::move(of_limit));
  state.counters["limit_us"] = median * 1e6;
  state.counters["vs_limit"] =
      internal_versus::Median(std::move(of_ours)) / median;
}

}  // namespace tenon

#endif  // TENON_SHM_TESTING_VERSUS_H_
