// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/explore.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/config.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/testing/scheduler/schedule.h"

namespace tenon {
namespace {

std::optional<uint64_t> NumberFromEnvironment(const char* name) {
  const char* text = getenv(name);
  if (text == nullptr) return std::nullopt;
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) {
    Abort(absl::StrCat(name, "=", text, " is not a number"));
  }
  return number;
}

// Runs the seed once more, and records its trace.
void FillIn(Schedule& schedule, absl::FunctionRef<void(Schedule&)> body,
            ExploreResult& result) {
  schedule.RunSeed(result.seed, body, /*keep_trace=*/true);
  result.ok = schedule.failure().empty();
  result.failure = schedule.failure();
  result.trace = schedule.trace();
  result.report = absl::StrCat(
      "TENON_SCHEDULE_SEED=", result.seed, " (", schedule.strategy(), ", ",
      schedule.steps(), " steps): ", result.ok ? "all holds" : result.failure,
      "\n", result.trace);
}

}  // namespace

ExploreResult Explore(const ExploreOptions& options,
                      absl::FunctionRef<void(Schedule&)> body) {
  if (const auto seed = NumberFromEnvironment("TENON_SCHEDULE_SEED")) {
    ExploreResult result = Replay(options.schedule, *seed, body);
    fputs(result.report.c_str(), stderr);
    return result;
  }
  Schedule schedule(options.schedule);
  schedule.Measure(body);
  ExploreResult result;
  for (uint64_t i = 0; i < options.schedules; ++i) {
    result.seed = options.first_seed + i;
    schedule.RunSeed(result.seed, body, /*keep_trace=*/false);
    ++result.schedules;
    result.steps += schedule.steps();
    if (schedule.failure().empty()) continue;
    const std::string failure = schedule.failure();
    const uint64_t fingerprint = schedule.fingerprint();
    FillIn(schedule, body, result);
    if (schedule.fingerprint() != fingerprint || result.failure != failure) {
      result.ok = false;
      result.report = absl::StrCat(
          "the body does not do the same when it is called again; at first: ",
          failure, "\n", result.report);
    }
    return result;
  }
  return result;
}

ExploreResult Replay(const ScheduleOptions& options, uint64_t seed,
                     absl::FunctionRef<void(Schedule&)> body) {
  Schedule schedule(options);
  schedule.Measure(body);
  ExploreResult result;
  result.schedules = 1;
  result.seed = seed;
  FillIn(schedule, body, result);
  result.steps = schedule.steps();
  return result;
}

uint64_t ScheduleCount(uint64_t in_ci) {
  const uint64_t count =
      in_ci * NumberFromEnvironment("TENON_SCHEDULE_FACTOR").value_or(1);
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  return std::max(count / 20, std::min<uint64_t>(in_ci, 1000));
#else
  return count;
#endif
}

}  // namespace tenon
