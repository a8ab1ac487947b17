// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CheckOptions: refuses options that are out of range or contradict one
// another, by the rules of torch's DataLoader.

#ifndef TENON_LOADER_CHECK_OPTIONS_H_
#define TENON_LOADER_CHECK_OPTIONS_H_

#include "absl/status/status.h"
#include "tenon/loader/loader_options.h"

namespace tenon::loader {

// Each has an arena, and a process attaches to at most 512.
inline constexpr int kMaxWorkers = 512;
inline constexpr int kMaxThreadsPerWorker = 512;
inline constexpr int kMaxPrefetch = 1024;
inline constexpr int kMaxTraceEvents = 1 << 20;
inline constexpr int kMaxReplay = 4096;
inline constexpr int kDefaultPrefetch = 2;

// Errors: kInvalidArgument, naming the options and what to change.
absl::Status CheckOptions(const LoaderOptions& options);

}  // namespace tenon::loader

#endif  // TENON_LOADER_CHECK_OPTIONS_H_
