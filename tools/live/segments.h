// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Segments of all processes, each once, with its kind: arenas', values, locks
// and rings beside plain memory. A part of `tenon mem`.

#ifndef TENON_TOOLS_LIVE_SEGMENTS_H_
#define TENON_TOOLS_LIVE_SEGMENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/live/process_scan.h"

namespace tenon::tools {

struct SegmentRow {
  std::string label;  // Of a memfd, or "/dev/shm/<name>". Any bytes.
  // "arena", "value", "mutex", "ring", ...; "memory" if none of them.
  std::string kind;
  std::string arena;  // The name of its arena. Any bytes.
  uint64_t bytes = 0;
  std::vector<pid_t> pids;  // By number.
};

// The kind of a segment by its first bytes. Pure.
std::string KindOfSegment(absl::string_view first_bytes);
// So many are enough.
inline constexpr size_t kBytesOfAKind = 72;

// The largest first, without those of queues, which `tenon mem` lists itself.
// Segments of `arenas` are known by their file. Of the others a memfd is opened
// to read its first bytes; of one that is not open anywhere but only mapped, or
// that has a name, the kind is "memory".
// Errors: a limit of descriptors of this process.
absl::StatusOr<std::vector<SegmentRow>> SegmentRows(
    const ProcessScan& scan, const std::vector<ArenaReport>& arenas);

// A table of the largest, and a line with the sum of the others; empty without
// segments. Pure.
std::string SegmentsText(const std::vector<SegmentRow>& rows, size_t width);
Json SegmentsJson(const std::vector<SegmentRow>& rows);

// "12 13 14"; at most 8, and how many more. Pure.
std::string PidsText(const std::vector<pid_t>& pids);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_SEGMENTS_H_
