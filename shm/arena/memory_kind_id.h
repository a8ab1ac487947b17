// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MemoryKindId: what kind of memory an arena's blocks are in.
// DeviceIdentity: on which device.

#ifndef TENON_SHM_ARENA_MEMORY_KIND_ID_H_
#define TENON_SHM_ARENA_MEMORY_KIND_ID_H_

#include <array>
#include <cstdint>
#include <string>

namespace tenon {

// Part of the format of arenas, so a number is never given anew. A received one
// is untrusted and may be any number.
enum class MemoryKindId : uint64_t {
  kCpu = 0,         // Segments that are mapped.
  kCuda = 1,        // Allocations of a CUDA device, shared by descriptor.
  kCudaLegacy = 2,  // Shared by CUDA's older handles.
};

// Kinds have numbers below this.
inline constexpr uint64_t kMaxMemoryKinds = 16;

// For errors: "kind 1 (CUDA)", "kind 7".
std::string NameOf(MemoryKindId kind);
// For reports: "CPU", "CUDA", "kind 7".
std::string ShortNameOf(MemoryKindId kind);

// The same in all processes: the UUID of a GPU. Zeros if a kind has no devices.
using DeviceIdentity = std::array<uint8_t, 16>;

// As a UUID, 8-4-4-4-12 lower-case digits; empty if it is zeros.
std::string TextOf(const DeviceIdentity& device);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_MEMORY_KIND_ID_H_
