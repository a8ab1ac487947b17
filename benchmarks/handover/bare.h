// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Limits without a hand-over: waking, cache lines, and filling.

#ifndef TENON_BENCHMARKS_HANDOVER_BARE_H_
#define TENON_BENCHMARKS_HANDOVER_BARE_H_

#include <memory>

#include "tenon/benchmarks/harness/subject.h"

namespace tenon::benchmarks {

// A wake there and back, each end asleep in ppoll() over an eventfd and the
// other process's pidfd: the least that a wait needs if it notices deaths.
std::unique_ptr<Subject> NewBarePoll();

// The same over a futex, which notices no deaths.
std::unique_ptr<Subject> NewBareFutex();

// A line of 64 bytes there, and another one back; both processes spin.
std::unique_ptr<Subject> NewBareLines();

// Copies 4 KiB into a pool of 1 MiB, in the asking process.
std::unique_ptr<Subject> NewBareFill();

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_BARE_H_
