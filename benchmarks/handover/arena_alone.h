// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_BENCHMARKS_HANDOVER_ARENA_ALONE_H_
#define TENON_BENCHMARKS_HANDOVER_ARENA_ALONE_H_

#include <memory>

#include "tenon/benchmarks/harness/subject.h"

namespace tenon::benchmarks {

// A block of 4 KiB is allocated, described, sent in one line of shared memory,
// claimed, acknowledged in another line and released: an arena without a queue.
// The arena has 128 blocks, so each has been reclaimed before.
std::unique_ptr<Subject> NewArenaAlone();

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_ARENA_ALONE_H_
