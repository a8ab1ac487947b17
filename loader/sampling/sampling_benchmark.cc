// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What an index of an epoch costs, and the first one.

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/sampling/weighted_sampler.h"

namespace tenon::loader {
namespace {

constexpr int64_t kBatch = 64;

// Batches at positions all over the epoch.
void FillBatches(benchmark::State& state, Sampler& sampler) {
  std::vector<int64_t> indices(kBatch);
  int64_t first = 0;
  for (auto _ : state) {
    sampler.Fill(0, first, absl::MakeSpan(indices));
    benchmark::DoNotOptimize(indices.data());
    first += kBatch;
    if (first + kBatch > sampler.size()) first = 0;
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void BM_Random(benchmark::State& state) {
  const auto sampler = *RandomSampler::Create({.dataset_size = state.range(0)});
  FillBatches(state, *sampler);
}
BENCHMARK(BM_Random)->Arg(65'536)->Arg(1'281'167)->Arg(1'000'000'000);

void BM_RandomWithReplacement(benchmark::State& state) {
  const auto sampler = *RandomSampler::Create(
      {.dataset_size = state.range(0), .replacement = true});
  FillBatches(state, *sampler);
}
BENCHMARK(BM_RandomWithReplacement)->Arg(1'281'167);

void BM_Weighted(benchmark::State& state) {
  const auto sampler = *WeightedSampler::Create(
      {.weights = std::vector<double>(static_cast<size_t>(state.range(0)), 1)});
  FillBatches(state, *sampler);
}
BENCHMARK(BM_Weighted)->Arg(1'281'167);

// The table that RandomSampler does without for large datasets.
void BM_Table(benchmark::State& state) {
  std::vector<int64_t> table(static_cast<size_t>(state.range(0)));
  std::iota(table.begin(), table.end(), 0);
  SampleRandom random(0, 0, 0);
  for (auto _ : state) {
    for (size_t left = table.size(); left > 1; --left) {
      std::swap(table[left - 1], table[random.UniformInt(left)]);
    }
    benchmark::DoNotOptimize(table.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Table)->Arg(65'536)->Arg(1'281'167);

// The first index of another epoch.
void BM_FirstIndex(benchmark::State& state) {
  const auto sampler = *RandomSampler::Create({.dataset_size = state.range(0)});
  int64_t epoch = 0;
  int64_t index = 0;
  for (auto _ : state) {
    sampler->Fill(++epoch, 0, {&index, 1});
    benchmark::DoNotOptimize(index);
  }
}
BENCHMARK(BM_FirstIndex)->Arg(65'536)->Arg(1'281'167);

}  // namespace
}  // namespace tenon::loader
