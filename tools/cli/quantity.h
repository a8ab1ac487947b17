// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Quantities in words: sizes and ages as people read them.

#ifndef TENON_TOOLS_CLI_QUANTITY_H_
#define TENON_TOOLS_CLI_QUANTITY_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace tenon::tools {

// "0 B", "1023 B", "1.0 KiB", "16.5 MiB", "3.2 TiB": cut, not rounded, so that
// nothing looks larger than it is. Pure.
std::string FormatBytes(uint64_t bytes);

// "0.3s", "12s", "3m 20s", "5h 2m", "3d 4h". Negative ones are "0.0s". Pure.
std::string FormatAge(absl::Duration age);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_CLI_QUANTITY_H_
