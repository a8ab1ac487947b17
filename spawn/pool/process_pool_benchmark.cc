// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of a pool from Submit() to the result, compared with the minimum: a
// byte there and back over a socketpair, between two processes that sleep in
// between. Both are measured in turns; "ratio" is Tenon's time divided by that.
//
// A wake costs ten times as much on another core as on the same one, and the
// scheduler places processes as it likes. So the placement is fixed: with
// cores:2 this process is on one core, and the worker and the echo are on
// another; with cores:1 all are on the same.
//
// It has a main() of its own, since a child must reach Init() first.

#include <sched.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "tenon/futures/future.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/process_pool.h"

namespace tenon::spawn {
namespace {

int64_t Same(int64_t x) { return x; }
TENON_POOL_FUNCTION(Same);

// A benchmark that measures failures must not succeed.
void DieUnless(bool good, const std::string& why) {
  if (good) return;
  std::fprintf(stderr, "process_pool_benchmark: %s\n", why.c_str());
  std::exit(1);
}

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The first two processors that this process may use.
std::vector<int> TwoProcessors() {
  cpu_set_t all;
  DieUnless(sched_getaffinity(0, sizeof(all), &all) == 0, "sched_getaffinity");
  std::vector<int> two;
  for (int cpu = 0; cpu < CPU_SETSIZE && two.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &all)) two.push_back(cpu);
  }
  return two;
}

// Pins this process during its lifetime, and the processes that it wakes.
class Placement {
 public:
  explicit Placement(int64_t cores) {
    const std::vector<int> two = TwoProcessors();
    sched_getaffinity(0, sizeof(before_), &before_);
    has_room_ = two.size() >= static_cast<size_t>(cores);
    others_ = two[has_room_ ? static_cast<size_t>(cores) - 1 : 0];
    PinTo(two[0]);
  }
  ~Placement() { sched_setaffinity(0, sizeof(before_), &before_); }

  bool has_room() const { return has_room_; }
  int others() const { return others_; }

  static void PinTo(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    DieUnless(sched_setaffinity(0, sizeof(one), &one) == 0,
              "sched_setaffinity");
  }

 private:
  cpu_set_t before_;
  bool has_room_;
  int others_;
};

// A forked process that echoes each byte until the socket is closed.
class Echo {
 public:
  explicit Echo(int cpu) {
    int ends[2];
    DieUnless(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
    pid_ = fork();
    if (pid_ == 0) {
      if (cpu >= 0) Placement::PinTo(cpu);
      close(ends[0]);
      char byte = 0;
      while (read(ends[1], &byte, 1) == 1) {
        if (write(ends[1], &byte, 1) != 1) break;
      }
      _exit(0);
    }
    close(ends[1]);
    fd_ = ends[0];
  }
  ~Echo() {
    close(fd_);
    waitpid(pid_, nullptr, 0);
  }
  void RoundTrip() const {
    char byte = 'x';
    DieUnless(write(fd_, &byte, 1) == 1 && read(fd_, &byte, 1) == 1, "echo");
  }

 private:
  pid_t pid_;
  int fd_;
};

ProcessPool MakePool(int workers, const std::vector<int>& cpus = {}) {
  absl::StatusOr<ProcessPool> pool = ProcessPool::Create(
      {.workers = workers, .process = {.settings = {.cpus = cpus}}});
  DieUnless(pool.ok(), pool.status().ToString());
  return *std::move(pool);
}

// `round` is one call of the pool; returns its seconds. The echo runs on
// `echo_cpu`; -1: anywhere.
template <typename Round>
void Compare(benchmark::State& state, int echo_cpu, Round round) {
  const Echo echo(echo_cpu);
  round();
  double ours = 0;
  double limit = 0;
  for (auto _ : state) {
    const double seconds = round();
    ours += seconds;
    state.SetIterationTime(seconds);
    const double begin = Now();
    echo.RoundTrip();
    limit += Now() - begin;
  }
  state.counters["ratio"] = ours / limit;
  state.counters["limit_us"] =
      1e6 * limit / static_cast<double>(state.iterations());
}

// Until the thread that submitted has the result: it receives the worker's
// answer itself, so two wakes, like the minimum.
void BM_Pool_SubmitToWait(benchmark::State& state) {
  const Placement placement(state.range(0));
  if (!placement.has_room()) state.SetLabel("there is one core only");
  ProcessPool pool = MakePool(1, {placement.others()});
  Compare(state, placement.others(), [&] {
    const double begin = Now();
    futures::Future<int64_t> future = pool.Submit(Same, 7);
    DieUnless(future.Wait().ok(), "wait");
    const double end = Now();
    DieUnless(*std::move(future).value() == 7, "result");
    return end - begin;
  });
}
BENCHMARK(BM_Pool_SubmitToWait)
    ->ArgName("cores")
    ->Arg(2)
    ->Arg(1)
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

// Until a callback of the future, on the pool's thread, has the result: two
// wakes.
void BM_Pool_SubmitToCallback(benchmark::State& state) {
  const Placement placement(state.range(0));
  if (!placement.has_room()) state.SetLabel("there is one core only");
  ProcessPool pool = MakePool(1, {placement.others()});
  Compare(state, placement.others(), [&] {
    const double begin = Now();
    double end = 0;
    // Not by waiting for the future itself, which would help the pool.
    futures::Promise<void> called;
    futures::Future<int64_t> future = pool.Submit(Same, 7);
    future.AddDoneCallback([&](const absl::StatusOr<int64_t>&) {
      end = Now();
      called.TrySetValue();
    });
    DieUnless(called.future().Wait().ok(), "wait");
    return end - begin;
  });
}
BENCHMARK(BM_Pool_SubmitToCallback)
    ->ArgName("cores")
    ->Arg(2)
    ->Arg(1)
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

// Until a thread that waits for a future made by Then() has the result.
void BM_Pool_SubmitThenWait(benchmark::State& state) {
  const Placement placement(state.range(0));
  if (!placement.has_room()) state.SetLabel("there is one core only");
  ProcessPool pool = MakePool(1, {placement.others()});
  Compare(state, placement.others(), [&] {
    const double begin = Now();
    futures::Future<int64_t> future =
        pool.Submit(Same, 7).Then([](absl::StatusOr<int64_t> x) { return x; });
    DieUnless(future.Wait().ok(), "wait");
    return Now() - begin;
  });
}
BENCHMARK(BM_Pool_SubmitThenWait)
    ->ArgName("cores")
    ->Arg(2)
    ->Arg(1)
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

void BM_Pool_Map(benchmark::State& state) {
  ProcessPool pool = MakePool(2);
  std::vector<int64_t> inputs(10'000);
  std::iota(inputs.begin(), inputs.end(), 0);
  for (auto _ : state) {
    auto future = pool.Map(Same, inputs,
                           {.chunk_size = static_cast<size_t>(state.range(0))});
    DieUnless(future.Wait().ok() && future.value().ok(), "map");
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(inputs.size()));
}
BENCHMARK(BM_Pool_Map)
    ->ArgName("chunk")
    ->Arg(1)
    ->Arg(100)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// A tensor of 1 MiB there and back: in a block of an arena, or in a segment of
// its own; a new one each time.
Tensor GiveBack(Tensor tensor) { return tensor; }
TENON_POOL_FUNCTION(GiveBack);

template <typename Make>
void TimeTensors(benchmark::State& state, const Make& make) {
  ProcessPool pool = MakePool(1);
  Compare(state, -1, [&] {
    const double begin = Now();
    absl::StatusOr<Tensor> tensor = make();
    DieUnless(tensor.ok(), "tensor");
    auto future = pool.Submit(GiveBack, *std::move(tensor));
    DieUnless(future.Wait().ok() && future.value().ok(), "wait");
    return Now() - begin;
  });
}
constexpr int64_t kFloats = 1 << 18;

void BM_Pool_TensorInABlock(benchmark::State& state) {
  const auto arena = Arena::Create().value();
  TimeTensors(state, [&] {
    return CreateTensor(*arena, kDtypeOf<float>, {kFloats}, Deadline::Passed());
  });
}
BENCHMARK(BM_Pool_TensorInABlock)
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

void BM_Pool_TensorInASegment(benchmark::State& state) {
  TimeTensors(state,
              [] { return Tensor::CreateShared(kDtypeOf<float>, {kFloats}); });
}
BENCHMARK(BM_Pool_TensorInASegment)
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

}  // namespace
}  // namespace tenon::spawn

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    std::fprintf(stderr, "no benchmark has run\n");
    return 1;
  }
}
