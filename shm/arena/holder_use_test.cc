// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/holder_use.h"

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

HolderUse Holder(pid_t pid, size_t bytes) {
  return {.pid = pid,
          .name = "trainer",
          .state = "stopped",
          .blocks = 3,
          .bytes = bytes,
          .oldest = absl::Microseconds(12'345'678)};
}

TEST(HolderUseTest, MostBytesComeFirstAndEqualOnesKeepTheirOrder) {
  std::vector<HolderUse> holders = {Holder(1, 10), Holder(2, 30), Holder(3, 10),
                                    Holder(4, 20)};
  SortByBytes(holders);
  std::vector<pid_t> order;
  for (const HolderUse& holder : holders) order.push_back(holder.pid);
  EXPECT_EQ(order, (std::vector<pid_t>{2, 4, 1, 3}));
}

TEST(HolderUseTest, TextSaysWhoHoldsWhat) {
  EXPECT_EQ(
      DescribeHolders({Holder(4711, 49152)}, 3),
      "pid 4711 'trainer' (stopped) 3 blocks, 49152 bytes (48.0 KiB), oldest "
      "12.345s");
}

TEST(HolderUseTest, TextSaysWhoMoved) {
  HolderUse holder = Holder(1, 2);
  holder.moved = 5;
  EXPECT_EQ(DescribeHolders({holder}, 1),
            "pid 1 'trainer' (stopped) 3 blocks, 2 bytes, oldest 12.345s, "
            "claimed and released during 5 tests");
}

TEST(HolderUseTest, TextEndsWithHowManyMoreThereAre) {
  const std::vector<HolderUse> holders = {Holder(1, 3), Holder(2, 2),
                                          Holder(3, 1)};
  const std::string one = DescribeHolders({holders[0]}, 1);
  const std::string two = DescribeHolders({holders[1]}, 1);
  EXPECT_EQ(DescribeHolders(holders, 2), one + "; " + two + "; and 1 more");
  EXPECT_EQ(DescribeHolders(holders, 0), "; and 3 more");
}

TEST(HolderUseTest, NobodyIsNobody) {
  EXPECT_EQ(DescribeHolders({}, 3), "no process");
}

}  // namespace
}  // namespace tenon
