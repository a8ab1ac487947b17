// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LedgerFiles: the tables and columns that processes have open, found in /proc.
//
//   LedgerFiles files;
//   for (const pid_t pid : pids) TENON_RETURN_IF_ERROR(files.Inspect(pid));
//   for (const LedgerTable& table : files.tables()) Sum(table);
//
// Internal to QueryLedger(), whose bounds it enforces: the files of any process
// cost a bounded amount of memory and work, and no descriptor is kept.

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
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/pages/shown_memfd.h"

namespace tenon {

// Bounds on the cost of one process.
struct LedgerBounds {
  static constexpr size_t kTables = 4096;
  static constexpr size_t kColumns = 4096;
  // Of the directories of its columns, together.
  static constexpr size_t kEntries = size_t{1} << 16;
  // In bytes read for it, where each file checked or opened counts as one page:
  // about a second of reading.
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
  // The process among these that claims to be its maker, or 0.
  pid_t maker = 0;

  bool IsShownBy(pid_t pid) const;
  // The process against whose bounds its reading counts: the maker, or the
  // first process that showed it.
  pid_t payer() const { return maker != 0 ? maker : places.front().pid; }
};

struct LedgerTable : LedgerFile {
  ArenaHeader header;
};

struct LedgerColumn : LedgerFile {
  ColumnHeader header;
  // Entries in use: within the column, disjoint, one for each arena.
  std::vector<ColumnDirectoryEntry> directory;
};

// Ownership: owns no descriptor. Threads: thread-compatible.
class LedgerFiles {
 public:
  // Finds the open files of a process. Each pid once, in ascending order.
  // Errors: kResourceExhausted at a limit of descriptors of this process.
  // Defects of the other process are not errors: they are recorded.
  absl::Status Inspect(pid_t pid);

  const std::vector<LedgerTable>& tables() const { return tables_; }
  const std::vector<LedgerColumn>& columns() const { return columns_; }
  // Processes of this user that could not be inspected.
  const std::vector<pid_t>& hidden() const { return hidden_; }

  // Opens it again for reading; invalid if no process has it open any more.
  // Errors: as Inspect().
  absl::StatusOr<UniqueFd> Open(const LedgerFile& file);

  // Whether `bytes` more may be read for a process; if not, records it.
  bool Spend(pid_t payer, uint64_t bytes);

  // Records that a file of a process was skipped.
  struct LeftOut {
    size_t files = 0;
    std::string reason;  // Of the first skipped file.
  };
  void LeaveOut(pid_t pid, absl::string_view reason);
  const std::map<pid_t, LeftOut>& left_out() const { return left_out_; }

 private:
  absl::Status InspectFd(pid_t pid, int number);
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

  // State for the process being inspected.
  struct Current {
    pid_t pid = 0;
    std::vector<pid_t> names;  // In its own pid namespaces; empty: not read.
    size_t tables = 0;
    size_t columns = 0;
    size_t entries = 0;
  };
  Current current_;
};

// Reads all of the range; pages that were never written read as zeros and,
// unlike with a mapping, stay unallocated.
bool ReadLedgerFile(int fd, size_t offset, void* to, size_t size);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_QUERY_LEDGER_FILES_H_
