// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of a future, compared with a handoff written by hand: a mutex, a
// condition variable and a std::optional, shared by both ends. Both run in
// turns in the same loop, so under the same conditions. Counters, each per
// future, chain, collection or round trip:
//   us        time of the future
//   plain_us  time of the plain handoff
//   ratio     the first divided by the second
// The plain chain recurses once per link; that of futures does not.
//
// Chains are timed by the processor time of their one thread, so that other
// processes' work does not count; round trips by the monotonic clock. A second
// thread is alive throughout: with a single one the C++ library omits the
// atomic operations of both.

#include <time.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "benchmark/benchmark.h"
#include "tenon/futures/benchmark_support.h"
#include "tenon/futures/future.h"

namespace tenon::futures {
namespace {

using Seconds = std::chrono::duration<double>;

Seconds Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) +
         std::chrono::nanoseconds(now.tv_nsec);
}

class SecondThread {
 public:
  SecondThread() : thread_([this] { end_.Wait(); }) {}
  ~SecondThread() {
    end_.Set(0);
    thread_.join();
  }

 private:
  Handoff end_;
  std::thread thread_;
};

struct Contest {
  clockid_t clock;
  int count;  // Of measured operations, in each of the two:
  std::function<bool()> future;
  std::function<bool()> plain;
};

void Compare(benchmark::State& state, const Contest& contest) {
  Seconds future_time{0}, plain_time{0};
  for (auto _ : state) {
    const Seconds start = Now(contest.clock);
    if (!contest.future()) return state.SkipWithError("the future failed");
    const Seconds middle = Now(contest.clock);
    if (!contest.plain()) return state.SkipWithError("plain handoff failed");
    const Seconds end = Now(contest.clock);
    state.SetIterationTime((middle - start).count());
    future_time += middle - start;
    plain_time += end - middle;
  }
  const auto us = [&contest](Seconds time) {
    return benchmark::Counter(time.count() * 1e6 / contest.count,
                              benchmark::Counter::kAvgIterations);
  };
  state.counters["us"] = us(future_time);
  state.counters["plain_us"] = us(plain_time);
  state.counters["ratio"] = future_time / plain_time;
}

// Arg: links between the promise and the awaited future.
void BM_Future_CreateSetWait(benchmark::State& state) {
  const int links = static_cast<int>(state.range(0));
  const int count = 1 + 1'000 / (1 + links);  // Some tens of microseconds.
  const SecondThread second_thread;
  const auto repeat = [links, count](int (*chain)(int)) {
    bool ok = true;
    for (int i = 0; i < count; ++i) ok &= chain(links) == links;
    return ok;
  };
  Compare(state, {.clock = CLOCK_THREAD_CPUTIME_ID,
                  .count = count,
                  .future = [&] { return repeat(FutureChain); },
                  .plain = [&] { return repeat(PlainChain); }});
}
BENCHMARK(BM_Future_CreateSetWait)
    ->ArgName("links")
    ->Arg(0)
    ->Arg(1)
    ->Arg(1'000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

void BM_Future_CollectAll(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  const int sum = count * (count - 1) / 2;
  const SecondThread second_thread;
  Compare(state, {.clock = CLOCK_THREAD_CPUTIME_ID,
                  .count = 1,
                  .future = [&] { return FutureCollectAll(count) == sum; },
                  .plain = [&] { return PlainCollectAll(count) == sum; }});
}
// A callback: AddDoneCallback() as the future, Then() as the "plain" one, each
// with a new promise that is set at once.
void BM_Future_AddDoneCallbackAgainstThen(benchmark::State& state) {
  constexpr int kCount = 500;
  const SecondThread second_thread;
  const auto add_done_callback = [] {
    int sum = 0;
    for (int i = 0; i < kCount; ++i) {
      Promise<int> promise;
      promise.future().AddDoneCallback(
          [&sum](const absl::StatusOr<int>& value) {
            sum += value.value_or(0);
          });
      promise.SetValue(1).IgnoreError();
    }
    return sum == kCount;
  };
  const auto then = [] {
    int sum = 0;
    for (int i = 0; i < kCount; ++i) {
      Promise<int> promise;
      const Future<void> next = promise.future().Then(
          [&sum](absl::StatusOr<int> value) { sum += value.value_or(0); });
      promise.SetValue(1).IgnoreError();
    }
    return sum == kCount;
  };
  Compare(state, {.clock = CLOCK_THREAD_CPUTIME_ID,
                  .count = kCount,
                  .future = add_done_callback,
                  .plain = then});
}
BENCHMARK(BM_Future_AddDoneCallbackAgainstThen)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(BM_Future_CollectAll)
    ->ArgName("futures")
    ->Arg(1'000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

struct FutureEnd {
  Promise<int> promise;
  Future<int> future = promise.future();

  void Set(int value) { promise.SetValue(value).IgnoreError(); }
  int Wait() {
    future.Wait().IgnoreError();
    return *future.value();
  }
};

// Passes a value to a second thread and back, `count` times; each time over a
// new pair, as a future serves once. Both threads sleep while they wait.
template <typename End>
bool RoundTrips(int count) {
  struct Pair {
    End there, back;
  };
  const auto pairs = std::make_unique<Pair[]>(count);
  std::thread other([&pairs, count] {
    for (int i = 0; i < count; ++i) {
      pairs[i].back.Set(pairs[i].there.Wait() + 1);
    }
  });
  bool ok = true;
  for (int i = 0; i < count; ++i) {
    pairs[i].there.Set(i);
    ok &= pairs[i].back.Wait() == i + 1;
  }
  other.join();
  return ok;
}

void BM_Future_ThreadRoundTrip(benchmark::State& state) {
  constexpr int kCount = 200;
  Compare(state, {.clock = CLOCK_MONOTONIC,
                  .count = kCount,
                  .future = [] { return RoundTrips<FutureEnd>(kCount); },
                  .plain = [] { return RoundTrips<Handoff>(kCount); }});
}
BENCHMARK(BM_Future_ThreadRoundTrip)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tenon::futures
