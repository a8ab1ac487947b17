// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon ps`: processes that use Tenon, and the bytes that each of them owns,
// holds and has open.

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

// A process, with its entries in the ledger.
struct PsRow {
  TenonProcess process;
  size_t arenas_owned = 0;
  uint64_t bytes_owned = 0;  // The segments of these arenas.
  size_t attachments = 0;    // To arenas of peers.
  size_t blocks_held = 0;    // In arenas of peers.
  uint64_t bytes_held = 0;

  // All segments that it has open or mapped, including those of its arenas.
  uint64_t SegmentBytes() const;
};

// Processes in both, by pid; keeps the order of the scan. Pure.
std::vector<PsRow> PsRows(const ProcessScan& scan, const LedgerReport& report);

// A table, or a line that says that there are none; of `width` columns (0:
// any). Pure.
std::string PsText(const std::vector<PsRow>& rows,
                   const std::vector<pid_t>& hidden, size_t width = 0);

// {"processes": [...], "hidden_pids": [...]}. Start times are relative to
// `now`. Pure.
Json PsJson(const std::vector<PsRow>& rows, const std::vector<pid_t>& hidden,
            absl::Time now);

// "(3 processes could not be looked into: 12, 13, 14)", with a newline at the
// end; empty if there are none. Pure.
std::string HiddenText(const std::vector<pid_t>& hidden);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_PS_H_
