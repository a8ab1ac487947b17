// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/retry_on_eintr.h"

#include <errno.h>
#include <sys/types.h>

#include <type_traits>

#include "gtest/gtest.h"

namespace tenon {
namespace {

TEST(RetryOnEintrTest, RepeatsUntilTheCallSucceeds) {
  int calls = 0;
  const ssize_t result = RetryOnEintr([&]() -> ssize_t {
    if (++calls < 1000) {
      errno = EINTR;
      return -1;
    }
    return 7;
  });
  EXPECT_EQ(result, 7);
  EXPECT_EQ(calls, 1000);
}

TEST(RetryOnEintrTest, ReportsEveryOtherErrorAtOnce) {
  int calls = 0;
  const int result = RetryOnEintr([&] {
    ++calls;
    errno = EAGAIN;
    return -1;
  });
  EXPECT_EQ(result, -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(calls, 1);
}

TEST(RetryOnEintrTest, ErrnoLeftByEarlierCallsIsNoInterruption) {
  int calls = 0;
  errno = EINTR;
  EXPECT_EQ(RetryOnEintr([&] {
              ++calls;
              return 0;
            }),
            0);
  EXPECT_EQ(calls, 1);
}

TEST(RetryOnEintrTest, ErrorAfterAnInterruptionIsReported) {
  int calls = 0;
  EXPECT_EQ(RetryOnEintr([&] {
              errno = ++calls == 1 ? EINTR : EBADF;
              return -1;
            }),
            -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(calls, 2);
}

TEST(RetryOnEintrTest, KeepsTheTypeOfTheCall) {
  static_assert(
      std::is_same_v<decltype(RetryOnEintr([] { return ssize_t{1} << 40; })),
                     ssize_t>);
  EXPECT_EQ(RetryOnEintr([] { return ssize_t{1} << 40; }), ssize_t{1} << 40);
}

}  // namespace
}  // namespace tenon
