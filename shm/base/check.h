// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TENON_CHECK: ends the process on a condition that only a bug can violate.
//
//   TENON_CHECK(fd_.valid(), "PidFd used after it was moved from");
//
// Errors that a caller, a peer or the system can cause are statuses.

#ifndef TENON_SHM_BASE_CHECK_H_
#define TENON_SHM_BASE_CHECK_H_

#include <string_view>

namespace tenon {

// Writes "FILE:LINE: Check failed: TEXT" and the last errno to stderr, as one
// line, and calls abort(). Async-signal-safe, without allocation. Thread-safe.
[[noreturn]] void Abort(std::string_view text,
                        const char* file = __builtin_FILE(),
                        int line = __builtin_LINE());

}  // namespace tenon

// Abort(text) if `condition` is false; `text` is evaluated only then.
#define TENON_CHECK(condition, text) \
  ((condition) ? static_cast<void>(0) : ::tenon::Abort(text))

#endif  // TENON_SHM_BASE_CHECK_H_
