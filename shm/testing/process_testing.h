// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests that need another process, or look at what their own holds.
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

// How many descriptors this process has open. What other threads are about to
// close (received_fd.h) is waited for, up to a second.
size_t CountOpenFds();

// A prefix for names in /dev/shm that nobody else uses: UniqueShmPrefix() of
// testing/census.h, for tests that need nothing else of it.
std::string UniqueTestPrefix();

// Another user, who owns nothing: "nobody".
inline constexpr uid_t kNobody = 65534;

// Whether a child could become that user: only of root, and not in a sandbox
// that knows no other users. What needs it says, if not, kNoOtherUser.
bool CanBecomeAnotherUser();
inline constexpr char kNoOtherUser[] =
    "needs root and a second user: run the test binary outside of a sandbox";

// Makes this process, for good, one of kNobody in no group.
bool BecomeAnotherUser();

// Whether `condition` comes true within a minute; asked every millisecond.
bool Becomes(const std::function<bool()>& condition);

// Runs `body` in a forked child. Succeeds if the child got through it without a
// failed expectation, a crash, or two minutes going by (it is killed then). The
// child prints its failures itself, and runs no destructors outside of `body`.
// Fails if this process has other threads (testing/one_thread.h), unless it
// `may_have_threads`: only where that is what is tested.
testing::AssertionResult PassesInChild(const std::function<void()>& body,
                                       bool may_have_threads = false);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_PROCESS_TESTING_H_
