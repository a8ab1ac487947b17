// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/testing/mutate_testing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

namespace tenon::spawn {
namespace {

constexpr uint64_t kExtremes[] = {
    0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, uint64_t{1} << 63, ~uint64_t{0}};

}  // namespace

std::string Mutator::Mutate(std::string bytes) {
  for (size_t changes = 1 + Below(4); changes > 0; --changes) MutateOnce(bytes);
  return bytes;
}

void Mutator::MutateOnce(std::string& bytes) {
  const size_t at = Below(bytes.size() + 1);
  const size_t size = std::min(1 + Below(8), bytes.size() - at);
  switch (Below(5)) {
    case 0:
      if (size > 0) bytes[at] = static_cast<char>(random_());
      break;
    case 1:
      std::memcpy(&bytes[at], &kExtremes[Below(std::size(kExtremes))], size);
      break;
    case 2:
      bytes.erase(at, size);
      break;
    case 3:
      bytes.insert(at, 1 + Below(8), static_cast<char>(random_()));
      break;
    case 4:
      bytes.resize(at);
      break;
  }
}

}  // namespace tenon::spawn
