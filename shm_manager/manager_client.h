// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ManagerClient: an attachment of this process to the daemon of names, which
// removes this process's names at once when it dies. Starts the daemon if there
// is none.
//
//   TENON_ASSIGN_OR_RETURN(
//       ManagerClient client,
//       ManagerClient::Attach({.program = "/opt/tenon/bin/tenon_shm_manager"},
//                             Deadline::After(absl::Seconds(5))));
//
// Named segments work without it: then the names of a dead process stay until
// they are used again, memory is short, or `tenon shm gc` runs.

#ifndef TENON_SHM_MANAGER_MANAGER_CLIENT_H_
#define TENON_SHM_MANAGER_MANAGER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm_manager/manager_message.h"
#include "tenon/shm_manager/manager_stats.h"

namespace tenon {

// The socket of a group: shm_manager-GROUP in the folder "tenon" of
// $XDG_RUNTIME_DIR, or of /run/user/UID, if that is a directory of this user;
// else in /tmp/tenon-UID. Groups have a daemon each, and see nothing of one
// another. Makes nothing. Errors: kInvalidArgument for a group that
// CheckShmPrefix() rejects, or if the path exceeds 107 bytes.
absl::StatusOr<std::string> ManagerPath(absl::string_view group = "default");

// Makes the folder of that socket (0700), if it does not exist. Attach() with a
// program, and the daemon, do so for the path of ManagerPath().
// Errors: mkdir()'s.
absl::Status MakeManagerFolder(const std::string& path);

struct ManagerClientOptions {
  // The daemon's socket; empty: that of ManagerPath().
  std::string path = {};
  // The daemon's executable, tenon_shm_manager; empty: none is started.
  std::string program = {};
  // Of a daemon that is started here.
  absl::Duration idle_exit = absl::Seconds(10);
};

// Ownership: owns a socket. Destruction detaches, also if a forked child has
// the
//   socket open; in a forked child it does nothing to the parent's attachment.
// Threads: thread-compatible.
// Processes: inert in a forked child, which attaches itself. A child that is
//   forked and not attached is not noticed when it ends; its names are removed
//   with the next end of a client.
// Trust: the daemon is a process of this user, by the kernel's word.
// Failure: after kDeadlineExceeded, kDataLoss or kUnavailable from a call, or
//   once fd() is readable, the client is detached: Attach() makes a new one, and
//   starts the next daemon. Whether the daemon has done what the failed call
//   asked is then unknown: a KeepName() that is repeated may count twice, and
//   is undone by the end of its keep_after_death. Nothing is lost with a daemon
//   but the names that it kept.
class ManagerClient {
 public:
  // Connects, and starts the daemon if none listens. Of several processes that
  // start one at once, all attach to the same. Blocks until `deadline`.
  // Errors: kUnavailable if there is no daemon and no `program`, or if the
  // program failed, with its message; kNotFound or kPermissionDenied if it
  // cannot be executed; kDeadlineExceeded; kResourceExhausted over the daemon's
  // quota, or at a limit here; kFailedPrecondition if the daemon is of another
  // version; those of Connect() (listener.h).
  static absl::StatusOr<ManagerClient> Attach(
      const ManagerClientOptions& options, Deadline deadline);

  ManagerClient(ManagerClient&&) = default;
  ManagerClient& operator=(ManagerClient&&) = default;

  // The daemon becomes a holder of a random name (Segment::name()), so that it
  // outlives this process while a message with it is in flight. Each call
  // counts. Blocks until `deadline`, as all calls below. Errors:
  // kInvalidArgument for a name that a program chose; kResourceExhausted over a
  // quota; those of Segment::Open(), as kNotFound; as above.
  absl::Status KeepName(absl::string_view name, Deadline deadline);

  // Undoes one KeepName() of any client of the group. Soon after the last one
  // the name is removed, if it has no other holder.
  // Errors: kNotFound if the name is not kept, or not any more because its
  // creator has removed it; as above.
  absl::Status ReleaseName(absl::string_view name, Deadline deadline);

  absl::StatusOr<ManagerStats> QueryStats(Deadline deadline);

  // The daemon's process. Not while detached.
  const PeerProcess& daemon() const { return *channel_->peer(); }

  // For poll(): readable once the daemon has ended. -1 if detached.
  int fd() const { return channel_ ? channel_->fd() : -1; }

 private:
  // Closing the socket would not detach while a forked child has it open.
  struct Detach {
    Detach() : fork_count(ForkCount()) {}
    void operator()(Channel* channel) const;

    uint64_t fork_count;
  };

  explicit ManagerClient(Channel channel)
      : channel_(new Channel(std::move(channel))) {}

  absl::StatusOr<ManagerReply> Ask(const ManagerRequest& request,
                                   Deadline deadline);

  std::unique_ptr<Channel, Detach> channel_;
};

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_MANAGER_CLIENT_H_
