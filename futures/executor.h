// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Executor: decides where, and in which context, a callback runs.
//
//   class OnTheLoop final : public Executor {
//    public:
//     explicit OnTheLoop(EventLoop& loop) : loop_(loop) {}
//     void Execute(Task task) override { loop_.Post(std::move(task)); }
//
//    private:
//     EventLoop& loop_;
//   };
//
//   Future<int> NextEpoch(Future<int> epoch, OnTheLoop& on_the_loop) {
//     return std::move(epoch).Then(
//         on_the_loop, [](absl::StatusOr<int> n) { return *n + 1; });
//   }
//
// InlineExecutor() is the default, thread_pool.h has threads, and an existing
// facility of a program (an event loop, its own pool, a thread with a selected
// device) becomes a class like the one above. An executor may also run code
// around each task: so a callback gets the context it needs, and futures need
// not know that context.

#ifndef TENON_FUTURES_EXECUTOR_H_
#define TENON_FUTURES_EXECUTOR_H_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "tenon/futures/callback_failure.h"

namespace tenon::futures {

// A function to be called once.
//
// Ownership: movable; owns what it calls. Empty when moved from, or run.
// Threads: thread-compatible; run by any thread.
// Processes: not across fork.
// Failure: an exception of the function goes to callback_failure.h. A task that
//   is destroyed without having run destroys the function: tasks made by a
//   future then complete theirs with kAborted.
class Task {
 public:
  // `body` takes no arguments; its return value is ignored.
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Task>) explicit Task(
      F&& body)
      : body_(
            std::make_unique<BodyOf<std::decay_t<F>>>(std::forward<F>(body))) {}
  Task(Task&&) noexcept = default;
  Task& operator=(Task&&) noexcept = default;

  // Calls the function and destroys it; does nothing if empty.
  void Run() && {
    if (const std::unique_ptr<Body> body = std::move(body_)) body->Run();
  }

 private:
  class Body {
   public:
    virtual ~Body() = default;
    virtual void Run() noexcept = 0;
  };

  template <typename F>
  class BodyOf final : public Body {
   public:
    template <typename G>
    // It is neither copied nor moved.
    // NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
    explicit BodyOf(G&& fn) : fn_(std::forward<G>(fn)) {}
    void Run() noexcept override {
      const absl::Status caught = internal_future::CatchExceptions(
          [this] { static_cast<void>(std::invoke(std::move(fn_))); });
      if (!caught.ok()) internal_future::ReportCallbackFailure(caught);
    }

   private:
    F fn_;
  };

  std::unique_ptr<Body> body_;
};

// Ownership: owned by the creator; it outlives every callback that was given to
//   a future together with it.
// Threads: Execute is called by any thread, possibly concurrently.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `task`, here or elsewhere, now or later, or destroys it. Meanwhile
  // holds no lock that the task might need. After an exception the task counts
  // as destroyed.
  virtual void Execute(Task task) = 0;
};

// Runs every task at once, on the calling thread.
Executor& InlineExecutor();

}  // namespace tenon::futures

#endif  // TENON_FUTURES_EXECUTOR_H_
