// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/poll_all.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

TEST(PollAllTest, ReportsEachBelowALoweredLimitOfDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  const pollfd silent = {.fd = reader.get(), .events = POLLIN, .revents = 0};
  std::vector<pollfd> all(101, silent);
  for (const size_t i : {0, 6, 7, 100}) {
    all[i] = {.fd = writer.get(), .events = POLLOUT, .revents = 0};
  }
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  for (const rlim_t most : {rlim_t{1}, rlim_t{7}, before.rlim_cur}) {
    for (pollfd& one : all) one.revents = 0;
    const rlimit few = {most, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const size_t ready = PollAll(all);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(ready, 4);
    for (const pollfd& one : all) {
      EXPECT_EQ(one.revents, one.fd == writer.get() ? POLLOUT : 0);
    }
  }
}

TEST(PollAllTest, NoneIsReady) {
  EXPECT_EQ(PollAll({}), 0);
  std::vector<pollfd> skipped(3, {.fd = -1, .events = POLLIN, .revents = 0});
  EXPECT_EQ(PollAll(skipped), 0);
}

}  // namespace
}  // namespace tenon
