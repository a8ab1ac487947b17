// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/syscall_names.h"

#include <sys/syscall.h>

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

namespace tenon {
namespace {

#if defined(__x86_64__)
// If one were missing, all after it would be wrong.
TEST(SyscallNamesTest, AreThoseOfTheKernel) {
  EXPECT_EQ(SyscallName(SYS_read), "read");
  EXPECT_EQ(SyscallName(SYS_fcntl), "fcntl");
  EXPECT_EQ(SyscallName(SYS_newfstatat), "newfstatat");
  EXPECT_EQ(SyscallName(SYS_getrandom), "getrandom");
  EXPECT_EQ(SyscallName(SYS_memfd_create), "memfd_create");
  EXPECT_EQ(SyscallName(SYS_rseq), "rseq");
  EXPECT_EQ(SyscallName(SYS_pidfd_send_signal), "pidfd_send_signal");
  EXPECT_EQ(SyscallName(SYS_pidfd_open), "pidfd_open");
  EXPECT_EQ(SyscallName(SYS_futex_waitv), "futex_waitv");
}
#endif

TEST(SyscallNamesTest, GoBothWays) {
  int known = 0;
  for (uint64_t number = 0; number < 600; ++number) {
    const std::optional<uint64_t> back = SyscallNumber(SyscallName(number));
    if (!back.has_value()) continue;
    ++known;
    EXPECT_EQ(*back, number);
  }
  EXPECT_EQ(known, 374);
}

TEST(SyscallNamesTest, UnknownOnesHaveANumber) {
  EXPECT_EQ(SyscallName(400), "syscall_400");
  EXPECT_EQ(SyscallName(99999), "syscall_99999");
  EXPECT_EQ(SyscallNumber("opneat"), std::nullopt);
}

}  // namespace
}  // namespace tenon
