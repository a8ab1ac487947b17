// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ReadFile: a whole file as bytes.

#ifndef TENON_EXAMPLES_PHOTOS_FILE_BYTES_H_
#define TENON_EXAMPLES_PHOTOS_FILE_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tenon {

// Replaces `bytes` by the contents of the regular file `path`; its memory is
// reused. Blocks on the disk. After an error `bytes` may hold anything.
// Errors: those of open(), fstat() and read(), by PosixError();
// kInvalidArgument for a directory, a device, or a pipe (without waiting for
// it).
absl::Status ReadFile(const std::string& path, std::vector<uint8_t>& bytes);

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_FILE_BYTES_H_
