// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SampleRandom: the random numbers of one sample.
//
// They are a function of (seed, epoch, position in the epoch) and of nothing
// else: not of the worker that draws them, of how many workers there are, or of
// what was drawn for other samples. So an epoch is the same with 0 workers and
// with 50, and can be entered in the middle.
//
// Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC'11), from the Random123 library. Key: the
// seed. Counter: {block of 4 draws, epoch, position}.

#ifndef TENON_LOADER_SAMPLING_SAMPLE_RANDOM_H_
#define TENON_LOADER_SAMPLING_SAMPLE_RANDOM_H_

#include <array>
#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// A value of 48 bytes; copying it copies the state. Thread-compatible. Draws
// 2^34 words before it repeats. Also a UniformRandomBitGenerator; the
// distributions of <random> differ between standard libraries, those here do
// not.
class SampleRandom {
 public:
  // Epochs count modulo 2^32.
  SampleRandom(uint64_t seed, int64_t epoch, int64_t position);

  using result_type = uint32_t;
  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return UINT32_MAX; }

  // 32 uniform bits.
  uint32_t operator()();

  // Uniform in [0, 1), a multiple of 2^-53.
  double Uniform();

  // Uniform in [0, bound), without bias; `bound` must not be 0.
  uint64_t UniformInt(uint64_t bound);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_;
  int used_ = 4;  // Words of block_ that are spent.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_SAMPLE_RANDOM_H_
