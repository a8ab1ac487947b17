// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of samplers.

#ifndef TENON_LOADER_SAMPLING_SAMPLING_TESTING_H_
#define TENON_LOADER_SAMPLING_SAMPLING_TESTING_H_

#include <cstdint>
#include <vector>

#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

// All indices of an epoch, from one call.
std::vector<int64_t> EpochOf(Sampler& sampler, int64_t epoch);

// The same, asked for one by one from the end to the beginning.
std::vector<int64_t> EpochBackwards(Sampler& sampler, int64_t epoch);

std::vector<int64_t> Sorted(std::vector<int64_t> values);

// 0, 1, ... size - 1.
std::vector<int64_t> Iota(int64_t size);

// Pearson's statistic of counts that should be equal: with k counts a sum of
// k - 1 squares of normal variables, of mean k - 1 and variance 2 (k - 1).
double ChiSquare(const std::vector<int64_t>& counts);

// A bound that ChiSquare() of k equally likely counts exceeds for less than one
// seed in 10^9.
double ChiSquareBound(size_t k);

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_SAMPLING_TESTING_H_
