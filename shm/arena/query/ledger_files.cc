// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/query/ledger_files.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/pages/shown_memfd.h"
#include "tenon/shm/process/process_info.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;
using Bounds = LedgerBounds;

// A directory may change while it is read.
constexpr int kReadings = 4;

bool IsInside(const ColumnDirectoryEntry& entry) {
  return entry.cells > 0 && entry.cells <= Layout::kMaxBlocks &&
         entry.cells <= ColumnLayout::kCells &&
         entry.first_cell <= ColumnLayout::kCells - entry.cells;
}

// Empty if the directory is consistent; otherwise its defect.
absl::string_view FindDefect(std::vector<ColumnDirectoryEntry>& directory) {
  std::sort(
      directory.begin(), directory.end(),
      [](const auto& a, const auto& b) { return a.first_cell < b.first_cell; });
  uint64_t end = 0;
  std::vector<RandomId> arenas;
  for (const ColumnDirectoryEntry& entry : directory) {
    if (!IsInside(entry)) return "a column lists cells beyond its end";
    if (entry.first_cell < end) return "a column lists a cell twice";
    end = entry.first_cell + entry.cells;
    arenas.push_back(entry.arena);
  }
  std::sort(arenas.begin(), arenas.end());
  return std::adjacent_find(arenas.begin(), arenas.end()) == arenas.end()
             ? ""
             : "a column lists an arena twice";
}

absl::StatusOr<std::vector<ColumnDirectoryEntry>> ReadDirectory(int fd) {
  absl::string_view wrong;
  for (int i = 0; i < kReadings; ++i) {
    std::vector<ColumnDirectoryEntry> directory(ColumnLayout::kMaxArenas);
    if (!ReadLedgerFile(fd, sizeof(ColumnHeader), directory.data(),
                        directory.size() * sizeof(ColumnDirectoryEntry))) {
      return absl::InvalidArgumentError("a column cannot be read");
    }
    std::erase_if(directory, [](const auto& entry) { return entry.used != 1; });
    directory.shrink_to_fit();
    wrong = FindDefect(directory);
    if (wrong.empty()) return directory;
  }
  return absl::InvalidArgumentError(wrong);
}

absl::Status CheckTable(const ArenaHeader& header, size_t size) {
  if (header.magic != ArenaHeader::kMagic ||
      header.version != ColumnLayout::Version()) {
    return absl::InvalidArgumentError(
        "not a table of an arena, or of another version");
  }
  if (header.max_blocks == 0 || header.max_blocks > Layout::kMaxBlocks ||
      header.max_blocks % ColumnLayout::kCellsAlignment != 0 ||
      Layout::Bytes(header.max_blocks) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a table's size of ", size, " bytes does not match ",
                     header.max_blocks, " blocks"));
  }
  return absl::OkStatus();
}

}  // namespace

bool ReadLedgerFile(int fd, size_t offset, void* to, size_t size) {
  return RetryOnEintr([&] {
           return pread(fd, to, size, static_cast<off_t>(offset));
         }) == static_cast<ssize_t>(size);
}

bool LedgerFile::IsShownBy(pid_t pid) const {
  const auto place = std::lower_bound(
      places.begin(), places.end(), pid,
      [](const Place& shown, pid_t wanted) { return shown.pid < wanted; });
  return place != places.end() && place->pid == pid;
}

void LedgerFiles::LeaveOut(pid_t pid, absl::string_view reason) {
  LeftOut& left_out = left_out_[pid];
  if (left_out.files++ == 0) left_out.reason = std::string(reason);
}

bool LedgerFiles::Spend(pid_t payer, uint64_t bytes) {
  uint64_t& spent = spent_[payer];
  if (bytes <= Bounds::kWork - spent) {
    spent += bytes;
    return true;
  }
  LeaveOut(payer, absl::StrCat("it shows more than is read of a process: ",
                               Bounds::kWork, " bytes"));
  return false;
}

absl::Status LedgerFiles::Inspect(pid_t pid) {
  if (!IsOfThisUser(pid)) return absl::OkStatus();
  const auto fds = FdsOf(pid, Bounds::kWork / Bounds::kWorkOfACall);
  if (absl::IsResourceExhausted(fds.status())) return fds.status();
  if (!fds.ok()) {
    if (absl::IsPermissionDenied(fds.status())) hidden_.push_back(pid);
    return absl::OkStatus();
  }
  current_ = {.pid = pid, .names = {}};
  for (const int number : *fds) {
    if (!Spend(pid, Bounds::kWorkOfACall)) break;
    TENON_RETURN_IF_ERROR(InspectFd(pid, number));
  }
  return absl::OkStatus();
}

absl::Status LedgerFiles::InspectFd(pid_t pid, int number) {
  TENON_ASSIGN_OR_RETURN(const auto shown, InspectMemfd(pid, number));
  if (!shown.has_value()) return absl::OkStatus();
  const bool is_table = shown->label == Layout::kLabel;
  if (!is_table && shown->label != ColumnLayout::kLabel) {
    return absl::OkStatus();
  }
  LedgerFile file;
  file.id = shown->id;
  file.places = {{pid, number}};
  if (!table_index_.contains(file.id) && !column_index_.contains(file.id)) {
    TENON_RETURN_IF_ERROR(AddNew(pid, file, is_table));
  }
  if (const auto at = table_index_.find(file.id); at != table_index_.end()) {
    LedgerTable& table = tables_[at->second];
    Sight(pid, number, table.header.owner_pid, table);
  }
  if (const auto at = column_index_.find(file.id); at != column_index_.end()) {
    LedgerColumn& column = columns_[at->second];
    Sight(pid, number, column.header.pid, column);
  }
  return absl::OkStatus();
}

void LedgerFiles::Sight(pid_t pid, int number, uint64_t own_pid,
                        LedgerFile& file) {
  if (file.places.back().pid != pid) file.places.push_back({pid, number});
  if (IsNameOfCurrent(own_pid)) file.maker = pid;
}

// The two differ if it lives in a pid namespace of its own.
bool LedgerFiles::IsNameOfCurrent(uint64_t own_pid) {
  if (current_.names.empty()) current_.names = PidsOf(current_.pid);
  return std::any_of(
      current_.names.begin(), current_.names.end(),
      [&](pid_t name) { return static_cast<uint64_t>(name) == own_pid; });
}

// Malformed files are skipped, and recorded.
absl::Status LedgerFiles::AddNew(pid_t pid, const LedgerFile& file,
                                 bool is_table) {
  const size_t bytes =
      is_table ? sizeof(ArenaHeader)
               : sizeof(ColumnHeader) + kReadings * ColumnLayout::kMaxArenas *
                                            sizeof(ColumnDirectoryEntry);
  if (!Spend(pid, Bounds::kWorkOfACall + bytes)) return absl::OkStatus();
  const LedgerFile::Place& place = file.places.front();
  TENON_ASSIGN_OR_RETURN(const UniqueFd fd,
                         OpenShownMemfd(place.pid, place.fd, file.id));
  if (!fd.valid()) return absl::OkStatus();
  const auto size = CheckIsControlMemory(
      fd.get(), is_table ? "a table of an arena" : "a column");
  absl::Status added = size.status();
  if (added.ok()) {
    added = is_table ? AddTable(pid, file, fd.get(), *size)
                     : AddColumn(pid, file, fd.get(), *size);
  }
  if (!added.ok()) {
    LeaveOut(pid,
             absl::string_view(added.message().data(), added.message().size()));
  }
  return absl::OkStatus();
}

absl::Status LedgerFiles::AddTable(pid_t pid, const LedgerFile& file, int fd,
                                   size_t size) {
  if (current_.tables >= Bounds::kTables) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "pid ", pid, " has more than ", Bounds::kTables, " tables open"));
  }
  LedgerTable table;
  static_cast<LedgerFile&>(table) = file;
  if (!ReadLedgerFile(fd, 0, &table.header, sizeof(table.header))) {
    return absl::InvalidArgumentError("a table cannot be read");
  }
  TENON_RETURN_IF_ERROR(CheckTable(table.header, size));
  ++current_.tables;
  table_index_.emplace(file.id, tables_.size());
  tables_.push_back(std::move(table));
  return absl::OkStatus();
}

absl::Status LedgerFiles::AddColumn(pid_t pid, const LedgerFile& file, int fd,
                                    size_t size) {
  LedgerColumn column;
  static_cast<LedgerFile&>(column) = file;
  if (size != ColumnLayout::kBytes ||
      !ReadLedgerFile(fd, 0, &column.header, sizeof(column.header)) ||
      column.header.magic != ColumnLayout::kMagic ||
      column.header.version != ColumnLayout::Version()) {
    return absl::InvalidArgumentError(
        "not a column of the ledger, or of another version");
  }
  TENON_ASSIGN_OR_RETURN(column.directory, ReadDirectory(fd));
  if (current_.columns >= Bounds::kColumns ||
      column.directory.size() > Bounds::kEntries - current_.entries) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "pid ", pid, " has more than ", Bounds::kColumns, " columns open, or ",
        Bounds::kEntries, " entries in them"));
  }
  ++current_.columns;
  current_.entries += column.directory.size();
  column_index_.emplace(file.id, columns_.size());
  columns_.push_back(std::move(column));
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> LedgerFiles::Open(const LedgerFile& file) {
  for (const LedgerFile::Place& place : file.places) {
    TENON_ASSIGN_OR_RETURN(UniqueFd fd,
                           OpenShownMemfd(place.pid, place.fd, file.id));
    if (fd.valid()) return fd;
  }
  return UniqueFd();
}

}  // namespace tenon
