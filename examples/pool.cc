// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A pool of worker processes: a function is called in them, for many inputs.

#include <iostream>

#include "tenon/shm/base/exit_code.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/pool/process_pool.h"

int CountPrimes(int below) {
  int count = 0;
  for (int n = 2; n < below; ++n) {
    int d = 2;
    while (d * d <= n && n % d != 0) ++d;
    count += d * d > n;
  }
  return count;
}
TENON_POOL_FUNCTION(CountPrimes);

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);  // The workers are this program, too.
  const auto pool = tenon::spawn::ProcessPool::Create({.workers = 2});
  if (!pool.ok()) return tenon::ExitCode(pool.status());
  const auto primes =
      pool->Map(CountPrimes, {10'000, 100'000, 1'000'000}).Get();
  if (!primes.ok()) return tenon::ExitCode(primes.status());
  for (const int count : *primes) std::cout << count << " primes\n";
}
