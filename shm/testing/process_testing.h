// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests that need another process, or count the resources of their own.
//
//   EXPECT_TRUE(PassesInChild([&] { EXPECT_THAT(segment.Unlink(), IsOk()); }));

#ifndef TENON_SHM_TESTING_PROCESS_TESTING_H_
#define TENON_SHM_TESTING_PROCESS_TESTING_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>

#include "gtest/gtest.h"

namespace tenon {

// The number of open descriptors of this process. Waits up to a second for
// those that other threads are closing (received_fd.h).
size_t CountOpenFds();

// A unique prefix for names in /dev/shm: UniqueShmPrefix() of testing/census.h,
// for tests that need nothing else from there.
std::string UniqueTestPrefix();

// Another user, without files or processes.
inline constexpr uid_t kNobody = 65534;

// Whether a child could become that user: only of root, and not in a sandbox
// that knows no other users. If not, tests skip with kNoOtherUser.
bool CanBecomeAnotherUser();
inline constexpr char kNoOtherUser[] =
    "needs root and a second user: run the test binary outside of a sandbox";

// Makes this process, permanently, one of kNobody in no group.
bool BecomeAnotherUser();

// Whether `condition` becomes true within a minute; polled every millisecond.
bool Becomes(const std::function<bool()>& condition);

// Runs `body` in a forked child. Succeeds if the child completes it within two
// minutes (it is killed after them), without a failed expectation or a crash.
// The child prints its failures itself, and runs no destructors outside of
// `body`. Fails if this process has other threads (testing/one_thread.h),
// unless it `may_have_threads`: only where a test is about that.
testing::AssertionResult PassesInChild(const std::function<void()>& body,
                                       bool may_have_threads = false);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_PROCESS_TESTING_H_
