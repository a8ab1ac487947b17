// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/manager_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm_manager/manager_message.h"
#include "tenon/shm_manager/manager_stats.h"
#include "tenon/shm_manager/start_manager.h"

namespace tenon {
namespace {

// Before the next try, after a daemon that has just ended.
constexpr absl::Duration kPause = absl::Milliseconds(5);

// The longest path of a socket.
constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

// After `su` the variable may name the directory of another user, who could not
// use what this one makes there.
bool IsOwnDirectory(const std::string& path) {
  struct stat file;
  return path[0] == '/' && stat(path.c_str(), &file) == 0 &&
         S_ISDIR(file.st_mode) && file.st_uid == geteuid();
}

std::string RuntimeDirectory() {
  const char* const set = getenv("XDG_RUNTIME_DIR");
  for (const std::string& directory : {std::string(set == nullptr ? "" : set),
                                       absl::StrCat("/run/user/", geteuid())}) {
    if (IsOwnDirectory(directory)) return absl::StrCat(directory, "/tenon");
  }
  return absl::StrCat("/tmp/tenon-", geteuid());
}

// Whether another try, or another daemon, may do better.
bool IsGone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsUnavailable(status);
}

}  // namespace

absl::StatusOr<std::string> ManagerPath(absl::string_view group) {
  TENON_RETURN_IF_ERROR(CheckShmPrefix(group));
  std::string path = absl::StrCat(RuntimeDirectory(), "/shm_manager-", group);
  if (path.size() <= kMaxPath) return path;
  return absl::InvalidArgumentError(
      absl::StrCat("ManagerPath(): ", path, " has ", path.size(),
                   " bytes; the path of a socket has at most ", kMaxPath,
                   "; use a shorter group"));
}

// The owner and mode of one that exists are checked by the listener.
absl::Status MakeManagerFolder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  return PosixError(errno, "mkdir", folder);
}

void ManagerClient::Detach::operator()(Channel* channel) const {
  if (CheckNotForked(fork_count, "shm_manager").ok()) {
    shutdown(channel->fd(), SHUT_RDWR);
  }
  delete channel;
}

absl::StatusOr<ManagerClient> ManagerClient::Attach(
    const ManagerClientOptions& options, Deadline deadline) {
  std::string path = options.path;
  if (path.empty()) {
    TENON_ASSIGN_OR_RETURN(path, ManagerPath());
    if (!options.program.empty()) {
      TENON_RETURN_IF_ERROR(MakeManagerFolder(path));
    }
  }
  for (;;) {
    absl::StatusOr<Channel> channel = Connect(
        path, deadline, {.channel = {.max_message_bytes = kMaxManagerMessage}});
    absl::Status status = channel.status();
    if (channel.ok()) {
      ManagerClient client(*std::move(channel));
      status =
          client.Ask({.kind = ManagerRequestKind::kAttach}, deadline).status();
      if (status.ok()) return client;
    }
    if (!IsGone(status)) return status;
    if (options.program.empty()) {
      return absl::UnavailableError(absl::StrCat(
          "ManagerClient::Attach(): no daemon listens at ", path,
          "; start tenon_shm_manager, or set ManagerClientOptions::program"));
    }
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          absl::StrCat("ManagerClient::Attach(): no daemon has listened at ",
                       path, " before the deadline: ", status.message()));
    }
    TENON_RETURN_IF_ERROR(
        StartManager(options.program, path, options.idle_exit, deadline));
    // A daemon that exits at once is not started without a pause.
    TENON_RETURN_IF_ERROR(
        PollUntil({}, Earlier(deadline, Deadline::After(kPause))).status());
  }
}

absl::StatusOr<ManagerReply> ManagerClient::Ask(const ManagerRequest& request,
                                                Deadline deadline) {
  if (!channel_) {
    return absl::UnavailableError(
        "shm_manager: the client is detached; call Attach() again");
  }
  const auto exchange = [&]() -> absl::StatusOr<ManagerReply> {
    // A daemon over its quota sends the reason and closes.
    const absl::Status sent =
        channel_->Send(EncodeManagerRequest(request), {}, deadline);
    if (!sent.ok() && !absl::IsUnavailable(sent)) return sent;
    // A reply is not there yet: one call less than to try first.
    pollfd fd = {.fd = channel_->fd(), .events = POLLIN, .revents = 0};
    TENON_RETURN_IF_ERROR(PollUntil({&fd, 1}, deadline).status());
    TENON_ASSIGN_OR_RETURN(const Message message,
                           channel_->Receive(deadline, 0));
    return ParseManagerReply(message.bytes);
  };
  absl::StatusOr<ManagerReply> reply = exchange();
  // A late reply would be taken for that of the next request.
  if (!reply.ok()) {
    channel_.reset();
    return reply;
  }
  TENON_RETURN_IF_ERROR(reply->status);
  if (reply->version == ManagerVersion()) return reply;
  return absl::FailedPreconditionError(absl::StrCat(
      "shm_manager: the daemon speaks version ", reply->version,
      " of its protocol, this process version ", ManagerVersion()));
}

absl::Status ManagerClient::KeepName(absl::string_view name,
                                     Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckShmName(name));
  return Ask({.kind = ManagerRequestKind::kKeepName, .name = std::string(name)},
             deadline)
      .status();
}

absl::Status ManagerClient::ReleaseName(absl::string_view name,
                                        Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckShmName(name));
  return Ask({.kind = ManagerRequestKind::kReleaseName,
              .name = std::string(name)},
             deadline)
      .status();
}

absl::StatusOr<ManagerStats> ManagerClient::QueryStats(Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(
      const ManagerReply reply,
      Ask({.kind = ManagerRequestKind::kQueryStats}, deadline));
  return reply.stats;
}

}  // namespace tenon
