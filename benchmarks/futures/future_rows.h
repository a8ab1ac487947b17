// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The rows about futures, in their fixed order. One thread does all the work.

#ifndef TENON_BENCHMARKS_FUTURES_FUTURE_ROWS_H_
#define TENON_BENCHMARKS_FUTURES_FUTURE_ROWS_H_

#include <vector>

#include "tenon/benchmarks/harness/peer_program.h"
#include "tenon/benchmarks/harness/subject.h"

namespace tenon::benchmarks {

std::vector<Row> FutureRows(const PeerPlace& peers);

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_FUTURES_FUTURE_ROWS_H_
