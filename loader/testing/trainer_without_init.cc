// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A consumer like a Python interpreter: it does not call spawn::Init(), has no
// dataset, and several threads. Prints the sum of "value" over an epoch of
// "Numbers(1000)" of a worker program and its plugin, its arguments.

#include <cstdint>
#include <cstdio>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/loader.h"

namespace tenon::loader {
namespace {

absl::StatusOr<int64_t> Sum(const char* program, const char* plugin) {
  auto loader = Loader::Create(
      "Numbers",
      {.batch_size = 64,
       .workers = 2,
       .worker_program = WorkerProgram{.program = program, .plugin = plugin}},
      int64_t{1000});
  if (!loader.ok()) return loader.status();
  int64_t sum = 0;
  for (absl::StatusOr<Batch>& batch : (*loader)->Epoch(0)) {
    if (!batch.ok()) return batch.status();
    const auto values = *batch->data<int64_t>("value");
    for (const int64_t value : values) sum += value;
  }
  return sum;
}

}  // namespace
}  // namespace tenon::loader

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::jthread other([](const std::stop_token& stop) {
    while (!stop.stop_requested()) absl::SleepFor(absl::Milliseconds(1));
  });
  const absl::StatusOr<int64_t> sum = tenon::loader::Sum(argv[1], argv[2]);
  if (sum.ok()) {
    std::printf("sum %lld\n", static_cast<long long>(*sum));
    return 0;
  }
  std::printf("%s\n", sum.status().ToString().c_str());
  return 1;
}
