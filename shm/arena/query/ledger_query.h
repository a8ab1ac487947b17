// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueryLedger: who holds which memory, of all processes of this user.
//
//   TENON_ASSIGN_OR_RETURN(const LedgerReport report, QueryLedger());
//   for (const ArenaReport& arena : report.arenas) {
//     std::cout << arena.name << ": " << DescribeHolders(arena.holders, 10);
//   }
//
// There is no registry, and the processes asked do nothing: their tables and
// columns are found as open files in /proc, and read. What they say there is
// what they live by, so the answer is exact but for what changes meanwhile.

#ifndef TENON_SHM_ARENA_QUERY_LEDGER_QUERY_H_
#define TENON_SHM_ARENA_QUERY_LEDGER_QUERY_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

// Some blocks of an arena.
struct BlockSum {
  size_t blocks = 0;
  size_t bytes = 0;  // Of whole blocks.
};

struct ArenaReport {
  RandomId arena;
  std::string name;
  // The process that allocates from it; 0 if it has died: the memory lives on
  // as long as somebody has it mapped.
  pid_t owner = 0;
  // How its segments are named, and whether holders may write them.
  SharingStrategy strategy = SharingStrategy::kFileDescriptor;
  bool shared_writable = false;
  size_t quota_bytes = 0;
  size_t segments = 0;
  size_t segment_bytes = 0;
  BlockSum in_use;   // By the owner itself, whoever else holds them.
  BlockSum lent;     // The owner has let go, others hold them.
  BlockSum resting;  // Nobody holds them; not taken back yet.
  BlockSum free;
  // Who holds blocks, most bytes first; the owner among them. One that has
  // ended is there if it held something and the owner has not noticed yet.
  std::vector<HolderUse> holders;
};

// A process of which something was left out, because it makes no sense or is
// more than is read of one. It may only have been sent that by another.
struct SkippedProcess {
  pid_t pid = 0;
  size_t files = 0;    // How many things: tables, columns, readings of one.
  std::string reason;  // For the first.
};

// A process that has attached to arenas of others, whether it holds anything of
// them or not.
struct AttachedProcess {
  pid_t pid = 0;
  RandomId column;
  size_t arenas = 0;
};

struct LedgerReport {
  std::vector<ArenaReport> arenas;        // By owner, then by name.
  std::vector<AttachedProcess> attached;  // By pid.
  // Processes of this user that could not be looked into.
  std::vector<pid_t> hidden;
  std::vector<SkippedProcess> skipped;  // By pid.
};

// Asks about the processes that `pids` names, or all that there are in /proc.
// An arena is found if its owner, or anybody that is attached to it, is asked;
// a holder, if it or the arena's owner is. Does not wait for any process, and
// changes nothing: nothing is mapped, and no page is made by reading.
//
// Trust: what processes show is their word, and one that lies about itself is
// reported as it lies. What others hold is not affected, and the cost of each
// process is bounded: some 30 MiB of memory at most, and work like the reading
// of 1 GiB, which takes about a second; three descriptors at a time in all. A
// table whose segments overlap or have more blocks than it is for, a column
// that lists an arena or a cell twice, and what is beyond those bounds, are
// left out, and the process is named in `skipped`.
// Errors: kNotFound if there is no /proc, kResourceExhausted at a limit of
// descriptors.
absl::StatusOr<LedgerReport> QueryLedger(const std::vector<pid_t>& pids = {});

}  // namespace tenon

#endif  // TENON_SHM_ARENA_QUERY_LEDGER_QUERY_H_
