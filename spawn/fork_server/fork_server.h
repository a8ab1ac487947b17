// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The fork server: a process with a single thread that forks children for this
// one (StartMethod::kForkServer).
//
//   int main(int argc, char** argv) {
//     spawn::Init(argc, argv);
//     spawn::StartForkServer({.preload = {"load-model"}}).IgnoreError();
//     auto workers = spawn::Processes::Start(
//         8, {.entry = "work", .method = StartMethod::kForkServer});
//     return workers.ok() && workers->Join().ok() ? 0 : 1;
//   }
//
// Children start as quickly as by fork(), and have what was preloaded, but none
// of this process's memory, threads or descriptors. Their supervisors
// (supervisor.h) watch this process, and tell it how they end: if the server
// dies, they go on.

#ifndef TENON_SPAWN_FORK_SERVER_FORK_SERVER_H_
#define TENON_SPAWN_FORK_SERVER_FORK_SERVER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tenon::spawn {

struct ForkServerOptions {
  // Names of TENON_SPAWN_ENTRY functions that are run in the server, in this
  // order, before the first child is forked. What they leave in memory is in
  // every child. They must not leave threads behind.
  std::vector<std::string> preload;
};

// Starts the server of this process; the first child does so, if nobody has. It
// goes on until this process ends or StopForkServer() is called. One that has
// died is replaced at the next start of a child, and preloads the same.
// Thread-safe. Does not wait for what is preloaded: an error of that is told by
// the start of a child.
// Errors: kAlreadyExists if there is one; those of Process::Start().
absl::Status StartForkServer(const ForkServerOptions& options = {});

// Ends it, with all children that still run. Blocks until it has ended. Does
// nothing if there is none. Thread-safe.
void StopForkServer();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_FORK_SERVER_FORK_SERVER_H_
