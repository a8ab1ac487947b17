// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/size_text.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace tenon {

std::string ReadableSize(uint64_t bytes) {
  constexpr const char* kUnits[] = {" KiB", " MiB", " GiB", " TiB", " PiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  size_t unit = 0;
  uint64_t divisor = 1024;
  while (bytes / divisor >= 1024 && unit + 1 < std::size(kUnits)) {
    divisor *= 1024;
    ++unit;
  }
  const uint64_t tenths = bytes % divisor / (divisor / 1024) * 10 / 1024;
  return absl::StrCat(bytes / divisor, ".", tenths, kUnits[unit]);
}

std::string SizeText(uint64_t bytes) {
  if (bytes == std::numeric_limits<uint64_t>::max()) return "unlimited";
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  return absl::StrCat(bytes, " bytes (", ReadableSize(bytes), ")");
}

}  // namespace tenon
