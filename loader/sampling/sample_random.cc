// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/sample_random.h"

#include <Random123/philox.h>

#include <cstdint>

namespace tenon::loader {
namespace {

constexpr uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t High(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

}  // namespace

SampleRandom::SampleRandom(uint64_t seed, int64_t epoch, int64_t position)
    : key_{Low(seed), High(seed)},
      counter_{0, Low(static_cast<uint64_t>(epoch)),
               Low(static_cast<uint64_t>(position)),
               High(static_cast<uint64_t>(position))},
      block_{} {}

uint32_t SampleRandom::operator()() {
  if (used_ == 4) {
    const r123::Philox4x32::ctr_type counter = {
        {counter_[0], counter_[1], counter_[2], counter_[3]}};
    const r123::Philox4x32::key_type key = {{key_[0], key_[1]}};
    const auto block = r123::Philox4x32()(counter, key);
    for (int i = 0; i < 4; ++i) block_[i] = block[i];
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t SampleRandom::Bits64() {
  const uint64_t high = (*this)();
  return (high << 32) | (*this)();
}

double SampleRandom::Uniform() {
  return static_cast<double>(Bits64() >> 11) * 0x1p-53;
}

uint64_t SampleRandom::UniformInt(uint64_t bound) {
  // Rejects the draws beyond the last whole multiple of bound.
  const uint64_t reject_below = (0 - bound) % bound;
  for (;;) {
    const uint64_t draw = Bits64();
    if (draw >= reject_below) return draw % bound;
  }
}

}  // namespace tenon::loader
