// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Executor: says where, and in what surroundings, a callback runs.
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
// InlineExecutor() is the default, thread_pool.h has threads, and what a
// program has already (an event loop, its own pool, a thread with a device
// chosen) is a class like the one above. An executor may also do something
// around each task: that is how a callback gets the surroundings it needs
// without futures knowing what they are.

#ifndef TENON_FUTURES_EXECUTOR_H_
#define TENON_FUTURES_EXECUTOR_H_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "tenon/futures/callback_failure.h"

namespace tenon::futures {

// Something to be done once.
//
// Ownership: movable; owns what it calls. Empty when moved from, or run.
// Threads: thread-compatible; run by any thread.
// Processes: not across fork.
// Failure: of what a task calls, an exception goes to callback_failure.h. One
//   that is destroyed without having run destroys what it would have called:
//   tasks made by a future complete theirs with kAborted then.
class Task {
 public:
  // `body` takes no arguments; what it returns is not looked at.
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Task>) explicit Task(
      F&& body)
      : body_(
            std::make_unique<BodyOf<std::decay_t<F>>>(std::forward<F>(body))) {}
  Task(Task&&) noexcept = default;
  Task& operator=(Task&&) noexcept = default;

  // Runs it and lets go of it; nothing if empty.
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

// Ownership: the creator's; it outlives every callback that was given to a
//   future together with it.
// Threads: Execute is called by any thread, by several at once.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `task`, here or elsewhere, now or later, or destroys it. Holds no lock
  // meanwhile that the task might want. An exception counts as destroyed.
  virtual void Execute(Task task) = 0;
};

// Runs every task at once, where it was given.
Executor& InlineExecutor();

}  // namespace tenon::futures

#endif  // TENON_FUTURES_EXECUTOR_H_
