// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FieldSpec: one part of a sample (an image, a label) as a dense tensor.

#ifndef TENON_LOADER_DATA_FIELD_H_
#define TENON_LOADER_DATA_FIELD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// A dense, row-major tensor of a fixed shape. Dtypes are DLPack's.
struct FieldSpec {
  std::string name;
  DLDataType dtype;
  std::vector<int64_t> shape;  // Of one sample; empty for a scalar.

  friend bool operator==(const FieldSpec& a, const FieldSpec& b);
};

// The DLPack dtype of a C++ arithmetic type: DtypeOf<float>() is float32.
template <typename T>
requires std::is_arithmetic_v<T>
constexpr DLDataType DtypeOf() {
  constexpr auto code = std::is_floating_point_v<T> ? kDLFloat
                        : std::is_signed_v<T>       ? kDLInt
                                                    : kDLUInt;
  return DLDataType{static_cast<uint8_t>(code),
                    static_cast<uint8_t>(8 * sizeof(T)), 1};
}

// The size of one sample of this field, computed without overflow.
// Errors: kInvalidArgument for a dtype that does not fill whole bytes or has no
// lanes, a negative extent, or a size over 2^63-1 bytes.
absl::StatusOr<int64_t> FieldBytes(const FieldSpec& field);

// "image: float32[3, 224, 224]".
std::string FieldToString(const FieldSpec& field);

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_FIELD_H_
