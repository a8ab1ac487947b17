// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The entry point of the supervisor as a program of its own, without a C
// library.

#include "tenon/spawn/supervisor/supervisor_main.h"

// The kernel puts argc and argv at the start of the stack.
extern "C" [[noreturn]] void TenonSupervisorBegin(const long* stack) {
  tenon::spawn::SupervisorMain(static_cast<int>(stack[0]),
                               reinterpret_cast<const char* const*>(stack + 1));
}

#if defined(__x86_64__)
__asm__(
    ".globl _start\n"
    "_start:\n"
    "  xor %ebp, %ebp\n"
    "  mov %rsp, %rdi\n"
    "  and $-16, %rsp\n"
    "  call TenonSupervisorBegin\n");
#elif defined(__aarch64__)
__asm__(
    ".globl _start\n"
    "_start:\n"
    "  mov x29, #0\n"
    "  mov x30, #0\n"
    "  mov x0, sp\n"
    "  b TenonSupervisorBegin\n");
#endif
