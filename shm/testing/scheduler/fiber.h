// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fiber: a separate stack, on which a function runs until it switches away.
// Several fibers alternate on one OS thread; switches are always explicit.
//
//   Fiber main;             // The running stack.
//   Fiber other(64 << 10);  // A stack of 64 KiB.
//   other.Prepare(&Work, &argument);
//   main.SwitchTo(other);   // Returns when a fiber switches to main.
//
// A switch takes a few nanoseconds on x86-64; elsewhere, and with
// TENON_FIBER_UCONTEXT defined, it is swapcontext(), which makes a system call.
// AddressSanitizer and ThreadSanitizer are notified of every switch.

#ifndef TENON_SHM_TESTING_SCHEDULER_FIBER_H_
#define TENON_SHM_TESTING_SCHEDULER_FIBER_H_

#include <cstddef>
#include <memory>

namespace tenon {

// Ownership: owns its stack, which has a guard page below it. An abandoned
// fiber (destroyed, prepared anew, left for good) is not unwound: the
// destructors of objects on its stack do not run.
// Threads: all fibers that switch to each other belong to one OS thread.
// Failure: aborts if the stack cannot be allocated.
class Fiber {
 public:
  // The stack that is running.
  Fiber();
  // Rounded up to whole pages.
  explicit Fiber(size_t stack_bytes);
  ~Fiber();

  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next switch to this fiber calls `entry(argument)`, which must not
  // return. Discards the former contents of the stack. Not for the running
  // fiber, nor for one made by Fiber().
  void Prepare(void (*entry)(void*), void* argument);

  // From this fiber, which must be the running one. Returns when a fiber
  // switches back.
  void SwitchTo(Fiber& to) { Switch(to, /*for_good=*/false); }

  // The same, but no fiber may switch back before it is prepared anew.
  [[noreturn]] void SwitchForGood(Fiber& to);

 private:
  struct State;

  static void Main(void* state);
  void Switch(Fiber& to, bool for_good);

  std::unique_ptr<State> state_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_FIBER_H_
