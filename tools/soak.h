// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For programs that run for hours: the resources that a process holds, a check
// that they have not grown, a watchdog, and a main().

#ifndef TENON_TOOLS_SOAK_H_
#define TENON_TOOLS_SOAK_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tenon/shm/testing/kill/census.h"

namespace tenon {

struct Holdings {
  size_t rss_kb = 0;
  size_t fds = 0;
  Census census;

  std::string ToString() const;
};

// Resources of the process `pid`; 0 is the caller. Names in /dev/shm that begin
// with `shm_prefix` count, unless it is empty.
Holdings TakeHoldings(pid_t pid, const std::string& shm_prefix = {});

// A process of this setsid() session.
struct SessionProcess {
  pid_t pid;
  pid_t parent;
  char state;
  std::string name;
};

// All except this one and `except`, including zombies.
std::vector<SessionProcess> OthersOfThisSession(pid_t except);

// malloc() may retain this much more memory.
inline constexpr size_t kRssSlackKb = 8 << 10;
inline constexpr size_t kMappingsSlack = 16;

// Errors: kInternal naming the process, `who`, and each kind of which `now` has
// another number than `before`, or memory or mappings that exceed their slack.
absl::Status CheckFlat(const std::string& who, const Holdings& before,
                       const Holdings& now);

// Ends this process with code 3 and a line that names `doing`, unless called
// again within `seconds`. 0 ends the watch. Not inherited by fork().
void FeedWatchdog(unsigned seconds, const char* doing);

// Prints a seed and returns it: `given`, or of the time if that is 0.
uint64_t ChooseSeed(uint64_t given);

// Prints "whole", or "BROKEN: " and the error. Returns the exit code, 0 or 1.
int ReportSoak(const absl::Status& soaked);

// The rest of a soak's main(): calls `soak` in a child with a setsid() session
// of its own, which identifies all descendants. Returns the exit code: that
// of ReportSoak(), 3 of the watchdog, 4 if the child could not end by itself.
int RunInOwnSession(absl::FunctionRef<absl::Status()> soak);

}  // namespace tenon

#endif  // TENON_TOOLS_SOAK_H_
