// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of children from Start() to Join(), compared with the minimum that
// the kernel needs: posix_spawn() of this same binary, or fork(), and
// waitpid(), exiting at once; and the time until the failure of one child is
// known and the others have ended. Both are measured in turns, so that
// disturbances of the machine slow both; "ratio" is Tenon's time divided by the
// minimum, "faults" are page faults per child. Also the time from a parent's
// death until no descendant is left.
//
// It has a main() of its own, since a child must reach Init() first.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {
namespace {

constexpr char kExitAtOnce[] = "--exit-at-once";
constexpr char kPause[] = "--pause";
constexpr char kFailWhenTold[] = "--fail-when-told";

absl::Status DoNothing(Child&) { return absl::OkStatus(); }
TENON_SPAWN_ENTRY("do-nothing", DoNothing);

// A benchmark that measures failures must not succeed.
void DieUnless(bool good, const std::string& why) {
  if (good) return;
  std::fprintf(stderr, "process_benchmark: %s\n", why.c_str());
  std::exit(1);
}

template <typename Body>
double SecondsOf(Body&& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

pid_t BareStart() {
  char* const argv[] = {const_cast<char*>("process_benchmark"),
                        const_cast<char*>(kExitAtOnce), nullptr};
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv, environ);
  DieUnless(error == 0, "posix_spawn");
  return pid;
}

// By fork(), exiting at once.
pid_t BareFork() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  DieUnless(pid > 0, "fork");
  return pid;
}

void BareStartAndWait(int children, pid_t (*start)()) {
  std::vector<pid_t> pids;
  for (int i = 0; i < children; ++i) pids.push_back(start());
  for (const pid_t pid : pids) {
    int status = -1;
    DieUnless(waitpid(pid, &status, 0) == pid && status == 0, "waitpid");
  }
}

void StartAndJoin(int children, const std::string& argument,
                  StartMethod method) {
  absl::StatusOr<Processes> processes = Processes::Start(
      children,
      {.entry = "do-nothing", .argument = argument, .method = method});
  DieUnless(processes.ok(), processes.status().ToString());
  const absl::Status how = processes->Join();
  DieUnless(how.ok(), how.ToString());
}

// Touched memory of this process: fork() copies its page tables, for both
// sides.
std::string Ballast(const benchmark::State& state) {
  return std::string(static_cast<size_t>(state.range(2)) << 20, 'x');
}

// Page faults of this process and of all reaped descendants.
double Faults() {
  double faults = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    getrusage(who, &usage);
    faults += static_cast<double>(usage.ru_minflt);
  }
  return faults;
}

// `start` is the kernel's minimum.
void Compare(benchmark::State& state, StartMethod method, pid_t (*start)()) {
  const int children = static_cast<int>(state.range(0));
  const std::string argument(static_cast<size_t>(state.range(1)), 'x');
  double ours = 0;
  double limit = 0;
  double faults = 0;
  double limit_faults = 0;
  for (auto _ : state) {
    const double before = Faults();
    const double seconds =
        SecondsOf([&] { StartAndJoin(children, argument, method); });
    const double between = Faults();
    ours += seconds;
    limit += SecondsOf([&] { BareStartAndWait(children, start); });
    faults += between - before;
    limit_faults += Faults() - between;
    state.SetIterationTime(seconds);
  }
  const double started =
      static_cast<double>(children) * static_cast<double>(state.iterations());
  state.counters["faults"] = faults / started;
  state.counters["limit_faults"] = limit_faults / started;
  state.counters["ratio"] = ours / limit;
  state.counters["limit_us"] =
      1e6 * limit / static_cast<double>(state.iterations());
}

void BM_Spawn_StartJoin(benchmark::State& state) {
  Compare(state, StartMethod::kSpawn, BareStart);
}
BENCHMARK(BM_Spawn_StartJoin)
    ->ArgNames({"children", "argument_bytes"})
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({8, 0})
    ->Args({32, 0})
    ->Args({1, 10 << 20})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

void BM_Fork_StartJoin(benchmark::State& state) {
  const std::string ballast = Ballast(state);
  Compare(state, StartMethod::kFork, BareFork);
}
BENCHMARK(BM_Fork_StartJoin)
    ->ArgNames({"children", "argument_bytes", "parent_mib"})
    ->ArgsProduct({{2, 8, 32}, {0}, {0, 32, 256}})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

void BM_ForkServer_StartJoin(benchmark::State& state) {
  const std::string ballast = Ballast(state);
  Compare(state, StartMethod::kForkServer, BareFork);
  StopForkServer();
}
BENCHMARK(BM_ForkServer_StartJoin)
    ->ArgNames({"children", "argument_bytes", "parent_mib"})
    ->ArgsProduct({{2, 8, 32}, {0}, {0, 32, 256}})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

// ---- From a child's error to its parent, all siblings ended ----

// Worker 0 waits for a byte, reports the time, and fails; the others sleep.
absl::Status FailWhenTold(Child& child) {
  const UniqueFd go = child.TakeFd(0);
  const UniqueFd when = child.TakeFd(1);
  char byte = 0;
  if (child.index() != 0) {
    for (;;) pause();
  }
  if (read(go.get(), &byte, 1) != 1) return absl::OkStatus();
  const int64_t now = MonotonicNs();
  if (write(when.get(), &now, sizeof(now)) < 0) return absl::OkStatus();
  return absl::InternalError("told to");
}
TENON_SPAWN_ENTRY("fail-when-told", FailWhenTold);

struct Pipe {
  UniqueFd out;
  UniqueFd in;
};

Pipe MakePipe() {
  int ends[2];
  DieUnless(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

int64_t TellAndSeeWhen(const Pipe& go, const Pipe& when) {
  int64_t at = 0;
  DieUnless(write(go.in.get(), "x", 1) == 1, "write");
  DieUnless(read(when.out.get(), &at, sizeof(at)) == sizeof(at), "read");
  return at;
}

double OursFromErrorToKnowing(int siblings, StartMethod method) {
  const Pipe go = MakePipe();
  const Pipe when = MakePipe();
  ProcessOptions options = {.entry = "fail-when-told", .method = method};
  options.fds.emplace_back(dup(go.out.get()));
  options.fds.emplace_back(dup(when.in.get()));
  absl::StatusOr<Processes> all =
      Processes::Start(siblings + 1, std::move(options));
  DieUnless(all.ok(), all.status().ToString());
  // Time for all of them to block.
  usleep(50'000);
  const int64_t at = TellAndSeeWhen(go, when);
  DieUnless(absl::IsInternal(all->Join()), "it has not failed");
  return static_cast<double>(MonotonicNs() - at);
}

[[noreturn]] void BareFail(int go, int when) {
  char byte = 0;
  if (read(go, &byte, 1) != 1) _exit(2);
  const int64_t now = MonotonicNs();
  if (write(when, &now, sizeof(now)) < 0) _exit(3);
  _exit(1);
}

// Executes this binary, which does the same.
[[noreturn]] void ExecuteBare(int index, int go, int when) {
  for (const int fd : {go, when}) fcntl(fd, F_SETFD, 0);
  const std::string fds[] = {std::to_string(go), std::to_string(when)};
  execl("/proc/self/exe", "process_benchmark",
        index > 0 ? kPause : kFailWhenTold, fds[0].c_str(), fds[1].c_str(),
        nullptr);
  _exit(127);
}

// The minimum: forked children, one of which exits; kill() and waitpid().
double BareFromErrorToKnowing(int siblings, bool execute) {
  const Pipe go = MakePipe();
  const Pipe when = MakePipe();
  std::vector<pid_t> pids;
  for (int i = 0; i <= siblings; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (execute) ExecuteBare(i, go.out.get(), when.in.get());
      if (i > 0) pause();
      BareFail(go.out.get(), when.in.get());
    }
    pids.push_back(pid);
  }
  usleep(50'000);
  const int64_t at = TellAndSeeWhen(go, when);
  waitpid(pids[0], nullptr, 0);
  for (int i = 1; i <= siblings; ++i)
    kill(pids[static_cast<size_t>(i)], SIGTERM);
  for (int i = 1; i <= siblings; ++i) {
    waitpid(pids[static_cast<size_t>(i)], nullptr, 0);
  }
  return static_cast<double>(MonotonicNs() - at);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// "limit" is of forked children, "exec_limit" of those that execute this
// binary, whose memory takes longer to free.
void MeasureErrorToKnowing(benchmark::State& state, StartMethod method) {
  const int siblings = static_cast<int>(state.range(0));
  std::vector<double> ours;
  std::vector<double> limit;
  std::vector<double> exec_limit;
  for (auto _ : state) {
    ours.push_back(OursFromErrorToKnowing(siblings, method));
    limit.push_back(BareFromErrorToKnowing(siblings, /*execute=*/false));
    exec_limit.push_back(BareFromErrorToKnowing(siblings, /*execute=*/true));
    state.SetIterationTime(ours.back() / 1e9);
  }
  state.counters["median_us"] = Median(ours) / 1e3;
  state.counters["limit_median_us"] = Median(limit) / 1e3;
  state.counters["exec_limit_median_us"] = Median(exec_limit) / 1e3;
}

void BM_Processes_ErrorToKnowing(benchmark::State& state) {
  MeasureErrorToKnowing(state, StartMethod::kSpawn);
}
BENCHMARK(BM_Processes_ErrorToKnowing)
    ->ArgName("siblings")
    ->Arg(8)
    ->Iterations(51)
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

void BM_Processes_ErrorToKnowing_Fork(benchmark::State& state) {
  MeasureErrorToKnowing(state, StartMethod::kFork);
}
BENCHMARK(BM_Processes_ErrorToKnowing_Fork)
    ->ArgName("siblings")
    ->Arg(8)
    ->Iterations(51)
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

// ---- From a parent's death to the end of all its descendants ----

constexpr int kChildren = 4;

// Starts a daemon, and reports its own pid and the daemon's.
absl::Status StayWithDaemon(Child& child) {
  const pid_t daemon = fork();
  if (daemon == 0) {
    setsid();
    for (;;) pause();
  }
  absl::StatusOr<Channel> told =
      Channel::Adopt(child.TakeFd(0), {.allow_sockets = true});
  absl::StatusOr<PidFd> self = PidFd::Open(getpid());
  absl::StatusOr<PidFd> other = PidFd::Open(daemon);
  if (!told.ok() || !self.ok() || !other.ok()) return told.status();
  const int fds[] = {self->fd(), other->fd()};
  told->Send("", fds, Deadline::Never()).IgnoreError();
  for (;;) pause();
}
TENON_SPAWN_ENTRY("stay-with-daemon", StayWithDaemon);

absl::Status HaveFamily(Child& child) {
  ProcessOptions options = {.entry = "stay-with-daemon"};
  options.fds.push_back(child.TakeFd(0));
  const absl::StatusOr<Processes> family =
      Processes::Start(kChildren, std::move(options));
  if (!family.ok()) return family.status();
  for (;;) pause();
}
TENON_SPAWN_ENTRY("have-family", HaveFamily);

// With the default grace period of children, which is part of the time.
void BM_Processes_ParentKilledToAllEnded(benchmark::State& state) {
  std::vector<double> all;
  for (auto _ : state) {
    auto ends = Channel::CreatePair();
    DieUnless(ends.ok(), ends.status().ToString());
    ProcessOptions options = {.entry = "have-family"};
    options.fds.push_back(ends->second.Release());
    absl::StatusOr<Process> parent = Process::Start(std::move(options));
    DieUnless(parent.ok(), parent.status().ToString());
    std::vector<PidFd> family;
    for (int i = 0; i < kChildren; ++i) {
      absl::StatusOr<Message> born = ends->first.Receive(Deadline::Never());
      DieUnless(born.ok() && born->fds.size() == 2, "no family");
      for (UniqueFd& fd : born->fds) {
        family.push_back(PidFd::Adopt(std::move(fd)).value());
      }
    }
    const int64_t killed = MonotonicNs();
    DieUnless(parent->Kill().ok(), "kill");
    for (const PidFd& one : family) {
      DieUnless(one.WaitForEnd(Deadline::Never()).ok(), "wait");
    }
    all.push_back(static_cast<double>(MonotonicNs() - killed));
    state.SetIterationTime(all.back() / 1e9);
  }
  state.counters["median_ms"] = Median(all) / 1e6;
  state.counters["max_ms"] = *std::max_element(all.begin(), all.end()) / 1e6;
}
BENCHMARK(BM_Processes_ParentKilledToAllEnded)
    ->Iterations(7)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace tenon::spawn

int main(int argc, char** argv) {
  if (argc == 2 && absl::string_view(argv[1]) == tenon::spawn::kExitAtOnce) {
    return 0;
  }
  if (argc == 4 && absl::string_view(argv[1]) == tenon::spawn::kPause) {
    for (;;) pause();
  }
  if (argc == 4 && absl::string_view(argv[1]) == tenon::spawn::kFailWhenTold) {
    tenon::spawn::BareFail(std::atoi(argv[2]), std::atoi(argv[3]));
  }
  tenon::spawn::Init(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    std::fprintf(stderr, "no benchmark has run\n");
    return 1;
  }
}
