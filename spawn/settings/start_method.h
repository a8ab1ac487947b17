// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StartMethod: how a child comes into being; and the names of these, for flags
// and logs. There is no global one to be set: each start says which
// (ProcessOptions::method), and kSpawn is the default.

#ifndef TENON_SPAWN_SETTINGS_START_METHOD_H_
#define TENON_SPAWN_SETTINGS_START_METHOD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tenon::spawn {

enum class StartMethod {
  // exec of this same program: shares nothing that is not handed over.
  kSpawn,
  // A copy of this process as it is: quick, and safe only while it has a single
  // thread; see ProcessOptions::fork_with_threads.
  kFork,
  // A copy of a process that was started early, has a single thread, and has
  // loaded what is always needed (fork_server.h).
  kForkServer,
};

// All that there are, the default first.
std::vector<StartMethod> AllStartMethods();

// "spawn", "fork", "forkserver"; "(unknown)" for what is none.
absl::string_view StartMethodName(StartMethod method);

// The method of that name. Errors: kInvalidArgument, listing the names.
absl::StatusOr<StartMethod> ParseStartMethod(absl::string_view name);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SETTINGS_START_METHOD_H_
