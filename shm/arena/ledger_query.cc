// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/ledger_query.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/arena_table.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/control_memory.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/ledger/process_info.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

// How a memfd of this label is shown in /proc/PID/fd.
std::string LinkOf(absl::string_view label) {
  return absl::StrCat("/memfd:", label, " (deleted)");
}

// Reads whole; what was never written reads as zeros and stays unwritten, which
// would not be so of a mapping.
bool ReadAt(int fd, size_t offset, void* to, size_t size) {
  return RetryOnEintr([&] {
           return pread(fd, to, size, static_cast<off_t>(offset));
         }) == static_cast<ssize_t>(size);
}

std::vector<uint64_t> ReadWords(int fd, size_t offset, size_t count) {
  std::vector<uint64_t> words(count);
  if (!ReadAt(fd, offset, words.data(), count * sizeof(uint64_t))) {
    words.assign(count, 0);
  }
  return words;
}

std::string Printable(const char* text, size_t capacity) {
  std::string name(text, strnlen(text, capacity));
  for (char& c : name) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return name;
}

// Numbers among the entries of a folder of /proc.
absl::StatusOr<std::vector<int>> NumbersIn(const std::string& folder) {
  struct Close {
    void operator()(DIR* dir) const { closedir(dir); }
  };
  const std::unique_ptr<DIR, Close> dir(opendir(folder.c_str()));
  if (dir == nullptr) return PosixError(errno, "opendir", folder);
  std::vector<int> numbers;
  while (const dirent* entry = readdir(dir.get())) {
    int number;
    if (absl::SimpleAtoi(entry->d_name, &number)) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Which kernel object.
struct FileId {
  dev_t device;
  ino_t inode;
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

struct Table {
  UniqueFd fd;
  ArenaHeader header;
  pid_t owner = 0;  // Once a process was found whose table this is.
};

struct ColumnFile {
  UniqueFd fd;
  ColumnHeader header;
  pid_t writer = 0;  // Likewise.
  std::vector<ColumnDirectoryEntry> directory;
};

// A segment of an arena, and what is known of its blocks.
struct SegmentBlocks {
  ArenaSegment listed;
  std::vector<uint64_t> states;
  std::vector<bool> held;  // By a process other than the owner.
};

class Query {
 public:
  absl::Status LookInto(pid_t pid);
  LedgerReport Report();

 private:
  absl::Status LookAtFd(pid_t pid, int number);
  absl::Status AddTable(UniqueFd fd, const FileId& id);
  void AddColumn(UniqueFd fd, const FileId& id);
  ArenaReport ReportOn(const Table& table) const;
  std::optional<HolderUse> HolderIn(const ColumnFile& column,
                                    const Table& table,
                                    std::vector<SegmentBlocks>& segments) const;

  std::vector<std::pair<FileId, Table>> tables_;
  std::vector<std::pair<FileId, ColumnFile>> columns_;
  std::vector<pid_t> hidden_;
};

// Whether a process, seen here as `pid`, calls itself `own_pid`: the two differ
// if it lives in a pid namespace of its own.
bool CallsItself(pid_t pid, uint64_t own_pid) {
  for (const pid_t name : PidsOf(pid)) {
    if (static_cast<uint64_t>(name) == own_pid) return true;
  }
  return false;
}

template <typename Entry>
Entry* Find(std::vector<std::pair<FileId, Entry>>& entries, const FileId& id) {
  for (auto& [known, entry] : entries) {
    if (known == id) return &entry;
  }
  return nullptr;
}

absl::Status Query::LookInto(pid_t pid) {
  const std::string folder = absl::StrCat("/proc/", pid, "/fd");
  struct stat process;
  if (stat(absl::StrCat("/proc/", pid).c_str(), &process) != 0 ||
      process.st_uid != geteuid()) {
    return absl::OkStatus();
  }
  const auto fds = NumbersIn(folder);
  if (absl::IsResourceExhausted(fds.status())) return fds.status();
  if (!fds.ok()) {
    if (absl::IsPermissionDenied(fds.status())) hidden_.push_back(pid);
    return absl::OkStatus();
  }
  for (const int number : *fds) {
    TENON_RETURN_IF_ERROR(LookAtFd(pid, number));
  }
  return absl::OkStatus();
}

absl::Status Query::LookAtFd(pid_t pid, int number) {
  static const std::string& table_link =
      *new std::string(LinkOf(Layout::kLabel));
  static const std::string& column_link =
      *new std::string(LinkOf(ColumnLayout::kLabel));
  const std::string path = absl::StrCat("/proc/", pid, "/fd/", number);
  char link[64];
  const ssize_t length = readlink(path.c_str(), link, sizeof(link));
  if (length <= 0) return absl::OkStatus();
  const std::string target(link, static_cast<size_t>(length));
  const bool is_table = target == table_link;
  if (!is_table && target != column_link) return absl::OkStatus();

  struct stat file;
  if (stat(path.c_str(), &file) != 0) return absl::OkStatus();
  const FileId id = {file.st_dev, file.st_ino};
  Table* table = Find(tables_, id);
  ColumnFile* column = Find(columns_, id);
  if (table == nullptr && column == nullptr) {
    // It may be something else by now; whatever it is does not hold us up.
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) {
      const int error = errno;
      if (error != EMFILE && error != ENFILE) return absl::OkStatus();
      return PosixError(error, "open", path);
    }
    if (!CheckIsControlMemory(fd.get(), path).ok()) return absl::OkStatus();
    if (is_table) {
      TENON_RETURN_IF_ERROR(AddTable(std::move(fd), id));
    } else {
      AddColumn(std::move(fd), id);
    }
    table = Find(tables_, id);
    column = Find(columns_, id);
  }
  if (table != nullptr && CallsItself(pid, table->header.owner_pid)) {
    table->owner = pid;
  }
  if (column != nullptr && CallsItself(pid, column->header.pid)) {
    column->writer = pid;
  }
  return absl::OkStatus();
}

absl::Status Query::AddTable(UniqueFd fd, const FileId& id) {
  Table table = {.fd = std::move(fd)};
  if (ReadAt(table.fd.get(), 0, &table.header, sizeof(table.header)) &&
      table.header.magic == ArenaHeader::kMagic &&
      table.header.version == ArenaHeader::kVersion &&
      table.header.max_blocks <= Layout::kMaxBlocks) {
    tables_.emplace_back(id, std::move(table));
  }
  return absl::OkStatus();
}

void Query::AddColumn(UniqueFd fd, const FileId& id) {
  ColumnFile column = {.fd = std::move(fd)};
  if (!ReadAt(column.fd.get(), 0, &column.header, sizeof(column.header)) ||
      column.header.magic != ColumnLayout::kMagic ||
      column.header.version != ColumnLayout::kVersion) {
    return;
  }
  column.directory.resize(ColumnLayout::kMaxArenas);
  if (!ReadAt(column.fd.get(), sizeof(ColumnHeader), column.directory.data(),
              column.directory.size() * sizeof(ColumnDirectoryEntry))) {
    return;
  }
  std::erase_if(column.directory, [](const ColumnDirectoryEntry& entry) {
    return entry.used != 1 || entry.cells > ColumnLayout::kCells ||
           entry.first_cell > ColumnLayout::kCells - entry.cells;
  });
  columns_.emplace_back(id, std::move(column));
}

LedgerReport Query::Report() {
  LedgerReport report;
  report.hidden = hidden_;
  for (const auto& [id, table] : tables_) {
    report.arenas.push_back(ReportOn(table));
  }
  for (const auto& [id, column] : columns_) {
    if (column.writer == 0 || column.directory.empty()) continue;
    report.attached.push_back({.pid = column.writer,
                               .column = column.header.id,
                               .arenas = column.directory.size()});
  }
  std::sort(report.attached.begin(), report.attached.end(),
            [](const AttachedProcess& a, const AttachedProcess& b) {
              return std::tie(a.pid, a.column) < std::tie(b.pid, b.column);
            });
  std::sort(report.arenas.begin(), report.arenas.end(),
            [](const ArenaReport& a, const ArenaReport& b) {
              return std::tie(a.owner, a.name, a.arena) <
                     std::tie(b.owner, b.name, b.arena);
            });
  return report;
}

std::vector<SegmentBlocks> SegmentsOf(const Table& table) {
  std::vector<ArenaSegment> listed(Layout::kMaxSegments);
  std::vector<SegmentBlocks> segments;
  if (!ReadAt(table.fd.get(), Layout::kSegmentsAt, listed.data(),
              listed.size() * sizeof(ArenaSegment))) {
    return segments;
  }
  for (const ArenaSegment& segment : listed) {
    if (segment.state() != ArenaSegment::kLive ||
        !segment.IsSane(table.header.max_blocks)) {
      continue;
    }
    const auto count = static_cast<size_t>(segment.block_count);
    segments.push_back(
        {.listed = segment,
         .states = ReadWords(table.fd.get(),
                             Layout::StatesAt(table.header.max_blocks) +
                                 static_cast<size_t>(segment.first_block) * 8,
                             count),
         .held = std::vector<bool>(count)});
  }
  return segments;
}

void AddBlock(HolderUse& holder, size_t bytes, const BlockState& state) {
  const uint64_t now_ms = CoarseNowMs();
  ++holder.blocks;
  holder.bytes += bytes;
  if (state.since_ms == 0 || state.since_ms > now_ms) return;
  holder.oldest = std::max(
      holder.oldest,
      absl::Milliseconds(static_cast<int64_t>(now_ms - state.since_ms)));
}

// What the owner says of its blocks, once it is known which others hold.
void SumUp(const std::vector<SegmentBlocks>& segments, ArenaReport& report,
           HolderUse& owner) {
  for (const SegmentBlocks& segment : segments) {
    const auto bytes = static_cast<size_t>(segment.listed.block_bytes);
    ++report.segments;
    report.segment_bytes += bytes * segment.states.size();
    for (size_t i = 0; i < segment.states.size(); ++i) {
      const BlockState state = BlockState::Unpack(segment.states[i]);
      BlockSum* sum = &report.free;
      if (state.kind == BlockState::kInUse) sum = &report.in_use;
      if (state.kind == BlockState::kLetGo) {
        sum = segment.held[i] ? &report.lent : &report.resting;
      }
      ++sum->blocks;
      sum->bytes += bytes;
      if (state.kind == BlockState::kInUse) AddBlock(owner, bytes, state);
    }
  }
}

ArenaReport Query::ReportOn(const Table& table) const {
  ArenaReport report;
  report.arena = table.header.arena;
  report.name = Printable(table.header.name, sizeof(table.header.name));
  report.owner = table.owner;
  report.strategy = table.header.file_system == 1
                        ? SharingStrategy::kFileSystem
                        : SharingStrategy::kFileDescriptor;
  report.shared_writable = table.header.shared_writable != 0;
  report.quota_bytes = static_cast<size_t>(table.header.quota_bytes);
  std::vector<SegmentBlocks> segments = SegmentsOf(table);
  for (const auto& [id, column] : columns_) {
    auto holder = HolderIn(column, table, segments);
    if (holder.has_value()) report.holders.push_back(*std::move(holder));
  }
  HolderUse owner;
  owner.pid = table.owner;
  owner.name = NameOf(table.owner);
  owner.state = table.owner == 0 ? "ended" : StateOf(table.owner);
  SumUp(segments, report, owner);
  if (owner.blocks > 0) report.holders.push_back(owner);
  SortByBytes(report.holders);
  return report;
}

std::optional<HolderUse> Query::HolderIn(
    const ColumnFile& column, const Table& table,
    std::vector<SegmentBlocks>& segments) const {
  HolderUse holder;
  holder.pid = column.writer;
  holder.name = Printable(column.header.name, sizeof(column.header.name));
  holder.state = column.writer == 0 ? "ended" : StateOf(column.writer);
  holder.column = column.header.id;
  for (const ColumnDirectoryEntry& entry : column.directory) {
    if (entry.arena != table.header.arena ||
        entry.cells != table.header.max_blocks) {
      continue;
    }
    for (SegmentBlocks& segment : segments) {
      const uint64_t first = entry.first_cell + segment.listed.first_block;
      const std::vector<uint64_t> cells = ReadWords(
          column.fd.get(), ColumnLayout::CellAt(first), segment.states.size());
      for (size_t i = 0; i < cells.size(); ++i) {
        if (LeaseCell::Held(cells[i]) == 0) continue;
        AddBlock(holder, static_cast<size_t>(segment.listed.block_bytes),
                 BlockState::Unpack(segment.states[i]));
        // What the dead held, nobody holds.
        if (column.writer != 0) segment.held[i] = true;
      }
    }
  }
  if (holder.blocks == 0) return std::nullopt;
  return holder;
}

}  // namespace

absl::StatusOr<LedgerReport> QueryLedger(const std::vector<pid_t>& pids) {
  std::vector<pid_t> asked = pids;
  if (asked.empty()) {
    TENON_ASSIGN_OR_RETURN(asked, NumbersIn("/proc"));
  }
  Query query;
  for (const pid_t pid : asked) TENON_RETURN_IF_ERROR(query.LookInto(pid));
  return query.Report();
}

}  // namespace tenon
