// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FiberContext: the registers of a fiber that is not running. In assembly on
// x86-64; by swapcontext() elsewhere, or where TENON_FIBER_UCONTEXT is defined.
// Only fiber.cc includes this.

#ifndef TENON_SHM_TESTING_SCHEDULER_FIBER_CONTEXT_H_
#define TENON_SHM_TESTING_SCHEDULER_FIBER_CONTEXT_H_

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__) && !defined(TENON_FIBER_UCONTEXT)
#define TENON_FIBER_UCONTEXT 1
#endif

#ifdef TENON_FIBER_UCONTEXT
#include <ucontext.h>

#include "tenon/shm/base/check.h"
#endif

namespace tenon {

using FiberMain = void (*)(void* fiber);

#ifdef TENON_FIBER_UCONTEXT

class FiberContext {
 public:
  // The first switch to it calls main(fiber) on that stack.
  void Prepare(char* stack, size_t stack_bytes, FiberMain main, void* fiber) {
    TENON_CHECK(getcontext(&registers_) == 0, "getcontext failed");
    registers_.uc_stack.ss_sp = stack;
    registers_.uc_stack.ss_size = stack_bytes;
    registers_.uc_link = nullptr;
    main_ = main;
    fiber_ = fiber;
    makecontext(&registers_, &Start, 0);
  }

  void SwitchTo(const FiberContext& to) {
    starting_ = &to;
    TENON_CHECK(swapcontext(&registers_, &to.registers_) == 0,
                "swapcontext failed");
  }

 private:
  // makecontext() passes ints only.
  static void Start() { starting_->main_(starting_->fiber_); }
  static inline thread_local const FiberContext* starting_ = nullptr;

  ucontext_t registers_ = {};
  FiberMain main_ = nullptr;
  void* fiber_ = nullptr;
};

#else  // x86-64

// Saves what a callee must preserve, then changes stacks. The control words of
// the floating point units belong to the OS thread and are not changed here.
extern "C" void tenon_fiber_switch(void** save_sp, void* load_sp);
extern "C" void tenon_fiber_start();
asm(R"(
.pushsection .text
.p2align 4
.hidden tenon_fiber_switch
.globl tenon_fiber_switch
.type tenon_fiber_switch, @function
tenon_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tenon_fiber_switch, . - tenon_fiber_switch

.p2align 4
.hidden tenon_fiber_start
.globl tenon_fiber_start
.type tenon_fiber_start, @function
tenon_fiber_start:
  .cfi_startproc
  .cfi_undefined rip
  movq %r12, %rdi
  callq *%r13
  ud2
  .cfi_endproc
.size tenon_fiber_start, . - tenon_fiber_start
.popsection
)");

class FiberContext {
 public:
  // The first switch to it calls main(fiber) on that stack.
  void Prepare(char* stack, size_t stack_bytes, FiberMain main, void* fiber) {
    // As tenon_fiber_switch leaves a stack. Its `ret` goes to the start, with
    // the stack pointer a multiple of 16.
    auto* sp = reinterpret_cast<uint64_t*>(stack + stack_bytes);
    *--sp = 0;
    *--sp = 0;
    *--sp = reinterpret_cast<uint64_t>(&tenon_fiber_start);
    *--sp = 0;                                  // rbp: the frames end here.
    *--sp = 0;                                  // rbx
    *--sp = reinterpret_cast<uint64_t>(fiber);  // r12
    *--sp = reinterpret_cast<uint64_t>(main);   // r13
    *--sp = 0;                                  // r14
    *--sp = 0;                                  // r15
    sp_ = sp;
  }

  void SwitchTo(const FiberContext& to) { tenon_fiber_switch(&sp_, to.sp_); }

 private:
  void* sp_ = nullptr;
};

#endif  // TENON_FIBER_UCONTEXT

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_FIBER_CONTEXT_H_
