// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon mem`: existing arenas and the holders of their blocks; existing queues
// and their fill levels.

#ifndef TENON_TOOLS_LIVE_MEM_H_
#define TENON_TOOLS_LIVE_MEM_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tenon/ipc/queue/queue_query.h"
#include "tenon/loader/stats/stats_query.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/live/segments.h"

namespace tenon::tools {

// A snapshot.
struct MemView {
  LedgerReport ledger;
  QueueReports queues;
  loader::LoaderQuery loaders;
  std::vector<SegmentRow> segments;
};

// Keeps the arenas in which `pid` owns or holds blocks, the queues and segments
// that it has open, and the loaders that it is a process of. Pure.
MemView OnlyOf(pid_t pid, const MemView& view);

// Whether nothing is in it. Pure.
bool IsEmpty(const MemView& view);

// Three lines and a table of holders per arena, or a line that says that there
// are none. Looks up the names and states of owners in /proc. Tables of queues,
// loaders and segments, if there are any. Of `width` columns (0: any).
std::string MemText(const MemView& view, size_t width = 0);

// {"arenas": [...], "queues": [...], "loaders": [...], "segments": [...],
// "hidden_pids": [...]}; ages in milliseconds.
Json MemJson(const MemView& view);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_MEM_H_
