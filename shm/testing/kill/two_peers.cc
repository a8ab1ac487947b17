// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/two_peers.h"

#include <signal.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"

namespace tenon {
namespace {

using Body = std::function<void(Peer&)>;
using Failures = std::vector<std::string>;

absl::Status RunInThreads(std::vector<Peer> peers, const Body& body,
                          absl::Duration watchdog, Failures& failures) {
  TENON_ASSIGN_OR_RETURN(ReportPipe pipe, ReportPipe::Create());
  const auto until =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(watchdog);
  std::vector<std::future<void>> ends;
  for (Peer& peer : peers) {
    peer.set_reporter(pipe.reporter());
    ends.push_back(std::async(std::launch::async,
                              [&body, self = std::move(peer)]() mutable {
                                // Moved here, so that its sockets are closed
                                // when it ends.
                                Peer own = std::move(self);
                                body(own);
                              }));
  }
  for (std::future<void>& end : ends) {
    // A thread cannot be ended from outside.
    TENON_CHECK(end.wait_until(until) == std::future_status::ready,
                "a peer's thread did not end before its watchdog");
  }
  failures = pipe.Drain().failures;
  return absl::OkStatus();
}

absl::StatusOr<ForkedChild> ForkPeer(std::vector<Peer>& peers, size_t i,
                                     const Body& body,
                                     absl::Duration watchdog) {
  return ForkedChild::Fork(
      {.name = peers[i].name(), .watchdog = watchdog},
      [&](const Reporter& reporter) {
        Peer self = std::move(peers[i]);
        peers.clear();  // Closes the sockets of the other peers.
        self.set_reporter(reporter);
        body(self);
      });
}

absl::Status RunInProcesses(std::vector<Peer> peers, const Body& body,
                            absl::Duration watchdog, Failures& failures) {
  std::vector<ForkedChild> children;
  for (size_t i = 0; i < peers.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(ForkedChild child,
                           ForkPeer(peers, i, body, watchdog));
    children.push_back(std::move(child));
  }
  peers.clear();  // Otherwise they would not see each other's end.
  for (ForkedChild& child : children) {
    TENON_ASSIGN_OR_RETURN(const ExitStatus end,
                           child.Wait(Deadline::After(2 * watchdog)));
    for (const std::string& failure : child.report().failures) {
      failures.push_back(absl::StrCat(child.name(), ": ", failure));
    }
    const bool died = child.report().will_die && end.signal == SIGKILL;
    if (!end.success() && !died) {
      failures.push_back(absl::StrCat(child.name(), " ", child.Describe(end)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

testing::AssertionResult RunTwoPeers(PeerMode mode, const Body& body,
                                     absl::Duration watchdog) {
  absl::StatusOr<std::vector<Peer>> peers =
      MakePeers({"a", "b"}, mode, Deadline::After(watchdog * 3 / 4));
  if (!peers.ok()) return testing::AssertionFailure() << peers.status();
  Failures failures;
  const auto run = mode == PeerMode::kThreads ? RunInThreads : RunInProcesses;
  const absl::Status ran = run(*std::move(peers), body, watchdog, failures);
  if (!ran.ok()) failures.push_back(ran.ToString());
  if (failures.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << absl::StrJoin(failures, "\n");
}

std::string PeerModeName(const testing::TestParamInfo<PeerMode>& info) {
  return info.param == PeerMode::kThreads ? "Threads" : "Processes";
}

}  // namespace tenon
