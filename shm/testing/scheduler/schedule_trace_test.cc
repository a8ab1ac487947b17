// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/schedule_trace.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string>& Names() {
  static const auto* const names =
      new std::vector<std::string>{"body", "producer"};
  return *names;
}

TEST(ScheduleTraceTest, IsALineForEachOperation) {
  ScheduleTrace trace;
  trace.Reset(/*keep=*/true);
  trace.Add({1,
             ScheduleVerb::kLoad,
             {"head"},
             7,
             0,
             std::memory_order_acquire,
             /*stale=*/true});
  trace.Add({0,
             ScheduleVerb::kAdd,
             {"cell", 2},
             0x200000001,
             0x100000000,
             std::memory_order_seq_cst});
  trace.Add({1, ScheduleVerb::kRead, {"slot", 0}, 9});
  trace.Add({1, ScheduleVerb::kFence, {}, 0, 0, std::memory_order_release});
  trace.Add({1, ScheduleVerb::kKilled});
  EXPECT_EQ(
      trace.ToString(Names()),
      "    1 producer     load        head         7 acquire, stale\n"
      "    2 body         add         cell[2]      0x100000000 -> 0x200000001"
      " seq_cst\n"
      "    3 producer     read        slot[0]      9\n"
      "    4 producer     fence                    release\n"
      "    5 producer     KILLED\n");
}

TEST(ScheduleTraceTest, LeavesOutTheMiddle) {
  ScheduleTrace trace;
  trace.Reset(/*keep=*/true);
  for (int i = 0; i < 10'000; ++i) trace.Add({1, ScheduleVerb::kPause});
  const std::string text = trace.ToString(Names());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 501);
  EXPECT_THAT(text, HasSubstr("\n  100 producer     pause\n"
                              "   ... 9500 omitted ...\n"
                              " 9601 producer     pause\n"));
  EXPECT_THAT(text, HasSubstr("\n10000 producer     pause\n"));
}

TEST(ScheduleTraceTest, FingerprintTellsTracesApart) {
  const auto fingerprint = [](bool keep, int thread, uint64_t value) {
    ScheduleTrace trace;
    trace.Reset(keep);
    trace.Add({0, ScheduleVerb::kPause});
    trace.Add({thread, ScheduleVerb::kLoad, {"x"}, value});
    return trace.fingerprint();
  };
  EXPECT_EQ(fingerprint(true, 1, 5), fingerprint(false, 1, 5));
  EXPECT_NE(fingerprint(true, 1, 5), fingerprint(true, 1, 6));
  EXPECT_NE(fingerprint(true, 1, 5), fingerprint(true, 0, 5));
}

TEST(ScheduleTraceTest, KeepsNothingUnlessAsked) {
  ScheduleTrace trace;
  trace.Reset(/*keep=*/false);
  trace.Add({1, ScheduleVerb::kPause});
  EXPECT_EQ(trace.ToString(Names()), "");
}

}  // namespace
}  // namespace tenon
