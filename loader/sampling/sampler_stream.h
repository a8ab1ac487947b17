// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The random numbers of samplers, apart from those of samples.

#ifndef TENON_LOADER_SAMPLING_SAMPLER_STREAM_H_
#define TENON_LOADER_SAMPLING_SAMPLER_STREAM_H_

#include <cstdint>
#include <limits>

#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// Samplers that share a seed. The values are part of the order of an epoch.
enum class SamplerStream : int64_t { kOrder = 0, kWeighted = 1, kBuckets = 2 };

// Numbers of sampler `stream` for its `part` (< 2^60) of the epoch. Positions
// of samples are not negative, so these are no sample's.
inline SampleRandom SamplerRandom(SamplerStream stream, uint64_t seed,
                                  int64_t epoch, int64_t part) {
  return SampleRandom(seed, epoch,
                      std::numeric_limits<int64_t>::min() +
                          static_cast<int64_t>(stream) * (int64_t{1} << 60) +
                          part);
}

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_SAMPLER_STREAM_H_
