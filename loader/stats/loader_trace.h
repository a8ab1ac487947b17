// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TraceJson: the last stages of a loader's processes, in the trace event format
// that Perfetto (ui.perfetto.dev) and chrome://tracing open.

#ifndef TENON_LOADER_STATS_LOADER_TRACE_H_
#define TENON_LOADER_STATS_LOADER_TRACE_H_

#include <string>

#include "tenon/loader/stats/loader_stats.h"

namespace tenon::loader {

// A track for the consumer and one for each worker; a slice for each stage,
// with the epoch and the number of its batch. Times are those of
// CLOCK_MONOTONIC. ASCII. Pure.
std::string TraceJson(const LoaderStats& stats);

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_LOADER_TRACE_H_
