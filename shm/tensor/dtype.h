// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Element types: between C++'s and DLPack's.
//
//   constexpr DLDataType dtype = kDtypeOf<float>;  // {kDLFloat, 32, 1}
//   DtypeName(dtype);                              // "float32"
//
// For an element type of your own (a half, four floats) specify its dtype:
//
//   template <>
//   struct tenon::DtypeTraits<MyHalf> {
//     static constexpr DLDataType kDtype = {kDLFloat, 16, 1};
//   };

#ifndef TENON_SHM_TENSOR_DTYPE_H_
#define TENON_SHM_TENSOR_DTYPE_H_

#include <complex>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "dlpack/dlpack.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// kDLBool, in DLPack's headers since 1.0: a byte that is 0 or 1.
inline constexpr uint8_t kBoolCode = 6;

// Specialise for your own types, for which any bytes must be a valid value.
template <typename T>
struct DtypeTraits {};

// Integers, but neither characters, which are text, nor bool: not every byte is
// a valid bool, and elements may come from another process. A tensor of bools
// is read and written as uint8_t.
template <typename T>
concept IntegerElement =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
    !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
    !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

template <IntegerElement T>
struct DtypeTraits<T> {
  static constexpr DLDataType kDtype = {
      std::signed_integral<T> ? kDLInt : kDLUInt, 8 * sizeof(T), 1};
};

template <>
struct DtypeTraits<float> {
  static constexpr DLDataType kDtype = {kDLFloat, 32, 1};
};

template <>
struct DtypeTraits<double> {
  static constexpr DLDataType kDtype = {kDLFloat, 64, 1};
};

template <>
struct DtypeTraits<std::complex<float>> {
  static constexpr DLDataType kDtype = {kDLComplex, 64, 1};
};

template <>
struct DtypeTraits<std::complex<double>> {
  static constexpr DLDataType kDtype = {kDLComplex, 128, 1};
};

// A type as which elements can be accessed.
template <typename T>
concept TensorElement = std::is_trivially_copyable_v<T> && requires {
  { DtypeTraits<T>::kDtype } -> std::convertible_to<DLDataType>;
} &&
    sizeof(T) == DtypeTraits<T>::kDtype.bits / 8 * DtypeTraits<T>::kDtype.lanes;

template <TensorElement T>
inline constexpr DLDataType kDtypeOf = DtypeTraits<T>::kDtype;

// "float32", "uint8x4", "bool8"; an unknown code by its number.
std::string DtypeName(DLDataType dtype);

constexpr bool SameDtype(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_DTYPE_H_
