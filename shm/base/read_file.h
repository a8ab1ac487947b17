// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Reads files of /proc and /sys. A stream of the standard library is no
// alternative: its buffer throws where read() fails, as it does for
// /proc/PID/stat if the process ends after open().

#ifndef TENON_SHM_BASE_READ_FILE_H_
#define TENON_SHM_BASE_READ_FILE_H_

#include <cstddef>
#include <limits>
#include <string>

#include "absl/status/statusor.h"

namespace tenon {

// The contents of a file, at most its first `most_bytes`. Thread-safe.
// Errors: those of open() and read(): kNotFound if a process of /proc has
// ended.
absl::StatusOr<std::string> ReadFile(
    const std::string& path,
    size_t most_bytes = std::numeric_limits<size_t>::max());

}  // namespace tenon

#endif  // TENON_SHM_BASE_READ_FILE_H_
