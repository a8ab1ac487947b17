// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/segments.h"

#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/shown_memfd.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/live/process_scan.h"

namespace tenon::tools {
namespace {

// The first word of a Value, an Array and a lock; the word after the header of
// a Value tells a lock.
constexpr absl::string_view kValue = "TenonVal";
constexpr absl::string_view kRing = "Tenring1";
constexpr size_t kValueHeaderBytes = 64;
constexpr struct {
  absl::string_view word;
  const char* kind;
} kLocks[] = {{"TnonMutx", "mutex"},
              {"TnonCond", "condition"},
              {"TnonEvnt", "event"},
              {"TnonSema", "semaphore"},
              {"TnonBair", "barrier"}};

// Empty if it cannot be read.
absl::StatusOr<std::string> FirstBytes(pid_t pid, int fd, const FileId& id) {
  const MemfdId memfd = {makedev(id.major, id.minor),
                         static_cast<ino_t>(id.inode)};
  // Of the kernel's own file system, which answers at once.
  TENON_ASSIGN_OR_RETURN(const auto shown, InspectMemfd(pid, fd));
  if (!shown.has_value() || shown->id != memfd) return "";
  TENON_ASSIGN_OR_RETURN(const UniqueFd file, OpenShownMemfd(pid, fd, memfd));
  if (!file.valid()) return "";
  char bytes[kBytesOfAKind];
  const ssize_t size = pread(file.get(), bytes, sizeof(bytes), 0);
  return size <= 0 ? "" : std::string(bytes, static_cast<size_t>(size));
}

std::map<FileId, std::string> ArenasOfFiles(
    const std::vector<ArenaReport>& arenas) {
  std::map<FileId, std::string> names;
  for (const ArenaReport& arena : arenas) {
    for (const SegmentFile& file : arena.files) {
      names[{major(file.device), minor(file.device), file.inode}] = arena.name;
    }
  }
  return names;
}

struct Found {
  SegmentRow row;
  pid_t pid = 0;  // Of a process that has it open as `fd`; 0: none has.
  int fd = -1;
};

}  // namespace

std::string KindOfSegment(absl::string_view first_bytes) {
  if (absl::StartsWith(first_bytes, kRing)) return "ring";
  if (!absl::StartsWith(first_bytes, kValue)) return "memory";
  if (first_bytes.size() > kValueHeaderBytes) {
    first_bytes.remove_prefix(kValueHeaderBytes);
    for (const auto& lock : kLocks) {
      if (absl::StartsWith(first_bytes, lock.word)) return lock.kind;
    }
  }
  return "value";
}

absl::StatusOr<std::vector<SegmentRow>> SegmentRows(
    const ProcessScan& scan, const std::vector<ArenaReport>& arenas) {
  const std::map<FileId, std::string> names = ArenasOfFiles(arenas);
  std::map<FileId, Found> all;
  for (const TenonProcess& process : scan.processes) {
    for (const auto& [id, segment] : process.segments) {
      if (absl::StartsWith(segment.label, "tenon.queue.")) continue;
      Found& found = all[id];
      found.row.label = segment.label;
      found.row.bytes = std::max(found.row.bytes, segment.bytes);
      found.row.pids.push_back(process.pid);
      if (found.pid == 0 && segment.fd >= 0) {
        found.pid = process.pid;
        found.fd = segment.fd;
      }
    }
  }
  std::vector<SegmentRow> rows;
  for (auto& [id, found] : all) {
    const auto arena = names.find(id);
    if (arena != names.end()) {
      found.row.kind = "arena";
      found.row.arena = arena->second;
    } else if (absl::StartsWith(found.row.label, "tenon.loader")) {
      found.row.kind = "loader counters";
    } else {
      std::string bytes;
      if (found.pid != 0) {
        TENON_ASSIGN_OR_RETURN(bytes, FirstBytes(found.pid, found.fd, id));
      }
      found.row.kind = KindOfSegment(bytes);
    }
    rows.push_back(std::move(found.row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SegmentRow& a, const SegmentRow& b) {
                     return a.bytes > b.bytes;
                   });
  return rows;
}

std::string SegmentsText(const std::vector<SegmentRow>& rows, size_t width) {
  constexpr size_t kShown = 30;
  if (rows.empty()) return "";
  Table table({"SEGMENT", "KIND", ">BYTES", "OPEN IN"});
  const size_t shown = std::min(rows.size(), kShown);
  for (size_t i = 0; i < shown; ++i) {
    const std::string arena =
        rows[i].arena.empty() ? "" : absl::StrCat(" ", rows[i].arena);
    table.AddRow({rows[i].label, rows[i].kind + arena,
                  FormatBytes(rows[i].bytes), PidsText(rows[i].pids)});
  }
  std::string text = absl::StrCat("\n", table.ToText(0, width));
  if (shown < rows.size()) {
    uint64_t bytes = 0;
    for (size_t i = shown; i < rows.size(); ++i) bytes += rows[i].bytes;
    absl::StrAppend(&text, "and ", rows.size() - shown, " smaller ones, ",
                    FormatBytes(bytes), " (all: --json)\n");
  }
  return text;
}

Json SegmentsJson(const std::vector<SegmentRow>& rows) {
  Json segments = Json::array();
  for (const SegmentRow& row : rows) {
    segments.push_back(
        {{"label", row.label},
         {"kind", row.kind},
         {"arena", row.kind == "arena" ? Json(row.arena) : Json(nullptr)},
         {"bytes", row.bytes},
         {"pids", row.pids}});
  }
  return segments;
}

std::string PidsText(const std::vector<pid_t>& pids) {
  constexpr size_t kMost = 8;
  const size_t shown = std::min(pids.size(), kMost);
  return absl::StrCat(
      absl::StrJoin(pids.begin(), pids.begin() + static_cast<ptrdiff_t>(shown),
                    " "),
      pids.size() > shown ? absl::StrCat(" and ", pids.size() - shown) : "");
}

}  // namespace tenon::tools
