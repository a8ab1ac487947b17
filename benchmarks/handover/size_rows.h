// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_BENCHMARKS_HANDOVER_SIZE_ROWS_H_
#define TENON_BENCHMARKS_HANDOVER_SIZE_ROWS_H_

#include <vector>

#include "tenon/benchmarks/harness/subject.h"

namespace tenon::benchmarks {

// For each size from 64 B to 64 MiB two rows, of filled tensors there and back
// and in a row, by each strategy: size.64k.there_back.spin,
// size.64k.stream.spin.
std::vector<Row> SizeRows();

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_SIZE_ROWS_H_
