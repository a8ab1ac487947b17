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
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "tenon/futures/collect.h"
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

class Handoff {
 public:
  void Set(int value) {
    std::function<void(int)> then;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      value_ = value;
      then = std::move(then_);
    }
    is_set_.notify_one();
    if (then) then(value);
  }
  void Then(std::function<void(int)> then) {
    const std::lock_guard<std::mutex> lock(mutex_);
    then_ = std::move(then);
  }
  int Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    is_set_.wait(lock, [this] { return value_.has_value(); });
    return *value_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable is_set_;
  std::optional<int> value_;
  std::function<void(int)> then_;
};

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

// A chain of `links`, created, set and waited for; returns the final value.
int FutureChain(int links) {
  Promise<int> promise;
  Future<int> last = promise.future();
  for (int i = 0; i < links; ++i) {
    last = std::move(last).Then(
        [](const absl::StatusOr<int>& value) { return *value + 1; });
  }
  promise.SetValue(0).IgnoreError();
  last.Wait().IgnoreError();
  return *last.value();
}

int PlainChain(int links) {
  const auto first = std::make_shared<Handoff>();
  std::shared_ptr<Handoff> last = first;
  for (int i = 0; i < links; ++i) {
    auto next = std::make_shared<Handoff>();
    last->Then([next](int value) { next->Set(value + 1); });
    last = std::move(next);
  }
  first->Set(0);
  return last->Wait();
}

// `count` futures, collected, set and waited for; returns the sum.
int FutureCollectAll(int count) {
  std::vector<Promise<int>> promises(count);
  std::vector<Future<int>> futures;
  futures.reserve(count);
  for (Promise<int>& promise : promises) futures.push_back(promise.future());
  Future<std::vector<int>> all = CollectAll(std::move(futures));
  for (int i = 0; i < count; ++i) promises[i].SetValue(i).IgnoreError();
  all.Wait().IgnoreError();
  int sum = 0;
  for (const int value : *all.value()) sum += value;
  return sum;
}

struct PlainAll {
  explicit PlainAll(int count) : left(count), values(count) {}

  void Set(int i, int value) {
    bool is_last;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      values[i] = value;
      is_last = --left == 0;
    }
    if (is_last) end.Set(0);
  }

  std::mutex mutex;
  int left;
  std::vector<int> values;
  Handoff end;
};

int PlainCollectAll(int count) {
  std::vector<std::shared_ptr<Handoff>> handoffs;
  handoffs.reserve(count);
  for (int i = 0; i < count; ++i)
    handoffs.push_back(std::make_shared<Handoff>());
  const auto all = std::make_shared<PlainAll>(count);
  for (int i = 0; i < count; ++i) {
    handoffs[i]->Then([all, i](int value) { all->Set(i, value); });
  }
  for (int i = 0; i < count; ++i) handoffs[i]->Set(i);
  all->end.Wait();
  int sum = 0;
  for (const int value : all->values) sum += value;
  return sum;
}

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
