// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Support for the benchmarks of futures: the measured works, by futures and by
// hand: a mutex, a condition variable and a std::optional, shared by both ends.
// The chain by hand recurses once per link; that of futures does not.

#ifndef TENON_FUTURES_BENCHMARK_SUPPORT_H_
#define TENON_FUTURES_BENCHMARK_SUPPORT_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/futures/collect.h"
#include "tenon/futures/future.h"

namespace tenon::futures {

// A future by hand.
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

// A chain of `links`, created, set and waited for; returns the final value.
inline int FutureChain(int links) {
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

inline int PlainChain(int links) {
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
inline int FutureCollectAll(int count) {
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

inline int PlainCollectAll(int count) {
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

}  // namespace tenon::futures

#endif  // TENON_FUTURES_BENCHMARK_SUPPORT_H_
