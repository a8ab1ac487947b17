// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/start_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/fork_hazard.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/read_file.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/child/child_main.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/handover.h"
#include "tenon/spawn/child/start_message.h"
#include "tenon/spawn/child/started_child.h"
#include "tenon/spawn/report/crash_record.h"
#include "tenon/spawn/report/output.h"
#include "tenon/spawn/settings/child_settings.h"
#include "tenon/spawn/settings/inherited_setting.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/supervisor/ancestors.h"
#include "tenon/spawn/supervisor/program.h"
#include "tenon/spawn/supervisor/supervisor.h"

namespace tenon::spawn {
namespace {

absl::Status CheckEnvironment(const ProcessOptions& options) {
  for (const auto& [name, value] : options.environment) {
    if (!name.empty() && !absl::StrContains(name, '=') &&
        !absl::StrContains(name, '\0') && !absl::StrContains(value, '\0')) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("environment variable '", name,
                     "' is malformed: empty name, '=' in it, or a null byte"));
  }
  return absl::OkStatus();
}

// How long a fork waits for threads of this library that are about to end:
// threads that close descriptors received from peers (received_fd.h).
constexpr absl::Duration kClosersPatience = absl::Seconds(10);
constexpr absl::Duration kThreadEndPatience = absl::Milliseconds(20);

int CountThreadsThatStay() {
  const Deadline patience = Deadline::After(
      CountUnclosed() > 0 ? kClosersPatience : kThreadEndPatience);
  int threads = CountThreads();
  while (threads != 1 && !patience.has_passed()) {
    PollUntil({}, Deadline::After(absl::Milliseconds(1)))
        .status()
        .IgnoreError();
    threads = CountThreads();
  }
  return threads;
}

// Whether this process is a child whose program has not called Init().
bool IsChildWithoutInit() {
  if (IsProgramRemembered()) return false;
  constexpr absl::string_view kEndOfWord("\0", 1);
  const absl::StatusOr<std::string> words = ReadFile("/proc/self/cmdline");
  return words.ok() &&
         absl::EndsWith(*words,
                        absl::StrCat(kEndOfWord, kChildFlag, kEndOfWord));
}

absl::Status CheckProgram(const ProcessOptions& options) {
  if (!options.program.empty()) {
    if (IsChildWithoutInit()) {
      return absl::FailedPreconditionError(
          "this process is a child itself, whose program has not called "
          "tenon::spawn::Init(): it would start children without end; call it "
          "as the first line of main()");
    }
    if (options.method == StartMethod::kSpawn) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "program '", options.program, "' cannot be started by StartMethod '",
        StartMethodName(options.method), "'; use kSpawn"));
  }
  if (!IsProgramRemembered()) {
    return absl::FailedPreconditionError(
        "this program has not called tenon::spawn::Init(); add "
        "`tenon::spawn::Init(argc, argv);` as the first line of main()");
  }
  if (FindEntry(options.entry) == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no such TENON_SPAWN_ENTRY in this program; registered: ",
                     absl::StrJoin(EntryNames(), ", ")));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ProcessOptions& options,
                          absl::Span<const int> fds) {
  TENON_RETURN_IF_ERROR(CheckProgram(options));
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("fds[", i, "] of ", fds.size(), " is empty"));
  }
  TENON_RETURN_IF_ERROR(CheckEnvironment(options));
  return CheckChildSettings(options.settings);
}

StartMessage MessageFor(const ProcessOptions& options) {
  return {.entry = options.entry,
          .index = options.index,
          .ignore_interrupt = options.ignore_interrupt,
          .sharing_strategy = GetSharingStrategy(),
          .settings = options.settings,
          .inherited = SaveInheritedSettings()};
}

// The pidfds of the ancestors of a child of this process, the nearest first,
// without this process; at the limit the farthest is dropped, but never the
// root.
std::vector<int> AncestorsOfChild() {
  std::vector<int> ancestors = Ancestors();
  while (ancestors.size() > kMaxAncestors) ancestors.erase(ancestors.end() - 2);
  return ancestors;
}

SupervisedStart StartOf(const ProcessOptions& options,
                        absl::Span<const ChildFds> fds, int self) {
  const bool forks = options.method == StartMethod::kFork;
  std::vector<int> ancestors = AncestorsOfChild();
  ancestors.push_back(self);
  return {.children = fds,
          .program = options.program,
          .run = forks ? RunForkedChildMain : nullptr,
          .ignored_signals =
              options.method == StartMethod::kSpawn ? 0 : IgnoredSignals(),
          .hold_interrupt = options.ignore_interrupt,
          .ancestors = std::move(ancestors),
          .orphan_grace = options.orphan_grace,
          .own_group = options.own_group,
          .environment = options.environment};
}

void KillAndReap(std::vector<StartedChild>& children) {
  for (const StartedChild& child : children) {
    SignalChild(child, SIGKILL).IgnoreError();
  }
  for (StartedChild& child : children) {
    ReapChild(child, Deadline::Never()).status().IgnoreError();
  }
}

// Closes this process's duplicates of the children's descriptors, and begins to
// copy their output. On an error no child is left.
absl::StatusOr<std::vector<StartedChild>> FinishStart(
    SupervisedChildren supervised, std::vector<PreparedChild> prepared,
    std::optional<int64_t> memory_kills) {
  const int64_t started_ns = MonotonicNs();
  std::vector<StartedChild> started;
  absl::Status begun;
  for (size_t i = 0; i < prepared.size(); ++i) {
    PreparedChild& one = prepared[i];
    SupervisedChild& child = supervised.children[i];
    // From now on only the child has its end, so its death closes it.
    one.childs_end.Release().Reset();
    begun.Update(one.output->Begin());
    started.push_back({.pid = child.pid,
                       .pid_fd = std::move(child.pid_fd),
                       .control = std::move(one.control),
                       .child_exit = std::move(child.child_exit),
                       .supervisor = supervised.supervisor,
                       .output = std::move(one.output),
                       .crash_record = std::move(one.crash_record),
                       .started_ns = started_ns,
                       .memory_kills = memory_kills});
  }
  if (begun.ok()) return started;
  supervised.supervisor.reset();
  KillAndReap(started);
  return begun;
}

}  // namespace

absl::Status CheckMethod(const ProcessOptions& options) {
  if (options.method != StartMethod::kFork) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(CheckNoForkHazard());
  if (options.fork_with_threads) return absl::OkStatus();
  const int threads = CountThreadsThatStay();
  if (threads == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "fork() of a process with ", threads,
      " threads: the child would have only one, and locks of the others would "
      "stay locked forever; use StartMethod::kSpawn, or set "
      "fork_with_threads if no such lock is used"));
}

absl::StatusOr<PreparedChild> PrepareChild(const ProcessOptions& options,
                                           const SharedArgument& argument,
                                           absl::Span<const int> fds,
                                           absl::Duration patience) {
  TENON_RETURN_IF_ERROR(CheckOptions(options, fds));
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Output> output,
                         Output::Create(options));
  UniqueFd crash_record;
  if (options.crash_stack) {
    TENON_ASSIGN_OR_RETURN(crash_record, CreateCrashRecord());
  }
  TENON_RETURN_IF_ERROR(SendFirst(ends.first, MessageFor(options), argument,
                                  fds, {AncestorsOfChild(), crash_record.get()},
                                  patience));
  return PreparedChild{std::move(ends.first), std::move(ends.second),
                       std::move(output), std::move(crash_record)};
}

absl::StatusOr<std::vector<StartedChild>> StartPrepared(
    const ProcessOptions& options, std::vector<PreparedChild> children,
    std::optional<int64_t> memory_kills, StartFunction start) {
  UniqueFd null;
  if (!options.inherit_stdin) {
    null = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return PosixError(errno, "open", "/dev/null");
  }
  std::vector<ChildFds> fds;
  for (const PreparedChild& child : children) {
    fds.push_back({.control = child.childs_end.fd(),
                   .standard_input = null.get(),
                   .standard_output = child.output->stdout_fd(),
                   .standard_error = child.output->stderr_fd()});
  }
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  TENON_ASSIGN_OR_RETURN(SupervisedChildren started,
                         start(StartOf(options, fds, self.fd())));
  return FinishStart(std::move(started), std::move(children), memory_kills);
}

}  // namespace tenon::spawn
