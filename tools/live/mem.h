// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon mem`: the arenas there are, and who holds which part of them.

#ifndef TENON_TOOLS_LIVE_MEM_H_
#define TENON_TOOLS_LIVE_MEM_H_

#include <sys/types.h>

#include <string>

#include "tenon/shm/arena/ledger_query.h"
#include "tenon/tools/cli/json.h"

namespace tenon::tools {

// Leaves the arenas that `pid` owns or holds something of. Pure.
LedgerReport OnlyOf(pid_t pid, const LedgerReport& report);

// Three lines and a table of holders for each arena, or a line that says that
// there is none. Looks up the names and states of owners in /proc.
std::string MemText(const LedgerReport& report);

// {"arenas": [...], "hidden_pids": [...]}; ages in milliseconds.
Json MemJson(const LedgerReport& report);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_MEM_H_
