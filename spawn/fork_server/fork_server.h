// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The fork server: a single-threaded process that forks children for this
// process (StartMethod::kForkServer).
//
//   int main(int argc, char** argv) {
//     spawn::Init(argc, argv);
//     spawn::StartForkServer({.preload = {"load-model"}}).IgnoreError();
//     auto workers = spawn::Processes::Start(
//         8, {.entry = "work", .method = StartMethod::kForkServer});
//     return workers.ok() && workers->Join().ok() ? 0 : 1;
//   }
//
// Children start as quickly as by fork(), and have the preloaded state, but
// none of this process's memory, threads or descriptors. Their supervisors
// (supervisor.h) watch this process, and report the children's exits to it. If
// the server dies, children with a process group of their own
// (ProcessOptions::own_group) continue; the others are in the server's group,
// and are killed with it. A start that was not finished fails with
// kUnavailable, and its children end.

#ifndef TENON_SPAWN_FORK_SERVER_FORK_SERVER_H_
#define TENON_SPAWN_FORK_SERVER_FORK_SERVER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

struct ForkServerOptions {
  // Names of TENON_SPAWN_ENTRY functions that run in the server, in this order,
  // before the first child is forked. Every child inherits the memory they
  // leave. They must not leave threads behind, nor initialize CUDA.
  std::vector<std::string> preload;
};

// Starts the server of this process; otherwise the first start of a child does.
// The server runs until this process ends or StopForkServer() is called. A
// server that has died is replaced at the next start of a child, and preloads
// the same entries. Thread-safe. Does not wait for the preloading: the start of
// a child returns its errors.
// Errors: kAlreadyExists if a server runs; those of Process::Start().
absl::Status StartForkServer(const ForkServerOptions& options = {});

// Ends the server, with all its children that still run. Blocks until it has
// ended. Does nothing if there is no server. Thread-safe.
void StopForkServer();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_FORK_SERVER_FORK_SERVER_H_
