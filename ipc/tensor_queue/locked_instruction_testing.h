// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Recognises the x86-64 instructions that lock a cache line or drain the store
// buffer, and system calls, by their bytes.

#ifndef TENON_IPC_TENSOR_QUEUE_LOCKED_INSTRUCTION_TESTING_H_
#define TENON_IPC_TENSOR_QUEUE_LOCKED_INSTRUCTION_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon {

// An instruction has at most 15 bytes.
inline constexpr size_t kMaxInstructionBytes = 15;

// Whether the instruction that begins with `code` has a lock prefix, or is xchg
// with memory, which locks without one, or mfence. Bytes that end early are
// none of them.
inline bool IsLockedInstruction(std::span<const uint8_t> code) {
  constexpr uint8_t kLock = 0xf0, kTwoBytes = 0x0f, kFence = 0xae;
  bool others = false;
  size_t at = 0;
  const auto byte = [&](size_t i) { return i < code.size() ? code[i] : 0; };
  const auto is_register = [&](size_t i) { return (byte(i) & 0xc0) == 0xc0; };
  for (; at < code.size(); ++at) {
    switch (code[at]) {
      case kLock:
        return true;
      case 0x26:  // Segments, sizes, rep.
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x64:
      case 0x65:
      case 0x66:
      case 0x67:
      case 0xf2:
      case 0xf3:
        others = others || code[at] >= 0xf2 || code[at] == 0x66;
        continue;
      default:
        break;
    }
    break;
  }
  if ((byte(at) & 0xf0) == 0x40) ++at;  // REX.
  const bool is_xchg = byte(at) == 0x86 || byte(at) == 0x87;
  if (is_xchg) return at + 1 < code.size() && !is_register(at + 1);
  // With another prefix these are umonitor, tpause and umwait.
  return !others && byte(at) == kTwoBytes && byte(at + 1) == kFence &&
         (byte(at + 2) & 0xf8) == 0xf0;
}

// Whether it is a system call.
inline bool IsSyscallInstruction(std::span<const uint8_t> code) {
  return code.size() >= 2 && code[0] == 0x0f && code[1] == 0x05;
}

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_LOCKED_INSTRUCTION_TESTING_H_
