// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueryLedger: the holders of memory, among all processes of this user.
//
//   TENON_ASSIGN_OR_RETURN(const LedgerReport report, QueryLedger());
//   for (const ArenaReport& arena : report.arenas) {
//     std::cout << arena.name << ": " << DescribeHolders(arena.holders, 10);
//   }
//
// There is no registry, and the inspected processes do nothing: their tables
// and columns are found as open files in /proc, and read. These are the words
// by which the protocol works, so the answer is exact except for concurrent
// changes.

#ifndef TENON_SHM_ARENA_QUERY_LEDGER_QUERY_H_
#define TENON_SHM_ARENA_QUERY_LEDGER_QUERY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

// Some blocks of an arena.
struct BlockSum {
  size_t blocks = 0;
  size_t bytes = 0;  // Of whole blocks.
};

// The file of a segment, as fstat() shows it in every process.
struct SegmentFile {
  uint64_t device = 0;
  uint64_t inode = 0;
};

struct ArenaReport {
  RandomId arena;
  std::string name;
  // The process that allocates from it; 0 if it has died: the memory lives as
  // long as any process has it mapped.
  pid_t owner = 0;
  // Where its blocks are: "CPU", "CUDA", "kind 7". The device's UUID, as its
  // driver has it; empty if the memory is on none.
  std::string memory;
  std::string device;
  // How its segments are named, and whether holders may write them.
  SharingStrategy strategy = SharingStrategy::kFileDescriptor;
  bool shared_writable = false;
  size_t quota_bytes = 0;
  size_t segments = 0;
  size_t segment_bytes = 0;
  std::vector<SegmentFile> files;  // One per segment, as the owner lists them.
  BlockSum in_use;   // By the owner itself, whatever other holders there are.
  BlockSum lent;     // Released by the owner, held by others.
  BlockSum resting;  // Without a holder; not reclaimed yet.
  BlockSum free;
  // Of calls of Arena::Allocate() that waited for memory.
  TimeHistogram waits;
  // The holders of blocks, most bytes first; the owner among them. An ended
  // process is listed if it held blocks and the owner has not noticed its end
  // yet.
  std::vector<HolderUse> holders;
};

// A process some of whose files were skipped, because they are malformed or
// exceed the bounds of one process. The process may have received such a file
// from another one.
struct SkippedProcess {
  pid_t pid = 0;
  // The number of skipped items: tables, columns, reads of one.
  size_t files = 0;
  std::string reason;  // For the first skipped item.
};

// A process that has attached to arenas of others, whether it holds blocks of
// them or not.
struct AttachedProcess {
  pid_t pid = 0;
  RandomId column;
  size_t arenas = 0;
};

struct LedgerReport {
  std::vector<ArenaReport> arenas;        // By owner, then by name.
  std::vector<AttachedProcess> attached;  // By pid.
  // Processes of this user that could not be inspected.
  std::vector<pid_t> hidden;
  std::vector<SkippedProcess> skipped;  // By pid.
};

// Inspects the processes of `pids`, or all processes in /proc. An arena is
// found if its owner or any process attached to it is inspected; a holder, if
// it or the arena's owner is. Does not wait for any process, and changes
// nothing: no file is mapped, and no page is allocated by reading.
//
// Trust: the files of a process are untrusted, and a process with false files
// is reported accordingly. The report on other processes is not affected, and
// the cost of each process is bounded: some 30 MiB of memory at most, and work
// like the reading of 1 GiB, which takes about a second; three descriptors at a
// time in all. A table whose segments overlap or have more blocks than it is
// for, a column that lists an arena or a cell twice, and files beyond those
// bounds, are skipped, and the process is named in `skipped`.
// Errors: kNotFound if there is no /proc, kResourceExhausted at a limit of
// descriptors.
absl::StatusOr<LedgerReport> QueryLedger(const std::vector<pid_t>& pids = {});

}  // namespace tenon

#endif  // TENON_SHM_ARENA_QUERY_LEDGER_QUERY_H_
