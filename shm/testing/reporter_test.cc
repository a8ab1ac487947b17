// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/reporter.h"

#include <errno.h>

#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(ReporterTest, TellsInOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(ReportPipe pipe, ReportPipe::Create());
  EXPECT_THAT(pipe.Drain().failures, IsEmpty());
  const Reporter reporter = pipe.reporter();
  reporter.Fail("one");
  reporter.Note("seen");
  reporter.Fail("");
  EXPECT_THAT(pipe.Drain().failures, ElementsAre("one", ""));
  reporter.Note("seen");
  reporter.Fail("three\nlines\nlong");
  const Report& report = pipe.Drain();
  EXPECT_THAT(report.failures, ElementsAre("one", "", "three\nlines\nlong"));
  EXPECT_THAT(report.notes, ElementsAre(Pair("seen", 2)));
  EXPECT_FALSE(report.will_die);
  reporter.WillDie();
  EXPECT_TRUE(pipe.Drain().will_die);
}

TEST(ReporterTest, CutsWhatIsTooLong) {
  TENON_ASSERT_OK_AND_ASSIGN(ReportPipe pipe, ReportPipe::Create());
  pipe.reporter().Fail(std::string(10000, 'x'));
  EXPECT_THAT(pipe.Drain().failures, ElementsAre(std::string(4000, 'x')));
}

TEST(ReporterTest, NeverBlocksAndKeepsErrno) {
  TENON_ASSERT_OK_AND_ASSIGN(ReportPipe pipe, ReportPipe::Create());
  errno = ENOENT;
  for (int i = 0; i < 1000; ++i) {
    pipe.reporter().Fail(std::string(1000, 'x'));
  }
  EXPECT_EQ(errno, ENOENT);
  EXPECT_GE(pipe.Drain().failures.size(), 50u);
  pipe.reporter().Fail("there is room again");
  EXPECT_EQ(pipe.Drain().failures.back(), "there is room again");
}

TEST(ReporterTest, DoesNotMixWhatSeveralThreadsSay) {
  TENON_ASSERT_OK_AND_ASSIGN(ReportPipe pipe, ReportPipe::Create());
  const auto say = [&](char c) {
    for (int i = 0; i < 200; ++i) pipe.reporter().Note(std::string(50, c));
  };
  std::thread other(say, 'a');
  say('b');
  other.join();
  EXPECT_THAT(pipe.Drain().notes, ElementsAre(Pair(std::string(50, 'a'), 200),
                                              Pair(std::string(50, 'b'), 200)));
}

}  // namespace
}  // namespace tenon
