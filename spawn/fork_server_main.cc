// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The fork server's side: an entry point that has no thread beside it, since
// its orphan_grace is infinite (orphan_watch.h).

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/child_main.h"
#include "tenon/spawn/entry.h"
#include "tenon/spawn/fork_request.h"
#include "tenon/spawn/launch.h"
#include "tenon/spawn/orphan_watch.h"

namespace tenon::spawn {
namespace {

// Beyond the grace that children give themselves.
constexpr absl::Duration kSpareGrace = absl::Milliseconds(250);
// The most that is waited for those whose grace has no end.
constexpr absl::Duration kMaxGrace = absl::Hours(24 * 365);

class Server {
 public:
  static absl::StatusOr<Server> Create(Channel requests) {
    // Whoever loses his parent below this process becomes its child.
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
      return PosixError(errno, "prctl(PR_SET_CHILD_SUBREAPER)", "fork server");
    }
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, nullptr);
    // The terminal's Ctrl-C is for the process that is served.
    signal(SIGINT, SIG_IGN);
    UniqueFd ends(signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!ends.valid()) return PosixError(errno, "signalfd", "fork server");
    return Server(std::move(requests), std::move(ends));
  }

  // Until the process that is served has ended or says so.
  void Serve() {
    bool stop = false;
    while (!stop) stop = ServeOnce();
    EndAll();
  }

  // Why no child is forked.
  void Refuse(absl::Status why) { refusal_ = std::move(why); }

 private:
  Server(Channel requests, UniqueFd ends)
      : requests_(std::move(requests)), ends_(std::move(ends)) {}

  // True at the end.
  bool ServeOnce() {
    std::vector<pollfd> fds = {
        {.fd = requests_.fd(), .events = POLLIN, .revents = 0},
        {.fd = ends_.get(), .events = POLLIN, .revents = 0}};
    for (const int elder : Elders()) {
      fds.push_back({.fd = elder, .events = POLLIN, .revents = 0});
    }
    if (!PollUntil(fds.data(), fds.size(), Deadline::Never()).ok()) {
      return false;
    }
    if (fds[1].revents != 0) ReapSome();
    if (fds[0].revents != 0) {
      absl::StatusOr<Message> message = requests_.Receive(Deadline::Passed());
      if (absl::IsUnavailable(message.status())) return true;
      if (message.ok() && TakeRequest(*std::move(message))) return true;
    }
    return std::any_of(fds.begin() + 2, fds.end(), [](const pollfd& elder) {
      return (elder.revents & POLLIN) != 0;
    });
  }

  // True if it says that this is the end.
  bool TakeRequest(Message message) {
    const absl::StatusOr<ForkRequest> request =
        DecodeForkRequest(message.bytes);
    if (!request.ok()) return false;
    if (request->stop) {
      longest_grace_ = absl::ZeroDuration();
      return true;
    }
    const size_t streams = static_cast<size_t>(
        __builtin_popcount(static_cast<unsigned>(request->streams)));
    if (message.fds.size() != 3 + streams) return false;
    absl::StatusOr<Channel> fate = Channel::Adopt(std::move(message.fds[1]));
    if (!fate.ok()) return false;
    const absl::StatusOr<pid_t> pid = Fork(*request, message.fds);
    ForkBirth birth = {.status = pid.status(), .pid = pid.value_or(-1)};
    if (!pid.ok()) {
      fate->Send(EncodeForkBirth(birth), {}, Deadline::Passed()).IgnoreError();
      return false;
    }
    TellBirth(birth, *fate);
    longest_grace_ = std::max(longest_grace_, request->orphan_grace);
    children_.emplace(*pid, *std::move(fate));
    return false;
  }

  static void TellBirth(ForkBirth birth, Channel& fate) {
    const absl::StatusOr<PidFd> child = PidFd::Open(birth.pid);
    std::vector<int> fds;
    if (child.ok()) {
      fds.push_back(child->fd());
    } else {
      kill(birth.pid, SIGKILL);
      birth.status = child.status();
    }
    fate.Send(EncodeForkBirth(birth), fds, Deadline::Passed()).IgnoreError();
  }

  absl::StatusOr<pid_t> Fork(const ForkRequest& request,
                             absl::Span<const UniqueFd> fds) {
    TENON_RETURN_IF_ERROR(refusal_);
    const int threads = CountThreads();
    if (threads != 1) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the fork server has ", threads,
          " threads: what it has preloaded must not leave any behind"));
    }
    // All of these are the server's for the child alone.
    if (fchdir(fds[2].get()) != 0) {
      return PosixError(errno, "fchdir", "fork server");
    }
    clearenv();
    for (const std::string& one : request.environment) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(one, absl::MaxSplits('=', 1));
      setenv(parts.first.c_str(), parts.second.c_str(), 1);
    }
    int streams[3] = {-1, -1, -1};
    size_t next = 3;
    for (int i = 0; i < 3; ++i) {
      if ((request.streams & (1u << i)) != 0) streams[i] = fds[next++].get();
    }
    if (streams[0] >= 0) dup2(streams[0], STDIN_FILENO);
    return LaunchByFork(fds[0].get(),
                        {.hold_interrupt = request.hold_interrupt,
                         .own_group = request.own_group,
                         .stdout_fd = streams[1],
                         .stderr_fd = streams[2]},
                        RunForkedChildMain);
  }

  // Those that have ended, children of this process and adopted ones.
  void ReapSome() {
    signalfd_siginfo ignored[16];
    while (read(ends_.get(), ignored, sizeof(ignored)) > 0) {
    }
    for (;;) {
      int status = 0;
      rusage usage = {};
      const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
      if (pid <= 0) return;
      const auto child = children_.find(pid);
      if (child == children_.end()) continue;
      const ExitStatus end = {
          .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .peak_rss_bytes = int64_t{usage.ru_maxrss} * 1024};
      child->second.Send(EncodeForkEnd(end), {}, Deadline::Passed())
          .IgnoreError();
      children_.erase(child);
    }
  }

  // Every child of this process, from the kernel.
  static std::vector<pid_t> AllChildren() {
    std::vector<pid_t> children;
    std::ifstream file(absl::StrCat("/proc/self/task/", getpid(), "/children"));
    for (pid_t pid = 0; file >> pid;) children.push_back(pid);
    return children;
  }

  // Waits for the children's own grace, and then kills until nobody is left:
  // those whose parent dies fall to this process.
  void EndAll() {
    const Deadline deadline =
        longest_grace_ > kMaxGrace
            ? Deadline::Never()
            : Deadline::After(longest_grace_ +
                              (longest_grace_ > absl::ZeroDuration()
                                   ? kSpareGrace
                                   : absl::ZeroDuration()));
    while (!children_.empty() && !deadline.has_passed()) {
      pollfd ends = {.fd = ends_.get(), .events = POLLIN, .revents = 0};
      PollUntil(&ends, 1, deadline).status().IgnoreError();
      ReapSome();
    }
    for (;;) {
      const std::vector<pid_t> left = AllChildren();
      for (const auto& child : children_) kill(child.first, SIGKILL);
      for (const pid_t pid : left) kill(pid, SIGKILL);
      if (left.empty() && children_.empty()) return;
      pollfd ends = {.fd = ends_.get(), .events = POLLIN, .revents = 0};
      PollUntil(&ends, 1, Deadline::After(absl::Milliseconds(10)))
          .status()
          .IgnoreError();
      ReapSome();
    }
  }

  Channel requests_;
  UniqueFd ends_;
  absl::Status refusal_;
  absl::Duration longest_grace_;
  std::map<pid_t, Channel> children_;
};

absl::Status Preload(const std::string& names) {
  for (const absl::string_view name :
       absl::StrSplit(names, '\n', absl::SkipEmpty())) {
    const EntryFunction function = FindEntry(name);
    if (function == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("the fork server was to preload '", name,
                       "', which is no TENON_SPAWN_ENTRY"));
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

// The argument has the names of what is to be preloaded, one in a line.
absl::Status RunForkServer(Child& child) {
  TENON_ASSIGN_OR_RETURN(
      Channel requests,
      Channel::Adopt(child.TakeFd(0), {.allow_sockets = true}));
  TENON_ASSIGN_OR_RETURN(Server server, Server::Create(std::move(requests)));
  server.Refuse(Preload(child.argument()));
  server.Serve();
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("tenon.spawn.fork_server", RunForkServer);

}  // namespace
}  // namespace tenon::spawn
