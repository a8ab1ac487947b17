// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/fork_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/fork_request.h"
#include "tenon/spawn/handover.h"
#include "tenon/spawn/launch.h"
#include "tenon/spawn/process_options.h"
#include "tenon/spawn/start_child.h"

namespace tenon::spawn {
namespace {

// For the server to take a request, or to say that a child is born: it may be
// preloading.
constexpr absl::Duration kPatience = absl::Minutes(5);

struct RunningServer {
  StartedChild child;
  Channel requests;
};

struct Client {
  std::mutex mutex;
  std::unique_ptr<RunningServer> server;
  std::vector<std::string> preload;
  uint64_t fork_count = ForkCount();
};

// Never destroyed: the server sees by itself that this process ends.
Client& TheClient() {
  static Client& client = *new Client;
  if (client.fork_count != ForkCount()) {
    // A fork's parent's. The fork's has the same to preload.
    static_cast<void>(client.server.release());
    client.fork_count = ForkCount();
  }
  return client;
}

absl::Status Start(Client& client) {
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  const int fd = ends.second.fd();
  ProcessOptions options = {.entry = "tenon.spawn.fork_server",
                            .argument = absl::StrJoin(client.preload, "\n"),
                            // No thread to watch: it watches by itself.
                            .orphan_grace = absl::InfiniteDuration()};
  TENON_ASSIGN_OR_RETURN(StartedChild child,
                         StartChild(options, {&fd, 1}, std::nullopt));
  absl::Status sent = SendRest(child.control, child.pid_fd, {&fd, 1});
  if (!sent.ok()) {
    child.pid_fd.SendSignal(SIGKILL).IgnoreError();
    child.pid_fd.Reap(Deadline::Never()).status().IgnoreError();
    return sent;
  }
  client.server.reset(
      new RunningServer{std::move(child), std::move(ends.first)});
  return absl::OkStatus();
}

// One that has died is reaped and forgotten.
void ForgetIfDead(Client& client) {
  if (client.server == nullptr || !client.server->child.pid_fd.HasEnded()) {
    return;
  }
  client.server->child.pid_fd.Reap(Deadline::Never()).status().IgnoreError();
  client.server.reset();
}

// What a forked child inherits of this process, though it is not its child.
struct Surroundings {
  UniqueFd directory;
  uint8_t streams = 0;
  std::vector<int> fds;
};

absl::StatusOr<Surroundings> Look(const LaunchOptions& options) {
  Surroundings around;
  around.directory = UniqueFd(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!around.directory.valid()) return PosixError(errno, "open", ".");
  const int own[] = {
      STDIN_FILENO, options.stdout_fd >= 0 ? options.stdout_fd : STDOUT_FILENO,
      options.stderr_fd >= 0 ? options.stderr_fd : STDERR_FILENO};
  for (int i = 0; i < 3; ++i) {
    if (fcntl(own[i], F_GETFD) < 0) continue;  // Closed here.
    around.streams = static_cast<uint8_t>(around.streams | (1u << i));
    around.fds.push_back(own[i]);
  }
  return around;
}

absl::Status Send(Client& client, const ForkRequest& request,
                  const std::vector<int>& fds) {
  const std::string bytes = EncodeForkRequest(request);
  for (int tries = 0;; ++tries) {
    ForgetIfDead(client);
    if (client.server == nullptr) {
      TENON_RETURN_IF_ERROR(Start(client));
    }
    absl::Status sent =
        client.server->requests.Send(bytes, fds, Deadline::After(kPatience));
    if (!absl::IsUnavailable(sent) || tries > 0) return sent;
    // It is dying.
    client.server->child.pid_fd.WaitForEnd(Deadline::After(absl::Seconds(10)))
        .IgnoreError();
  }
}

}  // namespace

absl::StatusOr<ForkedByServer> LaunchByServer(int control_fd,
                                              const LaunchOptions& options,
                                              absl::Duration orphan_grace) {
  TENON_ASSIGN_OR_RETURN(auto fate, Channel::CreatePair());
  TENON_ASSIGN_OR_RETURN(const Surroundings around, Look(options));
  ForkRequest request = {.hold_interrupt = options.hold_interrupt,
                         .own_group = options.own_group,
                         .orphan_grace = orphan_grace,
                         .environment = MergedEnvironment(options.environment),
                         .streams = around.streams};
  std::vector<int> fds = {control_fd, fate.second.fd(), around.directory.get()};
  fds.insert(fds.end(), around.fds.begin(), around.fds.end());
  {
    Client& client = TheClient();
    const std::lock_guard<std::mutex> lock(client.mutex);
    TENON_RETURN_IF_ERROR(Send(client, request, fds));
  }
  fate.second.Release().Reset();
  absl::StatusOr<Message> told = fate.first.Receive(Deadline::After(kPatience));
  if (!told.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "the fork server has not started it: ", told.status().message()));
  }
  TENON_ASSIGN_OR_RETURN(const ForkBirth birth, DecodeForkBirth(told->bytes));
  TENON_RETURN_IF_ERROR(birth.status);
  if (told->fds.size() != 1) {
    return absl::DataLossError("the fork server told a birth without a pidfd");
  }
  TENON_ASSIGN_OR_RETURN(PidFd pid_fd, PidFd::Adopt(std::move(told->fds[0])));
  return ForkedByServer{birth.pid, std::move(pid_fd), std::move(fate.first)};
}

absl::Status StartServer(const std::vector<std::string>& preload) {
  Client& client = TheClient();
  const std::lock_guard<std::mutex> lock(client.mutex);
  ForgetIfDead(client);
  if (client.server != nullptr) {
    return absl::AlreadyExistsError("this process has a fork server");
  }
  client.preload = preload;
  return Start(client);
}

void StopServer() {
  Client& client = TheClient();
  const std::lock_guard<std::mutex> lock(client.mutex);
  if (client.server == nullptr) return;
  ForkRequest stop;
  stop.stop = true;
  client.server->requests.Send(EncodeForkRequest(stop), {}, Deadline::Passed())
      .IgnoreError();
  // One that hangs in what it preloads has no children yet.
  const PidFd& process = client.server->child.pid_fd;
  if (!process.WaitForEnd(Deadline::After(absl::Seconds(10))).ok()) {
    process.SendSignal(SIGKILL).IgnoreError();
  }
  process.Reap(Deadline::Never()).status().IgnoreError();
  client.server.reset();
  client.preload.clear();
}

}  // namespace tenon::spawn
