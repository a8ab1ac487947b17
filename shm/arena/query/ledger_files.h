// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LedgerFiles: the tables and columns that processes have open, found in /proc.
//
//   LedgerFiles files;
//   for (const pid_t pid : pids) TENON_RETURN_IF_ERROR(files.LookInto(pid));
//   for (const LedgerTable& table : files.tables()) Sum(table);
//
// Internal to QueryLedger(), whose bounds it keeps: whatever a process shows,
// it costs a bounded amount of memory and work, and no descriptor is kept.

#ifndef TENON_SHM_ARENA_QUERY_LEDGER_FILES_H_
#define TENON_SHM_ARENA_QUERY_LEDGER_FILES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/shown_memfd.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"

namespace tenon {

// What one process may cost.
struct LedgerBounds {
  static constexpr size_t kTables = 4096;
  static constexpr size_t kColumns = 4096;
  // Of the directories of its columns, together.
  static constexpr size_t kEntries = size_t{1} << 16;
  // In bytes that are read for it, where each file looked at or opened counts
  // as one page: as much as can be read in about a second.
  static constexpr uint64_t kWork = uint64_t{1} << 30;
  static constexpr uint64_t kWorkOfACall = 4096;
};

// A file that processes have open, one or several.
struct LedgerFile {
  using Id = MemfdId;
  struct Place {
    pid_t pid;
    int fd;
  };

  Id id;
  std::vector<Place> places;  // One a process; ascending by pid.
  pid_t maker = 0;  // The process among these that says it is its own, or 0.

  bool IsShownBy(pid_t pid) const;
  // Who pays for what is read of it: the maker, or who showed it first.
  pid_t payer() const { return maker != 0 ? maker : places.front().pid; }
};

struct LedgerTable : LedgerFile {
  ArenaHeader header;
};

struct LedgerColumn : LedgerFile {
  ColumnHeader header;
  // Those in use: within the column, disjoint, one an arena.
  std::vector<ColumnDirectoryEntry> directory;
};

// Ownership: owns no descriptor. Threads: thread-compatible.
class LedgerFiles {
 public:
  // Finds what a process has open. Each pid once, in ascending order.
  // Errors: kResourceExhausted at a limit of descriptors of this process. What
  // is wrong with the other one is none: it is noted.
  absl::Status LookInto(pid_t pid);

  const std::vector<LedgerTable>& tables() const { return tables_; }
  const std::vector<LedgerColumn>& columns() const { return columns_; }
  // Processes of this user that could not be looked into.
  const std::vector<pid_t>& hidden() const { return hidden_; }

  // Opens it again, to be read; invalid if nobody has it open any more.
  // Errors: as LookInto().
  absl::StatusOr<UniqueFd> Open(const LedgerFile& file);

  // Whether so much more may be read for a process; if not, that is noted.
  bool Spend(pid_t payer, uint64_t bytes);

  // Notes that something of a process was left out.
  struct LeftOut {
    size_t files = 0;
    std::string reason;  // Of the first.
  };
  void LeaveOut(pid_t pid, absl::string_view reason);
  const std::map<pid_t, LeftOut>& left_out() const { return left_out_; }

 private:
  absl::Status LookAtFd(pid_t pid, int number);
  absl::Status AddNew(pid_t pid, const LedgerFile& file, bool is_table);
  absl::Status AddTable(pid_t pid, const LedgerFile& file, int fd, size_t size);
  absl::Status AddColumn(pid_t pid, const LedgerFile& file, int fd,
                         size_t size);
  void Sight(pid_t pid, int number, uint64_t own_pid, LedgerFile& file);
  bool IsNameOfCurrent(uint64_t own_pid);

  std::vector<LedgerTable> tables_;
  std::vector<LedgerColumn> columns_;
  std::map<LedgerFile::Id, size_t> table_index_;
  std::map<LedgerFile::Id, size_t> column_index_;
  std::vector<pid_t> hidden_;
  std::map<pid_t, uint64_t> spent_;
  std::map<pid_t, LeftOut> left_out_;

  // Of the process that is being looked into.
  struct Current {
    pid_t pid = 0;
    std::vector<pid_t> names;  // In its own pid namespaces; empty: not asked.
    size_t tables = 0;
    size_t columns = 0;
    size_t entries = 0;
  };
  Current current_;
};

// Reads whole; what was never written reads as zeros and stays unwritten, which
// would not be so of a mapping.
bool ReadLedgerFile(int fd, size_t offset, void* to, size_t size);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_QUERY_LEDGER_FILES_H_
