// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// How a crash record begins; see crash_record.h.

#ifndef TENON_SPAWN_REPORT_CRASH_LAYOUT_H_
#define TENON_SPAWN_REPORT_CRASH_LAYOUT_H_

#include <cstdint>
#include <type_traits>

namespace tenon::spawn {

inline constexpr uint32_t kMaxCrashFrames = 128;

// Followed by `frames` addresses of 64 bits.
struct CrashHeader {
  static constexpr uint32_t kMagic = 0x73617263;  // "cras"
  uint32_t magic = kMagic;
  int32_t signal = 0;
  int64_t time_ns = 0;
  uint64_t fault_address = 0;
  uint32_t frames = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(CrashHeader) == 32);
static_assert(std::is_trivially_copyable_v<CrashHeader>);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_CRASH_LAYOUT_H_
