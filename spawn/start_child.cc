// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/start_child.h"

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/child_main.h"
#include "tenon/spawn/child_settings.h"
#include "tenon/spawn/crash_record.h"
#include "tenon/spawn/entry.h"
#include "tenon/spawn/fork_client.h"
#include "tenon/spawn/fork_request.h"
#include "tenon/spawn/handover.h"
#include "tenon/spawn/inherited_setting.h"
#include "tenon/spawn/init.h"
#include "tenon/spawn/launch.h"
#include "tenon/spawn/orphan_watch.h"
#include "tenon/spawn/output.h"
#include "tenon/spawn/process_options.h"
#include "tenon/spawn/start_message.h"

namespace tenon::spawn {
namespace {

// For the fork server to tell of an end that this process has seen itself.
constexpr absl::Duration kServerPatience = absl::Seconds(10);

absl::Status CheckEnvironment(const ProcessOptions& options) {
  for (const auto& [name, value] : options.environment) {
    if (!name.empty() && !absl::StrContains(name, '=') &&
        !absl::StrContains(name, '\0') && !absl::StrContains(value, '\0')) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' cannot be a variable of the environment"));
  }
  return absl::OkStatus();
}

absl::Status CheckMethod(const ProcessOptions& options) {
  if (options.method != StartMethod::kFork || options.fork_with_threads) {
    return absl::OkStatus();
  }
  const int threads = CountThreads();
  if (threads == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "fork() of a process with ", threads,
      " threads: in the child there would be one, and what the others have "
      "locked would stay locked for ever; use StartMethod::kSpawn, or "
      "fork_with_threads if you know that no lock can matter"));
}

absl::Status CheckOptions(const ProcessOptions& options,
                          absl::Span<const int> fds) {
  if (!IsInitialized()) {
    return absl::FailedPreconditionError(
        "this program has not called tenon::spawn::Init(); add "
        "`tenon::spawn::Init(argc, argv);` as the first line of main()");
  }
  if (FindEntry(options.entry) == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "there is no such TENON_SPAWN_ENTRY in this program; there are: ",
        absl::StrJoin(EntryNames(), ", ")));
  }
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("fds[", i, "] of ", fds.size(), " is empty"));
  }
  TENON_RETURN_IF_ERROR(CheckEnvironment(options));
  TENON_RETURN_IF_ERROR(CheckMethod(options));
  return CheckChildSettings(options.settings);
}

// Gets a pidfd of a child that has just been started; if that fails, nothing is
// left of the child.
absl::StatusOr<PidFd> OpenChild(pid_t pid) {
  absl::StatusOr<PidFd> pid_fd = PidFd::Open(pid);
  if (pid_fd.ok()) return pid_fd;
  if (absl::IsNotFound(pid_fd.status())) {
    // Its zombie would have been found.
    return absl::UnavailableError(
        "it died before it reached Init(), and somebody else reaped it "
        "(SIGCHLD is ignored?)");
  }
  kill(pid, SIGKILL);
  RetryOnEintr([&] { return waitpid(pid, nullptr, 0); });
  return pid_fd;
}

// With those of this process; the farthest gives way, but not the very first.
std::vector<int> EldersOfChild() {
  std::vector<int> elders = Elders();
  while (elders.size() > kMaxElders) elders.erase(elders.end() - 2);
  return elders;
}

// What becomes of a launch.
struct Launched {
  pid_t pid;
  PidFd pid_fd;
  std::optional<Channel> fate;
};

absl::StatusOr<Launched> LaunchChild(const ProcessOptions& options,
                                     int control_fd, const Output& output) {
  const LaunchOptions launch = {.hold_interrupt = options.ignore_interrupt,
                                .own_group = options.own_group,
                                .stdout_fd = output.stdout_fd(),
                                .stderr_fd = output.stderr_fd(),
                                .environment = options.environment};
  if (options.method == StartMethod::kForkServer) {
    TENON_ASSIGN_OR_RETURN(
        ForkedByServer forked,
        LaunchByServer(control_fd, launch, options.orphan_grace));
    return Launched{forked.pid, std::move(forked.pid_fd),
                    std::move(forked.fate)};
  }
  TENON_ASSIGN_OR_RETURN(const pid_t pid, options.method == StartMethod::kFork
                                              ? LaunchByFork(control_fd, launch,
                                                             RunForkedChildMain)
                                              : Launch(control_fd, launch));
  TENON_ASSIGN_OR_RETURN(PidFd pid_fd, OpenChild(pid));
  return Launched{pid, std::move(pid_fd), std::nullopt};
}

StartMessage MessageFor(const ProcessOptions& options) {
  return {.entry = options.entry,
          .index = options.index,
          .ignore_interrupt = options.ignore_interrupt,
          .orphan_grace = options.orphan_grace,
          .sharing_strategy = GetSharingStrategy(),
          .settings = options.settings,
          .inherited = SaveInheritedSettings()};
}

}  // namespace

absl::StatusOr<StartedChild> StartChild(const ProcessOptions& options,
                                        absl::Span<const int> fds,
                                        std::optional<int64_t> memory_kills) {
  TENON_RETURN_IF_ERROR(CheckOptions(options, fds));
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Output> output,
                         Output::Create(options));
  UniqueFd crash_record;
  if (options.crash_stack) {
    TENON_ASSIGN_OR_RETURN(crash_record, CreateCrashRecord());
  }
  TENON_RETURN_IF_ERROR(SendFirst(ends.first, MessageFor(options),
                                  options.argument, fds,
                                  {EldersOfChild(), crash_record.get()}));
  const int64_t started_ns = MonotonicNs();
  TENON_ASSIGN_OR_RETURN(Launched launched,
                         LaunchChild(options, ends.second.fd(), *output));
  // Only the child has its end now, so that its death closes it.
  ends.second.Release().Reset();
  StartedChild child = {.pid = launched.pid,
                        .pid_fd = std::move(launched.pid_fd),
                        .control = std::move(ends.first),
                        .fate = std::move(launched.fate),
                        .output = std::move(output),
                        .crash_record = std::move(crash_record),
                        .started_ns = started_ns,
                        .memory_kills = memory_kills};
  const absl::Status begun = child.output->Begin();
  if (!begun.ok()) {
    child.pid_fd.SendSignal(SIGKILL).IgnoreError();
    ReapChild(child, Deadline::Never()).status().IgnoreError();
    return begun;
  }
  return child;
}

absl::StatusOr<ExitStatus> ReapChild(StartedChild& child, Deadline deadline) {
  if (!child.fate) return child.pid_fd.Reap(deadline);
  TENON_RETURN_IF_ERROR(child.pid_fd.WaitForEnd(deadline));
  // It has ended; the server, if it lives, is about to say how.
  absl::StatusOr<Message> told =
      child.fate->Receive(Deadline::After(kServerPatience));
  if (!told.ok()) {
    return absl::UnavailableError(
        absl::StrCat("its fork server did not say: ", told.status().message()));
  }
  return DecodeForkEnd(told->bytes);
}

int64_t MonotonicNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace tenon::spawn
