// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CheckMemoryLimit, CheckShmLimit: whether a request of memory can ever be met.
//
//   TENON_RETURN_IF_ERROR(CheckMemoryLimit(bytes, "mmap", "a storage"));

#ifndef TENON_SHM_BASE_MEMORY_LIMIT_H_
#define TENON_SHM_BASE_MEMORY_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon {

// OK if so much memory can be free at some time: GetMemoryLimit() of
// available_memory.h. Reads files under /proc and /sys, in some 100 us.
// Errors: kResourceExhausted naming the limit: to wait for memory is of no use.
absl::Status CheckMemoryLimit(uint64_t size_bytes, absl::string_view call,
                              absl::string_view what);

// The same for a file in /dev/shm, which has a size of its own: OK if that is
// large enough, or not limited. One system call.
// Errors: kResourceExhausted, which names the size of /dev/shm and its free
// bytes.
absl::Status CheckShmLimit(uint64_t size_bytes, absl::string_view call,
                           absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_BASE_MEMORY_LIMIT_H_
