// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ForkCount: tells a handle that it was inherited by fork() and not made here.
//
// A forked child has copies of its parent's handles, but what they stand for
// (a name in /dev/shm, a column of the ledger, a child process) is the
// parent's. Handles remember the count they were made under and are inert under
// another: their calls fail, their destructors leave shared objects alone.

#ifndef TENON_SHM_BASE_FORK_COUNT_H_
#define TENON_SHM_BASE_FORK_COUNT_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon {
namespace fork_count_internal {
// Defined where it is counted, so that its readers link that, too.
extern std::atomic<uint64_t> fork_count;
absl::Status Inherited(absl::string_view what);
}  // namespace fork_count_internal

// The number of fork()s between this process and the first one of its program.
// A load of one word. Counted by pthread_atfork(), so a raw clone() or
// _Fork() is not seen.
inline uint64_t ForkCount() {
  return fork_count_internal::fork_count.load(std::memory_order_relaxed);
}

// OK if `made_under` is the present count; else kFailedPrecondition naming
// `what`.
inline absl::Status CheckNotForked(uint64_t made_under,
                                   absl::string_view what) {
  if (made_under == ForkCount()) [[likely]]
    return absl::OkStatus();
  return fork_count_internal::Inherited(what);
}

// How many threads this process has: fork() copies one of them. 0 if /proc does
// not say. Thread-safe.
int CountThreads();

}  // namespace tenon

#endif  // TENON_SHM_BASE_FORK_COUNT_H_
