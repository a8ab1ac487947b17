// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SampleRandom: the random numbers of one sample.
//
// They depend on (seed, epoch, position in the epoch) alone: not on the worker,
// thread, process or rank that draws them, nor on the draws for other samples.
// So an epoch is the same with 0 workers and with 50, and can be resumed
// anywhere. The position is that in the epoch of the whole job
// (Sampler::GlobalPosition()): an item that an epoch has twice is augmented in
// two ways.
//
// Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC'11), from the Random123 library. Key: the
// seed. Counter: {block of 4 draws, epoch, position}, low words first.
//
// Stability: the words, Uniform() and UniformInt() stay the same, bit for bit,
// in all versions of Tenon and on all processors; tests compare known answers.
// A SampleRandom is a UniformRandomBitGenerator, for distributions of Abseil
// and <random>, whose results may change with their versions:
//
//   int angle = absl::Uniform(absl::IntervalClosed, draws, -10, 10);

#ifndef TENON_LOADER_SAMPLING_SAMPLE_RANDOM_H_
#define TENON_LOADER_SAMPLING_SAMPLE_RANDOM_H_

#include <array>
#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// A value of 44 bytes; copying it copies the state. Thread-compatible. Draws
// 2^34 words before it repeats.
class SampleRandom {
 public:
  // Epochs count modulo 2^32. Negative positions are reserved for samplers.
  SampleRandom(uint64_t seed, int64_t epoch, int64_t position);

  using result_type = uint32_t;
  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return UINT32_MAX; }

  // 32 uniform bits.
  uint32_t operator()();

  // 64 uniform bits: two draws, the first one high.
  uint64_t Bits64();

  // Uniform in [0, 1), a multiple of 2^-53: the high 53 bits of Bits64().
  double Uniform();

  // Uniform in [0, bound), without bias; `bound` must not be 0. Draws Bits64()
  // until it is at least 2^64 mod bound, and returns it modulo bound.
  uint64_t UniformInt(uint64_t bound);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_;
  int used_ = 4;  // Words of block_ that are spent.
};
static_assert(sizeof(SampleRandom) == 44);

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_SAMPLE_RANDOM_H_
