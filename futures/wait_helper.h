// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WaitHelper: lets a thread that waits for a future help to produce its result.
// For the process pool, not for users. A promise gets its helper from
// SetWaitHelper(), of future.h.
//
// The pool completes promises when a worker's socket has an answer. A thread
// that waits for the future may as well wait for the socket and complete the
// promise itself. That saves the switch from one thread to the other, which
// costs more than all else.

#ifndef TENON_FUTURES_WAIT_HELPER_H_
#define TENON_FUTURES_WAIT_HELPER_H_

#include <chrono>

namespace tenon::futures::internal_future {

// Ownership: lives as long as the promise, its future, or a future derived from
//   it by Then().
// Threads: any number at once call Help().
// Processes: in a forked child Help() must return at once.
class WaitHelper {
 public:
  virtual ~WaitHelper() = default;

  // Called by Future::Wait(), once in each call that would otherwise block,
  // without locks; for the promise's future and futures derived from it by
  // Then(); not by calls that wait for several futures, nor by a coroutine. So
  // no result may depend on it. It may complete the promise, whose callbacks
  // then run on this thread, and may do nothing: the waiter sleeps afterwards
  // if the future is not done. It blocks until any thread has completed the
  // promise, or until `deadline`, and no longer; time_point::max() means no
  // deadline.
  virtual void Help(std::chrono::steady_clock::time_point deadline) = 0;
};

}  // namespace tenon::futures::internal_future

#endif  // TENON_FUTURES_WAIT_HELPER_H_
