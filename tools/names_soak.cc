// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A daemon of names that serves clients that come and go, each with its named
// segments; half of them are killed. Between them come malformed messages and
// connections that stay silent.
//
//   bazel run -c opt //tools:names_soak     # 20,000 clients, 1,000,000 segments
//   bazel run -c opt //tools:names_soak -- --clients=500 --segments=10000
//
// In a /dev/shm of its own. Descriptors, mappings and memory of the daemon are
// checked after each tenth of the clients, and in the end no name is left.
// Prints figures. Exits 1 with the reason; 3 on a hang.

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_message.h"
#include "tenon/tools/soak.h"

ABSL_FLAG(uint64_t, clients, 20'000, "processes that attach");
ABSL_FLAG(uint64_t, segments, 1'000'000, "that all of them create");
ABSL_FLAG(uint64_t, at_once, 4, "clients that run at a time");

namespace tenon {
namespace {

Deadline Patience() { return Deadline::After(absl::Seconds(60)); }

absl::StatusOr<Segment> CreateNamed() {
  return Segment::CreateSharedWritable(
      4096, {.strategy = SharingStrategy::kFileSystem});
}

// The daemon may be starting.
absl::StatusOr<ManagerClient> Attach(const std::string& path) {
  const Deadline deadline = Patience();
  for (;;) {
    auto client = ManagerClient::Attach({.path = path}, deadline);
    if (!absl::IsUnavailable(client.status()) || deadline.has_passed()) {
      return client;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
}

// Creates segments, keeps and releases every tenth name. Its last ten are left
// if it is killed.
absl::Status ActAsClient(const std::string& path, uint64_t segments) {
  TENON_ASSIGN_OR_RETURN(ManagerClient client, Attach(path));
  std::vector<Segment> held;
  for (uint64_t i = 0; i < segments; ++i) {
    TENON_ASSIGN_OR_RETURN(Segment segment, CreateNamed());
    if (i % 10 == 0) {
      TENON_RETURN_IF_ERROR(client.KeepName(segment.name(), Patience()));
      TENON_RETURN_IF_ERROR(client.ReleaseName(segment.name(), Patience()));
    }
    if (held.size() == 10) held.erase(held.begin());
    held.push_back(std::move(segment));
  }
  return absl::OkStatus();
}

[[noreturn]] void RunClient(const std::string& path, uint64_t number,
                            uint64_t segments) {
  const auto act = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(ManagerClient client, Attach(path));
    std::vector<Segment> left;
    for (int i = 0; i < 3; ++i) {
      TENON_ASSIGN_OR_RETURN(Segment segment, CreateNamed());
      left.push_back(std::move(segment));
    }
    TENON_RETURN_IF_ERROR(ActAsClient(path, segments > 3 ? segments - 3 : 0));
    if (number % 2 == 0) raise(SIGKILL);
    return absl::OkStatus();
  };
  const absl::Status status = act();
  if (!status.ok()) std::cerr << status << std::endl;
  _exit(status.ok() ? 0 : 1);
}

// A malformed message, and a connection that says nothing and is closed.
absl::Status BeHostile(const std::string& path, uint64_t number) {
  TENON_ASSIGN_OR_RETURN(Channel channel, Connect(path, Patience()));
  const std::string noise(1 + number % 900, static_cast<char>(number));
  const std::string attach = EncodeManagerRequest({});
  TENON_RETURN_IF_ERROR(channel.Send(attach + noise, {}, Patience()));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd silent(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  connect(silent.get(), reinterpret_cast<const sockaddr*>(&address),
          sizeof(address));
  return absl::OkStatus();
}

class Soak {
 public:
  absl::Status Run() {
    char folder[] = "/tmp/tenon_names_soak_XXXXXX";
    if (!EnterOwnMountNamespace() || !MountTmpfs("/dev/shm", "size=256m") ||
        mkdtemp(folder) == nullptr) {
      return absl::FailedPreconditionError("no /dev/shm of its own");
    }
    path_ = absl::StrCat(folder, "/socket");
    daemon_ = fork();
    if (daemon_ == 0) {
      const auto manager =
          Manager::Create(path_, {.idle_exit = absl::Hours(24)});
      _exit(manager.ok() && (*manager)->Run(-1).ok() ? 0 : 1);
    }
    const absl::Status status = Serve();
    kill(daemon_, SIGKILL);
    waitpid(daemon_, nullptr, 0);
    unlink(path_.c_str());
    rmdir(folder);
    return status;
  }

 private:
  absl::Status Serve() {
    const uint64_t clients = absl::GetFlag(FLAGS_clients);
    const uint64_t each = absl::GetFlag(FLAGS_segments) / clients;
    const uint64_t tenth = std::max<uint64_t>(clients / 10, 1);
    std::optional<Holdings> before;
    TENON_RETURN_IF_ERROR(Attach(path_).status());  // It listens.
    const absl::Time start = absl::Now();
    for (uint64_t number = 1; number <= clients; ++number) {
      FeedWatchdog(300, "serving clients");
      if (running_ == absl::GetFlag(FLAGS_at_once)) {
        TENON_RETURN_IF_ERROR(ReapOne());
      }
      if (fork() == 0) RunClient(path_, number, each);
      ++running_;
      TENON_RETURN_IF_ERROR(BeHostile(path_, number));
      if (number % tenth != 0) continue;
      while (running_ > 0) TENON_RETURN_IF_ERROR(ReapOne());
      TENON_RETURN_IF_ERROR(AwaitNoNames());
      const Holdings now = TakeHoldings(daemon_);
      if (!before) before = now;
      std::cout << number << " clients, " << absl::Now() - start
                << ": the daemon has " << now.ToString() << std::endl;
      TENON_RETURN_IF_ERROR(CheckFlat("the daemon", *before, now));
    }
    TENON_ASSIGN_OR_RETURN(ManagerClient client, Attach(path_));
    TENON_ASSIGN_OR_RETURN(const ManagerStats stats,
                           client.QueryStats(Patience()));
    std::cout << stats.attached << " attached, " << stats.malformed
              << " malformed messages, " << stats.sweeps << " sweeps, "
              << stats.removed_names << " names removed" << std::endl;
    return absl::OkStatus();
  }

  absl::Status ReapOne() {
    int status = 0;
    if (waitpid(-1, &status, 0) == daemon_) {
      return absl::InternalError("the daemon has ended");
    }
    --running_;
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
      return absl::OkStatus();
    }
    return absl::InternalError("a client has failed");
  }

  // The daemon has removed all, and closed what was silent.
  absl::Status AwaitNoNames() {
    const Deadline deadline = Patience();
    for (;;) {
      TENON_ASSIGN_OR_RETURN(const auto names, ListNamedSegments());
      TENON_ASSIGN_OR_RETURN(ManagerClient client, Attach(path_));
      TENON_ASSIGN_OR_RETURN(const ManagerStats stats,
                             client.QueryStats(deadline));
      if (names.empty() && stats.clients == 1 && stats.kept_names == 0) break;
      if (deadline.has_passed()) {
        return absl::InternalError(absl::StrCat(
            names.size(), " names and ", stats.clients, " clients are left"));
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
    // The client above has gone.
    absl::SleepFor(absl::Milliseconds(100));
    return absl::OkStatus();
  }

  std::string path_;
  pid_t daemon_ = -1;
  uint64_t running_ = 0;
};

int Main() {
  const absl::Status status = Soak().Run();
  if (status.ok()) return 0;
  std::cerr << status << std::endl;
  return 1;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return tenon::Main();
}
