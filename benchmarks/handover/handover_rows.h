// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The rows about handing tensors of 4 KiB over, in their fixed order.

#ifndef TENON_BENCHMARKS_HANDOVER_HANDOVER_ROWS_H_
#define TENON_BENCHMARKS_HANDOVER_HANDOVER_ROWS_H_

#include <vector>

#include "tenon/benchmarks/harness/peer_program.h"
#include "tenon/benchmarks/harness/subject.h"

namespace tenon::benchmarks {

std::vector<Row> HandoverRows(const PeerPlace& peers);

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_HANDOVER_ROWS_H_
