// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Human-readable sizes and ages.

#ifndef TENON_TOOLS_CLI_QUANTITY_H_
#define TENON_TOOLS_CLI_QUANTITY_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace tenon::tools {

// ReadableSize(): "16.5 MiB".
std::string FormatBytes(uint64_t bytes);

// "0.3s", "12s", "3m 20s", "5h 2m", "3d 4h". Negative ages are "0.0s". Pure.
std::string FormatAge(absl::Duration age);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_CLI_QUANTITY_H_
