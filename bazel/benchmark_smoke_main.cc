// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// main() of the smoke test of every benchmark. Unlike Google Benchmark's own,
// it fails when a benchmark reports an error, and when none has run: a
// benchmark that measures nothing must not succeed.

#include <cstdio>
#include <vector>

#include "benchmark/benchmark.h"

namespace {

// Google Benchmark 1.8 renamed `error_occurred`.
template <typename Run>
bool HasFailed(const Run& run) {
  if constexpr (requires { run.error_occurred; }) {
    return run.error_occurred;
  } else {
    return static_cast<bool>(run.skipped);
  }
}

class CountingReporter : public benchmark::ConsoleReporter {
 public:
  CountingReporter() : ConsoleReporter(OO_None) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      failures_ += HasFailed(run) ? 1 : 0;
    }
  }

  int failures() const { return failures_; }

 private:
  int failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  CountingReporter reporter;
  if (benchmark::RunSpecifiedBenchmarks(&reporter) == 0) {
    std::fprintf(stderr, "no benchmark has run\n");
    return 1;
  }
  if (reporter.failures() != 0) {
    std::fprintf(stderr, "%d benchmarks have failed\n", reporter.failures());
    return 1;
  }
  return 0;
}
