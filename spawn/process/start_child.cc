// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/start_child.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/child/child_main.h"
#include "tenon/spawn/child/started_child.h"
#include "tenon/spawn/fork_server/fork_client.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/supervisor/supervisor.h"

namespace tenon::spawn {
namespace {

absl::StatusOr<SupervisedChildren> StartBy(const ProcessOptions& options,
                                           absl::Span<const ChildFds> fds) {
  SupervisedStart start = SupervisedStartOf(options, fds);
  if (options.method != StartMethod::kSpawn) {
    start.ignored_signals = IgnoredSignals();
  }
  if (options.method == StartMethod::kForkServer) return StartByServer(start);
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  start.ancestors = AncestorsOfChild();
  start.ancestors.push_back(self.fd());
  if (options.method == StartMethod::kFork) start.run = RunForkedChildMain;
  return StartSupervised(start);
}

}  // namespace

absl::StatusOr<std::vector<StartedChild>> StartPrepared(
    const ProcessOptions& options, std::vector<PreparedChild> children,
    std::optional<int64_t> memory_kills) {
  std::vector<ChildFds> fds;
  UniqueFd null;
  if (!options.inherit_stdin) {
    null = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return PosixError(errno, "open", "/dev/null");
  }
  for (const PreparedChild& child : children) {
    fds.push_back(FdsOf(child));
    fds.back().standard_input = null.get();
  }
  TENON_ASSIGN_OR_RETURN(SupervisedChildren started, StartBy(options, fds));
  return FinishStart(std::move(started), std::move(children), memory_kills);
}

}  // namespace tenon::spawn
