// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StartMethod: how a child is created; and the methods' names, for flags and
// logs. There is no global setting: each start chooses
// (ProcessOptions::method), and kSpawn is the default.

#ifndef TENON_SPAWN_SETTINGS_START_METHOD_H_
#define TENON_SPAWN_SETTINGS_START_METHOD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

enum class StartMethod {
  // exec of this same program: shares only explicitly passed arguments.
  kSpawn,
  // A copy of this process: quick, and safe only while it has a single thread;
  // see ProcessOptions::fork_with_threads. Refused once this process has
  // initialized CUDA, which a copy cannot use.
  kFork,
  // A copy of a process that was started early, has a single thread, and has
  // preloaded the common state (fork_server.h). Refused if that has initialized
  // CUDA.
  kForkServer,
};

// All methods, the default first.
std::vector<StartMethod> AllStartMethods();

// "spawn", "fork", "forkserver"; "(unknown)" for other values.
absl::string_view StartMethodName(StartMethod method);

// The method of that name. Errors: kInvalidArgument, listing the names.
absl::StatusOr<StartMethod> ParseStartMethod(absl::string_view name);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SETTINGS_START_METHOD_H_
