// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon ps`: which processes use Tenon, and how much each of them owns, holds
// and has open.

#ifndef TENON_TOOLS_LIVE_PS_H_
#define TENON_TOOLS_LIVE_PS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/live/process_scan.h"

namespace tenon::tools {

// A process, with what the ledger says of it.
struct PsRow {
  TenonProcess process;
  size_t arenas_owned = 0;
  uint64_t bytes_owned = 0;  // The segments of these.
  size_t attachments = 0;    // To arenas of others.
  size_t blocks_held = 0;    // Of arenas of others.
  uint64_t bytes_held = 0;

  // All segments that it has open or mapped, its arenas' among them.
  uint64_t SegmentBytes() const;
};

// What is in both, by pid; the order of the scan is kept. Pure.
std::vector<PsRow> PsRows(const ProcessScan& scan, const LedgerReport& report);

// A table, or a line that says that there is nothing. Pure.
std::string PsText(const std::vector<PsRow>& rows,
                   const std::vector<pid_t>& hidden);

// {"processes": [...], "hidden_pids": [...]}. `now` is what starts are counted
// from. Pure.
Json PsJson(const std::vector<PsRow>& rows, const std::vector<pid_t>& hidden,
            absl::Time now);

// "(3 processes could not be looked into: 12, 13, 14)", ended by a newline;
// empty if there are none. Pure.
std::string HiddenText(const std::vector<pid_t>& hidden);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_PS_H_
