// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ValueHeader: the first bytes of the segment behind a Value or an Array.
//
//   0       8         12              16          20     24      32     64
//   | magic | version | element_bytes | alignment | type | count | zero | ...
//
// The magic number is stored last (release), after the elements have been
// constructed: a reader that sees it (acquire) sees the rest.

#ifndef TENON_SHM_VALUE_VALUE_HEADER_H_
#define TENON_SHM_VALUE_VALUE_HEADER_H_

#include <cstdint>
#include <type_traits>

namespace tenon {

struct ValueHeader {
  static constexpr uint64_t kMagic = 0x6c61566e6f6e6554;  // "TenonVal"
  static constexpr uint32_t kVersion = 1;

  uint64_t magic;
  uint32_t version;
  uint32_t element_bytes;
  uint32_t alignment;
  uint32_t type;  // Of a DLDataType: code << 24 | bits << 16 | lanes.
  uint64_t count;
  uint64_t zero[4];
};
static_assert(sizeof(ValueHeader) == 64);
static_assert(std::is_trivially_copyable_v<ValueHeader>);

}  // namespace tenon

#endif  // TENON_SHM_VALUE_VALUE_HEADER_H_
