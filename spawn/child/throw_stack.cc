// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Where exceptions were thrown: a program that links this tells it with those
// that its children let out (ProcessRaised::stack). Nothing is to be included.
//
// It stands in for __cxa_throw() of the C++ runtime, and notes the addresses of
// the frames before it goes on to that: some microseconds for each throw, in
// all of the program. An exception thrown again keeps its first place.

#include <dlfcn.h>
#include <unwind.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
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

// Of the last throw of each thread. Trivial, so that it can be used at any
// time.
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
  std::ifstream file("/proc/self/maps");
  const std::string maps(std::istreambuf_iterator<char>(file), {});
  std::string stack;
  // The first is the stand-in.
  for (size_t i = 1; i < last_throw.count; ++i) {
    absl::StrAppend(&stack, "#", i - 1, " 0x",
                    absl::Hex(last_throw.addresses[i]), " in ",
                    DescribeAddress(last_throw.addresses[i], maps), "\n");
  }
  return stack;
}

[[maybe_unused]] const bool is_set = (SetThrowStack(DescribeLastThrow), true);

}  // namespace
}  // namespace tenon::spawn

// By another name, since compilers declare the runtime's with different types.
extern "C" [[noreturn]] void TenonThrow(
    void* exception, void* type,
    void (*destructor)(void*)) __asm__("__cxa_throw");

extern "C" void TenonThrow(void* exception, void* type,
                           void (*destructor)(void*)) {
  static const auto next =
      reinterpret_cast<decltype(&TenonThrow)>(dlsym(RTLD_NEXT, "__cxa_throw"));
#ifdef __SANITIZE_ADDRESS__
  // The sanitizer's own stand-in, whose place this one may have taken.
  __asan_handle_no_return();
#endif
  tenon::spawn::last_throw.count = 0;
  _Unwind_Backtrace(tenon::spawn::NoteFrame, &tenon::spawn::last_throw);
  if (next != nullptr) next(exception, type, destructor);
  std::abort();
}
