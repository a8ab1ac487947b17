// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/fork_server/fork_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/spawn/child/handover.h"
#include "tenon/spawn/child/start_child.h"
#include "tenon/spawn/child/started_child.h"
#include "tenon/spawn/fork_server/fork_request.h"
#include "tenon/spawn/settings/environment.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/supervisor/supervisor.h"

namespace tenon::spawn {
namespace {

// How long the server may take to accept a request, and to reply: it may be
// preloading.
constexpr absl::Duration kPatience = absl::Minutes(5);

struct RunningServer {
  StartedChild child;
  Channel requests;
};

struct Client {
  ThreadMutex mutex;
  std::unique_ptr<RunningServer> server ABSL_GUARDED_BY(mutex);
};

// Never destroyed: the server notices the end of this process by itself.
constinit PerProcess<Client> the_client;

// The entries that a server preloads. Never changed or freed: a fork reads
// those of its parent, and its server preloads the same.
struct Preload {
  std::string entries;  // One a line.
  const Preload* previous;
};
constinit std::atomic<const Preload*> preload = nullptr;

void SetPreload(std::string entries) {
  preload.store(new Preload{std::move(entries), preload.load()});
}

absl::StatusOr<StartedChild> StartServerProcess(const ProcessOptions& options,
                                                int fd) {
  TENON_ASSIGN_OR_RETURN(const SharedArgument argument,
                         SharedArgument::Create(options.argument));
  TENON_ASSIGN_OR_RETURN(PreparedChild prepared,
                         PrepareChild(options, argument, {&fd, 1}));
  std::vector<PreparedChild> one;
  one.push_back(std::move(prepared));
  TENON_ASSIGN_OR_RETURN(
      std::vector<StartedChild> started,
      StartPrepared(options, std::move(one), std::nullopt, StartSupervised));
  return std::move(started[0]);
}

absl::Status Start(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(client.mutex) {
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  const int fd = ends.second.fd();
  const Preload* const preloaded = preload.load();
  const ProcessOptions options = {
      .entry = "tenon.spawn.fork_server",
      .argument = preloaded == nullptr ? "" : preloaded->entries,
      .orphan_grace = absl::ZeroDuration(),
      .inherit_stdin = true};
  TENON_ASSIGN_OR_RETURN(StartedChild child, StartServerProcess(options, fd));
  absl::Status sent = SendRest(child.control, child.pid_fd, {&fd, 1});
  if (!sent.ok()) {
    SignalChild(child, SIGKILL).IgnoreError();
    ReapChild(child, Deadline::Never()).status().IgnoreError();
    return sent;
  }
  client.server.reset(
      new RunningServer{std::move(child), std::move(ends.first)});
  return absl::OkStatus();
}

// Reaps and forgets a server that has died.
void ForgetIfDead(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(client.mutex) {
  if (client.server == nullptr ||
      !client.server->child.child_exit.has_exited()) {
    return;
  }
  ReapChild(client.server->child, Deadline::Never()).status().IgnoreError();
  client.server.reset();
}

// Whether exec would hand on a standard stream. Where this process has closed
// one, a descriptor of its own that is close-on-exec may have the number.
bool IsInherited(int stream) {
  const int flags = fcntl(stream, F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

// Adds the control channel and the standard streams of a child; `null` in place
// of streams that are closed here.
void AddFds(const ChildFds& child, int null, std::vector<int>& fds) {
  fds.push_back(child.control);
  const int given[] = {child.standard_input, child.standard_output,
                       child.standard_error};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    const int own = IsInherited(stream) ? stream : null;
    fds.push_back(given[stream] >= 0 ? given[stream] : own);
  }
}

// The children from the server's reply.
absl::StatusOr<SupervisedChildren> ChildrenOf(Message message, size_t count) {
  TENON_ASSIGN_OR_RETURN(const ForkReply reply, DecodeForkReply(message.bytes));
  TENON_RETURN_IF_ERROR(reply.status);
  if (reply.pids.size() != count || message.fds.size() != 2 * count) {
    return absl::DataLossError(
        absl::StrCat("fork server reply lacks pidfds (got ", message.fds.size(),
                     " fds, want ", 2 * count, ")"));
  }
  SupervisedChildren met;
  for (size_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(PidFd pid_fd,
                           PidFd::Adopt(std::move(message.fds[2 * i])));
    TENON_ASSIGN_OR_RETURN(ChildExit child_exit,
                           ChildExit::Adopt(std::move(message.fds[2 * i + 1])));
    met.children.push_back(
        {reply.pids[i], std::move(pid_fd), std::move(child_exit)});
  }
  return met;
}

absl::Status Send(Client& client, const ForkRequest& request,
                  const std::vector<int>& fds)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(client.mutex) {
  const std::string bytes = EncodeForkRequest(request);
  for (int tries = 0;; ++tries) {
    ForgetIfDead(client);
    if (client.server == nullptr) {
      TENON_RETURN_IF_ERROR(Start(client));
    }
    absl::Status sent =
        client.server->requests.Send(bytes, fds, Deadline::After(kPatience));
    if (!absl::IsUnavailable(sent) || tries > 0) return sent;
    // The server is dying.
    client.server->child.child_exit
        .WaitForExit(Deadline::After(absl::Seconds(10)))
        .IgnoreError();
  }
}

}  // namespace

absl::StatusOr<SupervisedChildren> StartByServer(const SupervisedStart& start) {
  TENON_ASSIGN_OR_RETURN(auto answer, Channel::CreatePair());
  const ForkRequest request = {
      .hold_interrupt = start.hold_interrupt,
      .ignored_signals = start.ignored_signals,
      .own_group = start.own_group,
      .orphan_grace = start.orphan_grace,
      .environment = MergedEnvironment(start.environment),
      .children = static_cast<uint32_t>(start.children.size())};
  const UniqueFd directory(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return PosixError(errno, "open", ".");
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return PosixError(errno, "open", "/dev/null");
  std::vector<int> sent = {answer.second.fd(), directory.get()};
  for (const ChildFds& child : start.children) {
    AddFds(child, null.get(), sent);
  }
  {
    Client& client = the_client.Get();
    const ThreadLock lock(&client.mutex);
    TENON_RETURN_IF_ERROR(Send(client, request, sent));
  }
  answer.second.Release().Reset();
  absl::StatusOr<Message> message =
      answer.first.Receive(Deadline::After(kPatience));
  if (absl::IsResourceExhausted(message.status())) return message.status();
  if (!message.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "the fork server failed to start it: ", message.status().message()));
  }
  return ChildrenOf(*std::move(message), start.children.size());
}

absl::Status StartServer(const std::vector<std::string>& entries) {
  Client& client = the_client.Get();
  const ThreadLock lock(&client.mutex);
  ForgetIfDead(client);
  if (client.server != nullptr) {
    return absl::AlreadyExistsError("this process already has a fork server");
  }
  SetPreload(absl::StrJoin(entries, "\n"));
  return Start(client);
}

void StopServer() {
  Client& client = the_client.Get();
  const ThreadLock lock(&client.mutex);
  if (client.server == nullptr) return;
  ForkRequest stop;
  stop.stop = true;
  client.server->requests.Send(EncodeForkRequest(stop), {}, Deadline::Passed())
      .IgnoreError();
  // A server that hangs while it preloads has no children yet.
  StartedChild& child = client.server->child;
  if (!child.child_exit.WaitForExit(Deadline::After(absl::Seconds(10))).ok()) {
    SignalChild(child, SIGKILL).IgnoreError();
  }
  ReapChild(child, Deadline::Never()).status().IgnoreError();
  client.server.reset();
  SetPreload("");
}

}  // namespace tenon::spawn
