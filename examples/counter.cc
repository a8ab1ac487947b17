// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A Mutex and a Value: four processes count together, and one of them is killed
// while it holds the lock.

#include <csignal>
#include <iostream>
#include <vector>

#include "absl/time/clock.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/value/value.h"
#include "tenon/spawn/arguments/ipc_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/child/main.h"
#include "tenon/spawn/process/start.h"

using namespace tenon;  // NOLINT: a program of one file.

constexpr int kTimes = 100'000;

// The lock; a holder that died may have left its data incomplete, which is
// repaired first: a counter is whole at any time.
absl::StatusOr<Mutex::Guard> Lock(const Mutex& mutex, const char* name) {
  TENON_ASSIGN_OR_RETURN(auto guard, mutex.Lock(Deadline::Never()));
  if (guard.owner_died()) {
    printf("%s has the lock of a process that died\n", name);
    TENON_RETURN_IF_ERROR(guard.MakeConsistent());
  }
  return guard;
}

absl::Status Count(int index, Mutex mutex, Value<int64_t> counter) {
  TENON_ASSIGN_OR_RETURN(int64_t* const count, counter.get());
  const absl::Time began = absl::Now();
  for (int i = 0; i < kTimes; ++i) {
    TENON_ASSIGN_OR_RETURN(const auto guard, Lock(mutex, "a child"));
    ++*count;
    if (index == 3 && i == kTimes / 2) raise(SIGKILL);  // With the lock.
  }
  printf("process %d: %.2f us for a lock, an addition and an unlock\n", index,
         absl::ToDoubleMicroseconds(absl::Now() - began) / kTimes);
  return absl::OkStatus();
}
TENON_SPAWN_FUNCTION(Count);

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(auto mutex, Mutex::Create());
  TENON_ASSIGN_OR_RETURN(auto counter, Value<int64_t>::Create());
  std::vector<spawn::Process> processes;
  for (int i = 0; i < 4; ++i) {
    TENON_ASSIGN_OR_RETURN(
        auto process,
        spawn::StartProcess("Count", {.index = i}, mutex, counter));
    processes.push_back(std::move(process));
  }
  for (auto& process : processes) {
    const absl::Status end = process.Join();
    if (!end.ok()) std::cout << end.message() << "\n";
  }
  TENON_ASSIGN_OR_RETURN(const auto guard, Lock(mutex, "the parent"));
  TENON_ASSIGN_OR_RETURN(const int64_t count, counter.Load());
  std::cout << "count " << count << "\n";
  return absl::OkStatus();
}

// The children are this program, too.
TENON_SPAWN_MAIN(Run);
