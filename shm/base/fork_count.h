// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ForkCount: lets a handle detect that it was inherited by fork().
//
// A forked child has copies of its parent's handles, but the objects behind
// them (a name in /dev/shm, a column of the ledger, a child process) are the
// parent's. Handles remember the count at their creation and are inert under
// another: their calls fail, their destructors leave shared objects alone.

#ifndef TENON_SHM_BASE_FORK_COUNT_H_
#define TENON_SHM_BASE_FORK_COUNT_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {
namespace fork_count_internal {
// Defined beside the code that counts, so that readers link that code, too.
extern std::atomic<uint64_t> fork_count;
absl::Status Inherited(absl::string_view what);
}  // namespace fork_count_internal

// The number of fork()s between this process and the first one of its program.
// A load of one word. Counted by pthread_atfork(), so a raw clone() or
// _Fork() is not seen.
inline uint64_t ForkCount() {
  return fork_count_internal::fork_count.load(std::memory_order_relaxed);
}

// OK if `made_under` is the current count; else kFailedPrecondition naming
// `what`.
inline absl::Status CheckNotForked(uint64_t made_under,
                                   absl::string_view what) {
  if (made_under == ForkCount()) [[likely]]
    return absl::OkStatus();
  return fork_count_internal::Inherited(what);
}

// The number of threads of this process, of which fork() copies one. 0 if /proc
// does not show it. Thread-safe.
int CountThreads();

}  // namespace tenon

#endif  // TENON_SHM_BASE_FORK_COUNT_H_
