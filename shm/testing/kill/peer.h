// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Peer: one of the processes or threads of a test, and its messages to the
// others.
//
//   void Body(Peer& self) {
//     if (self.name() == "writer") {
//       Write(record);
//       self.Step("written");
//     } else {
//       EXPECT_THAT(self.Await("writer", "written"), IsOk());
//       EXPECT_EQ(Read(record), 2);
//     }
//   }
//
// Only for a test's own synchronisation: the code under test should not use it.
// two_peers.h and kill_driver.h make peers.

#ifndef TENON_SHM_TESTING_KILL_PEER_H_
#define TENON_SHM_TESTING_KILL_PEER_H_

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/reporter.h"

namespace tenon {

enum class PeerMode { kThreads, kProcesses };

struct PeerOptions {
  std::string name;
  PeerMode mode = PeerMode::kProcesses;
  // Bounds every wait.
  Deadline deadline = Deadline::Never();
};

// Ownership: owns one end of a socket to each other peer (close-on-exec). The
//   others see its end when these are closed: when it is destroyed, or the
//   process dies and no forked child of it keeps them.
// Threads: thread-compatible.
// Processes: moves into the process that plays it; destroy the copy elsewhere.
// Failure: a failed call has no effect and may be repeated.
class Peer {
 public:
  Peer(Peer&&) = default;

  const std::string& name() const { return options_.name; }
  PeerMode mode() const { return options_.mode; }
  const std::vector<std::string>& others() const { return others_; }

  // Notifies all others that this peer is at `step`. Ended peers are skipped.
  // Blocks only if a peer leaves some 100 steps unread; reports a failure if
  // that lasts until the deadline.
  void Step(absl::string_view step);

  // Waits until `other` is at `step`: for one Step() of that name that has not
  // been waited for yet. Steps of other names may arrive before it and are
  // kept.
  // Errors: kUnavailable if `other` ended before; kDeadlineExceeded.
  absl::Status Await(absl::string_view other, absl::string_view step);
  // The same, if there is only one other.
  absl::Status Await(absl::string_view step);

  // Step(), then Await() of all others: a barrier.
  absl::Status Meet(absl::string_view step);

  // Sends a copy of a descriptor, and receives one; in order with steps.
  // Errors: as Await(); kResourceExhausted at the limit of descriptors.
  absl::Status GiveFd(absl::string_view other, int fd);
  absl::StatusOr<UniqueFd> TakeFd(absl::string_view other);

  // Reports; see reporter.h. Failed expectations are reported by themselves.
  void Fail(absl::string_view what) const { reporter_.Fail(what); }
  void Note(absl::string_view what) const { reporter_.Note(what); }
  void set_reporter(const Reporter& reporter) { reporter_ = reporter; }

  // Ends this process by SIGKILL, which then does not count as a failure.
  // Aborts in a thread.
  [[noreturn]] void Die() const;

 private:
  friend absl::StatusOr<std::vector<Peer>> MakePeers(
      const std::vector<std::string>& names, PeerMode mode, Deadline deadline);

  struct Link {
    UniqueFd socket;
    std::deque<std::string> steps;  // Received, not yet awaited.
    std::deque<UniqueFd> fds;
  };

  explicit Peer(PeerOptions options) : options_(std::move(options)) {}
  Link& LinkTo(absl::string_view other);
  absl::Status Send(absl::string_view other, absl::string_view text, int fd);
  absl::Status Receive(absl::string_view other, absl::string_view waiting_for);

  PeerOptions options_;
  std::vector<std::string> others_;
  std::map<std::string, Link> links_;
  Reporter reporter_{-1};
};

// Makes connected peers, in the order of `names`, which differ. Errors:
// kResourceExhausted at the limit of descriptors.
absl::StatusOr<std::vector<Peer>> MakePeers(
    const std::vector<std::string>& names, PeerMode mode, Deadline deadline);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_PEER_H_
