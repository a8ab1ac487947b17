// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Notifies the sanitizers of fibers; empty in a build without one. Only
// fiber.cc includes this.

#ifndef TENON_SHM_TESTING_SCHEDULER_FIBER_SANITIZERS_H_
#define TENON_SHM_TESTING_SCHEDULER_FIBER_SANITIZERS_H_

#include <cstddef>

#include "absl/base/config.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef ABSL_HAVE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace tenon {

// One for each fiber. `stack` is null for the OS thread's own stack, whose
// bounds the sanitizer returns when it is left for the first time.
class FiberSanitizer {
 public:
  FiberSanitizer(char* stack, size_t stack_bytes)
      : stack_(stack), stack_bytes_(stack_bytes), owned_(stack != nullptr) {
#ifdef ABSL_HAVE_THREAD_SANITIZER
    if (!owned_) tsan_ = __tsan_get_current_fiber();
#endif
  }

  ~FiberSanitizer() { Forget(); }

  FiberSanitizer(const FiberSanitizer&) = delete;
  FiberSanitizer& operator=(const FiberSanitizer&) = delete;

  // Another function will run on the stack. The former one may have been left
  // between its prologue and its epilogue.
  void Prepare() {
    Forget();
#ifdef ABSL_HAVE_THREAD_SANITIZER
    tsan_ = __tsan_create_fiber(0);
#endif
  }

  // On the stack of this fiber, right before and after it switches to `to`.
  void Leave([[maybe_unused]] FiberSanitizer& to,
             [[maybe_unused]] bool for_good) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
    to.entered_from_ = this;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, to.stack_,
                                   to.stack_bytes_);
#endif
#ifdef ABSL_HAVE_THREAD_SANITIZER
    __tsan_switch_to_fiber(to.tsan_, 0);
#endif
  }
  void Return() {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
  }

  // The first thing on a stack that was prepared.
  void Enter() {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
    const void* bottom = nullptr;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (entered_from_->owned_) return;
    entered_from_->stack_ = bottom;
    entered_from_->stack_bytes_ = bytes;
#endif
  }

 private:
  void Forget() {
    if (!owned_) return;
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
#ifdef ABSL_HAVE_THREAD_SANITIZER
    if (tsan_ != nullptr) __tsan_destroy_fiber(tsan_);
    tsan_ = nullptr;
#endif
  }

  [[maybe_unused]] const void* stack_;
  [[maybe_unused]] size_t stack_bytes_;
  const bool owned_;
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  void* fake_stack_ = nullptr;
  FiberSanitizer* entered_from_ = nullptr;
#endif
#ifdef ABSL_HAVE_THREAD_SANITIZER
  void* tsan_ = nullptr;
#endif
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_FIBER_SANITIZERS_H_
