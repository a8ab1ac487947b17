// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/check.h"

#include <errno.h>

#include <csignal>
#include <string>

#include "gtest/gtest.h"

namespace tenon {
namespace {

TEST(CheckTest, TrueDoesNothingAndBuildsNoText) {
  int texts = 0;
  const auto text = [&] {
    ++texts;
    return "false";
  };
  TENON_CHECK(texts == 0, text());
  EXPECT_EQ(texts, 0);
}

TEST(CheckDeathTest, FalseNamesPlaceTextAndErrno) {
  const int two = 2;
  EXPECT_DEATH(
      {
        errno = ENOENT;
        TENON_CHECK(two == 3, "two is not three");
      },
      "check_test\\.cc:[0-9]+: Check failed: two is not three "
      "\\(last errno: ENOENT\\)\n");
}

TEST(CheckDeathTest, EndsByAbort) {
  EXPECT_EXIT(Abort("the end"), testing::KilledBySignal(SIGABRT), "the end");
}

TEST(CheckDeathTest, LongTextIsWhole) {
  const std::string text = std::string(5000, 'x') + "!";
  EXPECT_DEATH(TENON_CHECK(false, text), "x! \\(last errno");
}

TEST(CheckDeathTest, WorksInASignalHandler) {
  EXPECT_DEATH(
      {
        std::signal(SIGSEGV, [](int) { Abort("in a handler"); });
        std::raise(SIGSEGV);
      },
      "in a handler");
}

}  // namespace
}  // namespace tenon
