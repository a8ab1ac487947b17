// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/fork_count.h"

#include <pthread.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tenon::fork_count_internal {

constinit std::atomic<uint64_t> fork_count{0};

namespace {

void CountFork() { fork_count.fetch_add(1, std::memory_order_relaxed); }

// Registered before main(), so that it holds for forks that happen before the
// first handle is made. It fails only without memory, at load time.
[[maybe_unused]] const int kRegistered =
    pthread_atfork(nullptr, nullptr, CountFork);

}  // namespace

absl::Status Inherited(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(
      what,
      " was inherited by fork() and belongs to the parent process; send "
      "it to the child over a channel instead"));
}

}  // namespace tenon::fork_count_internal

namespace tenon {

int CountThreads() {
  // A directory has a link for itself, one for its name, and one for each
  // directory in it: one call in place of a listing.
  struct stat tasks = {};
  if (stat("/proc/self/task", &tasks) != 0) return 0;
  return static_cast<int>(tasks.st_nlink) - 2;
}

}  // namespace tenon
