// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WaitHelper: what a thread that waits for a future can do towards its result.
//
//   class Poller final : public WaitHelper {
//    public:
//     explicit Poller(std::weak_ptr<Socket> socket)
//         : socket_(std::move(socket)) {}
//     void Help(std::chrono::steady_clock::time_point deadline) override {
//       if (auto socket = socket_.lock()) socket->ReceiveAnswer(deadline);
//     }
//
//    private:
//     std::weak_ptr<Socket> socket_;
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

// Ownership: lives as long as the promise, its future, or one of those that
//   Then() has made of it.
// Threads: any number at once call Help().
// Processes: in a forked child Help() must return at once.
class WaitHelper {
 public:
  virtual ~WaitHelper() = default;

  // Called by Future::Wait(), once in each call that would otherwise block,
  // without locks; of the promise's future and of those that Then() has made of
  // it; not by what waits for several, nor by a coroutine. So it must not be
  // relied upon. It may complete the promise, whose callbacks then run on this
  // thread, and may do nothing: whoever waits sleeps afterwards if what he
  // waits for is not done. It blocks for no longer than until the promise is
  // complete, by whomever, or `deadline`; time_point::max() is never.
  virtual void Help(std::chrono::steady_clock::time_point deadline) = 0;
};

}  // namespace tenon::futures

#endif  // TENON_FUTURES_WAIT_HELPER_H_
