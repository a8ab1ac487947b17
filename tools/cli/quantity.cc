// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/cli/quantity.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/size_text.h"

namespace tenon::tools {

std::string FormatBytes(uint64_t bytes) { return ReadableSize(bytes); }

std::string FormatAge(absl::Duration age) {
  if (age < absl::ZeroDuration()) age = absl::ZeroDuration();
  const int64_t seconds = absl::ToInt64Seconds(age);
  if (seconds < 10) {
    return absl::StrCat(seconds, ".", absl::ToInt64Milliseconds(age) / 100 % 10,
                        "s");
  }
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 3600) {
    return absl::StrCat(seconds / 60, "m ", seconds % 60, "s");
  }
  if (seconds < 86400) {
    return absl::StrCat(seconds / 3600, "h ", seconds / 60 % 60, "m");
  }
  return absl::StrCat(seconds / 86400, "d ", seconds / 3600 % 24, "h");
}

}  // namespace tenon::tools
