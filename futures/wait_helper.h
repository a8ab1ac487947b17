// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WaitHelper: what a thread that waits for a future can do towards its result.
//
//   class Poller final : public WaitHelper {
//    public:
//     explicit Poller(std::weak_ptr<Socket> socket) ...
//     void Help(std::chrono::steady_clock::time_point deadline) override {
//       if (auto socket = socket_.lock()) socket->ReceiveAnswer(deadline);
//     }
//   };
//   auto promise = Promise<int>::WithWaitHelper<Poller>(socket);
//
// For who completes promises from a thread that waits for something else, say a
// socket: a thread that waits for the future may as well wait for the socket
// and complete the promise by itself. That saves the step from one thread to
// the other, which costs more than all else.

#ifndef TENON_FUTURES_WAIT_HELPER_H_
#define TENON_FUTURES_WAIT_HELPER_H_

#include <chrono>

namespace tenon::futures {

// Ownership: lives as long as the future or its promise does.
// Threads: any number at once call Help().
// Processes: in a forked child Help() must return at once.
class WaitHelper {
 public:
  virtual ~WaitHelper() = default;

  // Called by Future::Wait(), once in each call that would otherwise block,
  // without locks; not by what waits for several futures, nor for one that was
  // made by Then(). So it must not be relied upon. It may complete the promise,
  // whose callbacks then run on this thread, and may do nothing: whoever waits
  // sleeps afterwards if the future is not done. It blocks for no longer than
  // until the future is done, by whomever, or `deadline`; time_point::max() is
  // never.
  virtual void Help(std::chrono::steady_clock::time_point deadline) = 0;
};

}  // namespace tenon::futures

#endif  // TENON_FUTURES_WAIT_HELPER_H_
