// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/query/ledger_query.h"

#include <string.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/query/ledger_files.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/pages/shown_memfd.h"
#include "tenon/shm/process/process_info.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

// Words read at a time.
constexpr size_t kChunk = 8192;
// A list of segments may change while it is read.
constexpr int kReadings = 4;

std::string Printable(const char* text, size_t capacity) {
  std::string name(text, strnlen(text, capacity));
  for (char& c : name) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return name;
}

// A table being summed up, and the holders found so far.
struct OpenTable {
  const LedgerTable& table;
  UniqueFd fd;
  std::vector<ArenaSegment> segments;  // Live, and disjoint.
  uint64_t blocks = 0;                 // Of these.
  std::vector<bool> held;  // By block: held by a process other than the owner.
  uint64_t now_ms = CoarseNowMs();

  // Bytes read of it, or of a column for it.
  uint64_t work() const {
    return blocks * sizeof(uint64_t) +
           (segments.size() + 1) * LedgerBounds::kWorkOfACall;
  }
  size_t StatesAt(uint64_t block) const {
    return Layout::StatesAt(table.header.max_blocks) +
           static_cast<size_t>(block) * sizeof(uint64_t);
  }
};

// Empty if these can be the live segments of an arena; otherwise their defect.
absl::string_view FindDefect(std::vector<ArenaSegment>& segments,
                             uint64_t max_blocks) {
  std::sort(segments.begin(), segments.end(), [](const auto& a, const auto& b) {
    return a.first_block < b.first_block;
  });
  uint64_t end = 0;
  uint64_t bytes = 0;
  for (const ArenaSegment& segment : segments) {
    if (!segment.IsSane(max_blocks)) return "a table lists impossible blocks";
    if (segment.first_block < end) return "a table lists a block twice";
    end = segment.first_block + segment.block_count;
    bytes += segment.block_bytes * segment.block_count;
    if (bytes > uint64_t{1} << 62) return "a table lists too many bytes";
  }
  return "";
}

// Being disjoint, they have no more blocks than the arena. Errors:
// kInvalidArgument naming the defect.
absl::StatusOr<std::vector<ArenaSegment>> ReadSegments(int fd,
                                                       uint64_t max_blocks) {
  absl::string_view wrong;
  for (int i = 0; i < kReadings; ++i) {
    std::vector<ArenaSegment> segments(Layout::kMaxSegments);
    if (!ReadLedgerFile(fd, Layout::kSegmentsAt, segments.data(),
                        segments.size() * sizeof(ArenaSegment))) {
      return absl::InvalidArgumentError("the segments of a table");
    }
    std::erase_if(segments, [](const ArenaSegment& segment) {
      return segment.state() != ArenaSegment::kLive;
    });
    wrong = FindDefect(segments, max_blocks);
    if (wrong.empty()) return segments;
  }
  return absl::InvalidArgumentError(wrong);
}

// Reads words, as many at a time as fit, and passes each chunk to `visit(first,
// words)`. Unreadable words count as zeros.
template <typename Visit>
void ForEachChunk(int fd, size_t offset, uint64_t count, Visit visit) {
  std::vector<uint64_t> words;
  for (uint64_t first = 0; first < count; first += kChunk) {
    words.resize(
        static_cast<size_t>(std::min<uint64_t>(kChunk, count - first)));
    if (!ReadLedgerFile(fd,
                        offset + static_cast<size_t>(first) * sizeof(uint64_t),
                        words.data(), words.size() * sizeof(uint64_t))) {
      std::fill(words.begin(), words.end(), 0);
    }
    visit(first, words);
  }
}

void AddBlock(HolderUse& holder, size_t bytes, uint64_t since_ms,
              uint64_t now_ms) {
  ++holder.blocks;
  holder.bytes += bytes;
  if (since_ms == 0 || since_ms > now_ms) return;
  holder.oldest =
      std::max(holder.oldest,
               absl::Milliseconds(static_cast<int64_t>(now_ms - since_ms)));
}

// Whether the column's entry may refer to the table. An attached process keeps
// the table open, so a table of the same id that it does not have open is
// ignored; if the column's writer is unknown, some process must have both open.
bool BelongTogether(const LedgerColumn& column, const LedgerTable& table) {
  if (column.maker != 0) return table.IsShownBy(column.maker);
  return std::any_of(column.places.begin(), column.places.end(),
                     [&](const LedgerFile::Place& place) {
                       return table.IsShownBy(place.pid);
                     });
}

class Query {
 public:
  absl::Status Inspect(pid_t pid) { return files_.Inspect(pid); }
  absl::StatusOr<LedgerReport> Report();

 private:
  struct Entry {
    const LedgerColumn* column;
    const ColumnDirectoryEntry* cells;
  };

  void IndexColumns();
  absl::Status AddReport(const LedgerTable& table, LedgerReport& report);
  absl::Status AddHolders(OpenTable& open, ArenaReport& report);
  void AddHeld(int column, const ColumnDirectoryEntry& cells, bool is_alive,
               OpenTable& open, HolderUse& holder) const;

  LedgerFiles files_;
  std::multimap<RandomId, Entry> entries_;
};

void Query::IndexColumns() {
  for (const LedgerColumn& column : files_.columns()) {
    for (const ColumnDirectoryEntry& cells : column.directory) {
      entries_.emplace(cells.arena, Entry{&column, &cells});
    }
  }
}

absl::StatusOr<LedgerReport> Query::Report() {
  IndexColumns();
  LedgerReport report;
  report.hidden = files_.hidden();
  for (const LedgerTable& table : files_.tables()) {
    TENON_RETURN_IF_ERROR(AddReport(table, report));
  }
  for (const LedgerColumn& column : files_.columns()) {
    if (column.maker == 0 || column.directory.empty()) continue;
    report.attached.push_back({.pid = column.maker,
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
  for (const auto& [pid, left_out] : files_.left_out()) {
    report.skipped.push_back({pid, left_out.files, left_out.reason});
  }
  return report;
}

// Sums up the owner's blocks by state, once the blocks held by others are
// known.
void SumUp(const OpenTable& open, ArenaReport& report, HolderUse& owner) {
  for (const ArenaSegment& segment : open.segments) {
    const auto bytes = static_cast<size_t>(segment.block_bytes);
    ++report.segments;
    report.files.push_back({segment.file.device, segment.file.inode});
    report.segment_bytes += bytes * static_cast<size_t>(segment.block_count);
    ForEachChunk(
        open.fd.get(), open.StatesAt(segment.first_block), segment.block_count,
        [&](uint64_t first, const std::vector<uint64_t>& words) {
          for (size_t i = 0; i < words.size(); ++i) {
            const BlockState state = BlockState::Unpack(words[i]);
            const uint64_t block = segment.first_block + first + i;
            BlockSum* sum = &report.free;
            if (state.kind == BlockState::kInUse) sum = &report.in_use;
            if (state.kind == BlockState::kReleased) {
              sum = open.held[static_cast<size_t>(block)] ? &report.lent
                                                          : &report.resting;
            }
            ++sum->blocks;
            sum->bytes += bytes;
            if (state.kind == BlockState::kInUse) {
              AddBlock(owner, bytes, state.since_ms, open.now_ms);
            }
          }
        });
  }
}

TimeHistogram ReadWaits(int fd) {
  uint64_t words[TimeWords::kWords];
  return ReadLedgerFile(fd, Layout::kWaitsAt, words, sizeof(words))
             ? TimeHistogram::FromWords(words)
             : TimeHistogram();
}

absl::Status Query::AddReport(const LedgerTable& table, LedgerReport& report) {
  const pid_t payer = table.payer();
  const uint64_t max_blocks = table.header.max_blocks;
  if (!files_.Spend(payer, kReadings * Layout::kGenerationsAt)) {
    return absl::OkStatus();
  }
  TENON_ASSIGN_OR_RETURN(UniqueFd fd, files_.Open(table));
  if (!fd.valid()) return absl::OkStatus();
  auto segments = ReadSegments(fd.get(), max_blocks);
  if (!segments.ok()) {
    const absl::string_view reason = segments.status().message();
    files_.LeaveOut(payer, reason);
    return absl::OkStatus();
  }
  OpenTable open = {
      .table = table, .fd = std::move(fd), .segments = *std::move(segments)};
  for (const ArenaSegment& segment : open.segments) {
    open.blocks += segment.block_count;
  }
  if (!files_.Spend(payer, open.work())) return absl::OkStatus();
  open.held.resize(static_cast<size_t>(max_blocks));

  ArenaReport& arena = report.arenas.emplace_back();
  arena.arena = table.header.arena;
  arena.name = Printable(table.header.name, sizeof(table.header.name));
  arena.owner = table.maker;
  arena.memory = ShortNameOf(static_cast<MemoryKindId>(table.header.kind));
  arena.device = TextOf(table.header.device);
  arena.strategy = table.header.file_system == 1
                       ? SharingStrategy::kFileSystem
                       : SharingStrategy::kFileDescriptor;
  arena.shared_writable = table.header.shared_writable != 0;
  arena.quota_bytes = static_cast<size_t>(table.header.quota_bytes);
  arena.waits = ReadWaits(open.fd.get());
  TENON_RETURN_IF_ERROR(AddHolders(open, arena));
  HolderUse owner;
  owner.pid = table.maker;
  owner.name = NameOf(table.maker);
  owner.state = table.maker == 0 ? "ended" : StateOf(table.maker);
  SumUp(open, arena, owner);
  if (owner.blocks > 0) arena.holders.push_back(owner);
  SortByBytes(arena.holders);
  return absl::OkStatus();
}

absl::Status Query::AddHolders(OpenTable& open, ArenaReport& report) {
  const auto [begin, end] = entries_.equal_range(open.table.header.arena);
  for (auto entry = begin; entry != end; ++entry) {
    const LedgerColumn& column = *entry->second.column;
    const ColumnDirectoryEntry& cells = *entry->second.cells;
    if (cells.cells != open.table.header.max_blocks ||
        !BelongTogether(column, open.table) ||
        // Its cells, and the states of those blocks that are held.
        !files_.Spend(column.payer(), 2 * open.work())) {
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const UniqueFd fd, files_.Open(column));
    if (!fd.valid()) continue;
    HolderUse holder;
    AddHeld(fd.get(), cells, column.maker != 0, open, holder);
    if (holder.blocks == 0) continue;
    holder.pid = column.maker;
    holder.name = Printable(column.header.name, sizeof(column.header.name));
    holder.state = column.maker == 0 ? "ended" : StateOf(column.maker);
    holder.column = column.header.id;
    report.holders.push_back(std::move(holder));
  }
  return absl::OkStatus();
}

void Query::AddHeld(int column, const ColumnDirectoryEntry& cells,
                    bool is_alive, OpenTable& open, HolderUse& holder) const {
  std::vector<uint64_t> states;
  for (const ArenaSegment& segment : open.segments) {
    ForEachChunk(
        column, ColumnLayout::CellAt(cells.first_cell + segment.first_block),
        segment.block_count,
        [&](uint64_t first, const std::vector<uint64_t>& words) {
          const uint64_t first_block = segment.first_block + first;
          states.clear();
          for (size_t i = 0; i < words.size(); ++i) {
            if (LeaseCell::Held(words[i]) == 0) continue;
            if (states.empty()) {
              ForEachChunk(open.fd.get(), open.StatesAt(first_block),
                           words.size(),
                           [&](uint64_t, const std::vector<uint64_t>& read) {
                             states = read;
                           });
            }
            AddBlock(holder, static_cast<size_t>(segment.block_bytes),
                     BlockState::Unpack(states[i]).since_ms, open.now_ms);
            // Claims of dead processes do not count.
            if (is_alive) {
              open.held[static_cast<size_t>(first_block) + i] = true;
            }
          }
        });
  }
}

}  // namespace

absl::StatusOr<LedgerReport> QueryLedger(const std::vector<pid_t>& pids) {
  std::vector<pid_t> asked = pids;
  if (asked.empty()) {
    TENON_ASSIGN_OR_RETURN(asked, AllPids());
  }
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  Query query;
  for (const pid_t pid : asked) TENON_RETURN_IF_ERROR(query.Inspect(pid));
  return query.Report();
}

}  // namespace tenon
