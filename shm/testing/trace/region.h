// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BeginRegion(), EndRegion(): mark the part of a test's body that is
// single-stepped, or whose system calls fail.
//
//   Setup();
//   BeginRegion();
//   ring.Put(message);
//   EndRegion();
//
// They act only in a process that a tracer (single_stepper.h, syscall_failer.h)
// has started; elsewhere they cost a load and a branch.

#ifndef TENON_SHM_TESTING_TRACE_REGION_H_
#define TENON_SHM_TESTING_TRACE_REGION_H_

#include <atomic>
#include <cstdint>

namespace tenon {
namespace internal_region {

// In memory that the traced process shares with its tracer.
struct Marks {
  std::atomic<uint32_t> begun{0};
  std::atomic<uint32_t> ended{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Not null in a traced process.
inline constinit Marks* marks = nullptr;

}  // namespace internal_region

// The region begins at the next instruction: always inlined; a trap after which
// the tracer sees that instruction as the next one. Memory accesses do not move
// across it. A second region of one process is not stepped through.
[[gnu::always_inline]] inline void BeginRegion() {
#if defined(__x86_64__)
  if (internal_region::marks == nullptr) return;
  internal_region::marks->begun.fetch_add(1, std::memory_order_seq_cst);
  asm volatile("int3" : : : "memory");
#endif
}

// The region ends here; about five instructions of this are part of it.
[[gnu::always_inline]] inline void EndRegion() {
  asm volatile("" : : : "memory");
  if (internal_region::marks == nullptr) return;
  internal_region::marks->ended.fetch_add(1, std::memory_order_seq_cst);
}

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_REGION_H_
