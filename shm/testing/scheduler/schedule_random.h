// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ScheduleRandom: the random numbers of one schedule.
//
// The sequence is a function of the seed and never changes, so that a seed
// printed yesterday replays today. Splitmix64 (Steele, Lea, Flood: "Fast
// Splittable Pseudorandom Number Generators", OOPSLA 2014): neighbouring seeds
// give unrelated sequences.

#ifndef TENON_SHM_TESTING_SCHEDULER_SCHEDULE_RANDOM_H_
#define TENON_SHM_TESTING_SCHEDULER_SCHEDULE_RANDOM_H_

#include <cstdint>

namespace tenon {

// A value. Thread-compatible.
class ScheduleRandom {
 public:
  explicit ScheduleRandom(uint64_t seed) : state_(seed) {}

  // 64 uniform random bits.
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In [0, bound), with a bias below bound / 2^32; `bound` must not be 0.
  uint32_t Below(uint32_t bound) {
    return static_cast<uint32_t>(((Next() >> 32) * bound) >> 32);
  }

  // True `of_256` times in 256.
  bool Chance(uint32_t of_256) {
    return of_256 != 0 && (Next() >> 56) < of_256;
  }

 private:
  uint64_t state_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SCHEDULE_RANDOM_H_
