// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a child costs from Start() to Join(), beside what the kernel asks for at
// least: posix_spawn() and waitpid() of this same binary, leaving main() at
// once. Both are measured in turns, so that whatever slows the machine down
// slows both; "ratio" is ours through the limit's.
//
// It has a main() of its own, since a child has to get to Init() first.

#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "tenon/shm/deadline.h"
#include "tenon/spawn/entry.h"
#include "tenon/spawn/init.h"
#include "tenon/spawn/process.h"

namespace tenon::spawn {
namespace {

constexpr char kExitAtOnce[] = "--exit-at-once";

absl::Status DoNothing(Child&) { return absl::OkStatus(); }
TENON_SPAWN_ENTRY("do-nothing", DoNothing);

// A benchmark that measures failures must not look healthy.
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

void BareStartAndWait(int children) {
  std::vector<pid_t> pids;
  for (int i = 0; i < children; ++i) pids.push_back(BareStart());
  for (const pid_t pid : pids) {
    int status = -1;
    DieUnless(waitpid(pid, &status, 0) == pid && status == 0, "waitpid");
  }
}

void StartAndJoin(int children, const std::string& argument) {
  std::vector<Process> processes;
  for (int i = 0; i < children; ++i) {
    absl::StatusOr<Process> process = Process::Start(
        {.entry = "do-nothing", .index = i, .argument = argument});
    DieUnless(process.ok(), process.status().ToString());
    processes.push_back(*std::move(process));
  }
  for (Process& process : processes) {
    const absl::Status how = process.Join(Deadline::Never());
    DieUnless(how.ok(), how.ToString());
  }
}

void BM_Process_StartJoin(benchmark::State& state) {
  const int children = static_cast<int>(state.range(0));
  const std::string argument(static_cast<size_t>(state.range(1)), 'x');
  double ours = 0;
  double limit = 0;
  for (auto _ : state) {
    const double seconds = SecondsOf([&] { StartAndJoin(children, argument); });
    ours += seconds;
    limit += SecondsOf([&] { BareStartAndWait(children); });
    state.SetIterationTime(seconds);
  }
  state.counters["ratio"] = ours / limit;
  state.counters["limit_us"] =
      1e6 * limit / static_cast<double>(state.iterations());
}
BENCHMARK(BM_Process_StartJoin)
    ->ArgNames({"children", "argument_bytes"})
    ->Args({1, 0})
    ->Args({8, 0})
    ->Args({32, 0})
    ->Args({1, 10 << 20})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

}  // namespace
}  // namespace tenon::spawn

int main(int argc, char** argv) {
  if (argc == 2 && absl::string_view(argv[1]) == tenon::spawn::kExitAtOnce) {
    return 0;
  }
  tenon::spawn::Init(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    std::fprintf(stderr, "no benchmark has run\n");
    return 1;
  }
}
