// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CheckOneThread: a test's check before it forks.
//
// fork() copies the memory of all threads and runs one of them. A lock that
// another thread held at that moment stays locked in the child for ever: a lock
// of the test, of a library, or of a sanitizer's allocator. On a busy machine
// such a child hangs once in some ten runs.

#ifndef TENON_SHM_TESTING_ONE_THREAD_H_
#define TENON_SHM_TESTING_ONE_THREAD_H_

#include "absl/status/status.h"

namespace tenon {

// OK if the calling process has one thread. Waits up to a second for others to
// end. Always OK under ThreadSanitizer, which has a thread of its own.
// Errors: kFailedPrecondition with the number of threads.
absl::Status CheckOneThread();

}  // namespace tenon

#endif  // TENON_SHM_TESTING_ONE_THREAD_H_
