// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Records where exceptions are thrown: a program that links this adds the stack
// to exceptions that its children throw (ProcessRaised::stack). There is no
// header.
//
// It replaces __cxa_throw() of the C++ runtime, and records the addresses of
// the frames before it calls the original: some microseconds for each throw, in
// all of the program. A rethrown exception keeps its first stack.

#include <dlfcn.h>
#include <unwind.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/read_file.h"
#include "tenon/spawn/child/call_entry.h"
#include "tenon/spawn/report/crash_record.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace tenon::spawn {
namespace {

constexpr size_t kMaxFrames = 64;

struct Frames {
  uintptr_t addresses[kMaxFrames];
  size_t count;
};

// The last throw of each thread. Trivial, so that it can be used at any time.
thread_local constinit Frames last_throw = {};

_Unwind_Reason_Code NoteFrame(_Unwind_Context* context, void* argument) {
  Frames& frames = *static_cast<Frames*>(argument);
  if (frames.count == kMaxFrames) return _URC_END_OF_STACK;
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0) return _URC_END_OF_STACK;
  frames.addresses[frames.count++] = address;
  return _URC_NO_REASON;
}

std::string DescribeLastThrow() {
  const std::string maps = ReadFile("/proc/self/maps").value_or("");
  std::string stack;
  // The first frame is this replacement.
  for (size_t i = 1; i < last_throw.count; ++i) {
    absl::StrAppend(&stack, "#", i - 1, " 0x",
                    absl::Hex(last_throw.addresses[i]), " in ",
                    DescribeAddress(last_throw.addresses[i], maps), "\n");
  }
  return stack;
}

[[maybe_unused]] const bool kIsSet = (SetThrowStack(DescribeLastThrow), true);

}  // namespace
}  // namespace tenon::spawn

// Under another name, since compilers declare the runtime's function with
// different types.
extern "C" [[noreturn]] void TenonThrow(
    void* exception, void* type,
    void (*destructor)(void*)) __asm__("__cxa_throw");

extern "C" void TenonThrow(void* exception, void* type,
                           void (*destructor)(void*)) {
  static const auto next =
      reinterpret_cast<decltype(&TenonThrow)>(dlsym(RTLD_NEXT, "__cxa_throw"));
#ifdef __SANITIZE_ADDRESS__
  // The sanitizer's own replacement, which this one may have displaced.
  __asan_handle_no_return();
#endif
  tenon::spawn::last_throw.count = 0;
  _Unwind_Backtrace(tenon::spawn::NoteFrame, &tenon::spawn::last_throw);
  if (next != nullptr) next(exception, type, destructor);
  std::abort();
}
