// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Futures and coroutines: work on a pool of threads, a step after each result,
// all results together, an error on the way, and the same as a coroutine.

#include <iostream>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/futures/async.h"
#include "tenon/futures/collect.h"
#include "tenon/futures/coroutine.h"
#include "tenon/futures/thread_pool.h"
#include "tenon/shm/base/exit_code.h"

using namespace tenon::futures;  // NOLINT: a program of one file.

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("an odd number");
  return n / 2;
}

// A coroutine: it waits for a future without blocking a thread.
Future<int> Quarter(Executor& pool, int n) {
  const auto half = co_await Async(pool, [n] { return Half(n); });
  co_return half.ok() ? Half(*half) : half;
}

int main() {
  const auto pool = ThreadPool::Create(2);
  if (!pool.ok()) return tenon::ExitCode(pool.status());
  std::vector<Future<int>> halves;
  for (const int n : {10, 20, 30}) {
    halves.push_back(Async(**pool, [n] { return Half(n); }));
  }
  const auto all = CollectAll(std::move(halves)).Get();
  if (!all.ok()) return tenon::ExitCode(all.status());
  for (const int half : *all) std::cout << "a half: " << half << "\n";
  for (const int n : {20, 10}) {
    const auto quarter = Quarter(**pool, n).Get();
    std::cout << "a quarter of " << n << ": "
              << (quarter.ok() ? absl::StrCat(*quarter)
                               : quarter.status().ToString())
              << "\n";
  }
}
