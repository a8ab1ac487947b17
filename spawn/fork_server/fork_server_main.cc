// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The fork server's main function: an entry point.

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/fork_hazard.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/spawn/child/child_main.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_request.h"
#include "tenon/spawn/supervisor/ancestors.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/spawn/supervisor/supervisor_main.h"

namespace tenon::spawn {
namespace {

class Server {
 public:
  explicit Server(Channel requests) : requests_(std::move(requests)) {}

  // Runs until the client process has ended or asks to stop. In the first case
  // the children's supervisors have noticed it too.
  void Serve() {
    // The terminal's Ctrl-C is meant for the client process.
    signal(SIGINT, SIG_IGN);
    while (ServeOnce()) {
    }
  }

  // Sets the reason for refusing all requests.
  void Refuse(absl::Status why) { refusal_ = std::move(why); }

 private:
  // False at the end.
  bool ServeOnce() {
    std::vector<pollfd> fds = {
        {.fd = requests_.fd(), .events = POLLIN, .revents = 0}};
    for (const SupervisedChildren& one : supervised_) {
      fds.push_back(
          {.fd = one.supervisor->end_fd(), .events = POLLIN, .revents = 0});
    }
    if (!PollUntil(fds, Deadline::Never()).ok()) return true;
    for (size_t i = supervised_.size(); i > 0; --i) {
      if (fds[i].revents == 0) continue;
      std::swap(supervised_[i - 1], supervised_.back());
      supervised_.pop_back();
    }
    if (fds[0].revents == 0) return true;
    absl::StatusOr<Message> message = requests_.Receive(Deadline::Passed());
    if (absl::IsUnavailable(message.status())) return false;
    return !message.ok() || TakeRequest(*std::move(message));
  }

  // False on a request to stop.
  bool TakeRequest(Message message) {
    const absl::StatusOr<ForkRequest> request =
        DecodeForkRequest(message.bytes);
    if (!request.ok()) return true;
    if (request->stop) {
      EndAll();
      return false;
    }
    if (message.fds.size() != CountFds(*request)) return true;
    absl::StatusOr<Channel> answer = Channel::Adopt(std::move(message.fds[0]));
    if (!answer.ok()) return true;
    absl::StatusOr<SupervisedChildren> made = Fork(*request, message.fds);
    ForkReply reply = {.status = made.status()};
    std::vector<int> fds;
    if (made.ok()) {
      for (const SupervisedChild& child : made->children) {
        reply.pids.push_back(child.pid);
        fds.insert(fds.end(), {child.pid_fd.fd(), child.child_exit.fd()});
      }
    }
    answer->Send(EncodeForkReply(reply), fds, Deadline::Passed()).IgnoreError();
    if (made.ok() && made->supervisor) supervised_.push_back(*std::move(made));
    return true;
  }

  // The channel for the answer, the directory, the children's descriptors.
  static size_t CountFds(const ForkRequest& request) {
    return 2 + size_t{kFdsOfAChild} * request.children;
  }

  // Assigns `fds` as specified by the request; only the children keep them.
  absl::StatusOr<SupervisedChildren> Fork(const ForkRequest& request,
                                          absl::Span<const UniqueFd> fds) {
    TENON_RETURN_IF_ERROR(refusal_);
    if (const absl::Status hazard = CheckNoForkHazard(); !hazard.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the fork server cannot start children: a preloaded "
                       "entry did what a fork does not survive: ",
                       hazard.message()));
    }
    const int threads = CountThreads();
    if (threads != 1) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the fork server has ", threads,
          " threads; preloaded entries must not leave threads behind"));
    }
    if (fchdir(fds[1].get()) != 0) {
      return PosixError(errno, "fchdir", "fork server");
    }
    clearenv();
    for (const std::string& one : request.environment) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(one, absl::MaxSplits('=', 1));
      setenv(parts.first.c_str(), parts.second.c_str(), 1);
    }
    std::vector<ChildFds> children;
    for (size_t i = 2; i < fds.size(); i += kFdsOfAChild) {
      children.push_back({.control = fds[i].get(),
                          .standard_input = fds[i + 1].get(),
                          .standard_output = fds[i + 2].get(),
                          .standard_error = fds[i + 3].get()});
    }
    return StartSupervised({.children = children,
                            .run = RunForkedChildMain,
                            .ignored_signals = request.ignored_signals,
                            .hold_interrupt = request.hold_interrupt,
                            .ancestors = Ancestors(),
                            .orphan_grace = request.orphan_grace,
                            .own_group = request.own_group});
  }

  void EndAll() {
    for (const SupervisedChildren& one : supervised_) {
      for (const SupervisedChild& child : one.children) {
        child.pid_fd.SendSignal(SIGKILL).IgnoreError();
      }
      // The supervisor may have been stopped.
      one.supervisor->Wake();
    }
    for (const SupervisedChildren& one : supervised_) {
      for (const SupervisedChild& child : one.children) {
        child.child_exit.WaitForExit(Deadline::Never()).IgnoreError();
      }
      // Not waited for if it waits for nested supervisors.
      one.supervisor->SetLingers();
    }
    supervised_.clear();
  }

  Channel requests_;
  absl::Status refusal_;
  std::vector<SupervisedChildren> supervised_;
};

absl::Status Preload(const std::string& names) {
  for (const absl::string_view name :
       absl::StrSplit(names, '\n', absl::SkipEmpty())) {
    const EntryFunction function = FindEntry(name);
    if (function == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("the fork server cannot preload '", name,
                       "': not a TENON_SPAWN_ENTRY"));
    }
    Child self(0, "", {});
    const absl::Status loaded = function(self);
    if (!loaded.ok()) {
      return absl::Status(loaded.code(),
                          absl::StrCat("the fork server preloaded '", name,
                                       "': ", loaded.message()));
    }
  }
  return absl::OkStatus();
}

// The argument is a list of entries to preload, one per line.
absl::Status RunForkServer(Child& child) {
  TENON_ASSIGN_OR_RETURN(
      Channel requests,
      Channel::Adopt(child.TakeFd(0), {.allow_sockets = true}));
  Server server(std::move(requests));
  server.Refuse(Preload(child.argument()));
  server.Serve();
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("tenon.spawn.fork_server", RunForkServer);

}  // namespace
}  // namespace tenon::spawn
