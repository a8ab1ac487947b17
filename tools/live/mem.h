// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon mem`: existing arenas and the holders of their blocks; existing queues
// and their fill levels.

#ifndef TENON_TOOLS_LIVE_MEM_H_
#define TENON_TOOLS_LIVE_MEM_H_

#include <sys/types.h>

#include <string>

#include "tenon/ipc/queue/queue_query.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/tools/cli/json.h"

namespace tenon::tools {

// A snapshot.
struct MemView {
  LedgerReport ledger;
  QueueReports queues;
};

// Keeps the arenas in which `pid` owns or holds blocks, and the queues that it
// has open. Pure.
MemView OnlyOf(pid_t pid, const MemView& view);

// Three lines and a table of holders per arena, or a line that says that there
// are none. Looks up the names and states of owners in /proc. A table of
// queues, if there are any.
std::string MemText(const MemView& view);

// {"arenas": [...], "queues": [...], "hidden_pids": [...]}; ages in
// milliseconds.
Json MemJson(const MemView& view);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_MEM_H_
