// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SharedMemorySafe: types whose objects mean the same in every process.
//
//   struct Progress {
//     int64_t step;
//     std::atomic<uint32_t> errors;
//     char phase[16];
//   };
//   static_assert(SharedMemorySafe<Progress>);
//   static_assert(!SharedMemorySafe<std::string_view>);
//
// A pointer means something in one process only, and so does an atomic that
// takes a lock. C++ cannot enumerate the fields of every type, so these are
// safe: numbers, enums, lock-free atomics, arrays of safe types, and aggregates
// of up to 8 safe fields without base classes. Vouch for another type that you
// know to be safe:
//
//   template <>
//   inline constexpr bool tenon::kVouchedSharedMemorySafe<Matrix> = true;

#ifndef TENON_SHM_VALUE_SHARED_MEMORY_SAFE_H_
#define TENON_SHM_VALUE_SHARED_MEMORY_SAFE_H_

#include <array>
#include <atomic>
#include <complex>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Specialise for trivially copyable types whose fields cannot be inspected:
// classes with private fields or base classes, unions, large structs.
template <typename T>
inline constexpr bool kVouchedSharedMemorySafe = false;
template <>
inline constexpr bool kVouchedSharedMemorySafe<std::complex<float>> = true;
template <>
inline constexpr bool kVouchedSharedMemorySafe<std::complex<double>> = true;

namespace internal_shared_memory_safe {

template <typename T>
consteval bool IsSafe();

// The number of an aggregate's fields, found by the number of initialisers that
// it accepts; at most one more than can be inspected.
template <typename T>
consteval size_t CountFields() {
  if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}}; }) return 9;
  if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}}; }) return 8;
  if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}}; }) return 7;
  if constexpr (requires { T{{}, {}, {}, {}, {}, {}}; }) return 6;
  if constexpr (requires { T{{}, {}, {}, {}, {}}; }) return 5;
  if constexpr (requires { T{{}, {}, {}, {}}; }) return 4;
  if constexpr (requires { T{{}, {}, {}}; }) return 3;
  if constexpr (requires { T{{}, {}}; }) return 2;
  if constexpr (requires { T{{}}; }) return 1;
  return 0;
}

template <typename... Field>
struct Fields {
  static consteval bool AreSafe() { return (IsSafe<Field>() && ...); }
};

// Never called: its type carries the types of the fields.
template <typename T>
auto FieldsOf(T& object) {
  constexpr size_t count = CountFields<T>();
  if constexpr (count == 1) {
    auto& [a] = object;
    return Fields<decltype(a)>();
  } else if constexpr (count == 2) {
    auto& [a, b] = object;
    return Fields<decltype(a), decltype(b)>();
  } else if constexpr (count == 3) {
    auto& [a, b, c] = object;
    return Fields<decltype(a), decltype(b), decltype(c)>();
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = object;
    return Fields<decltype(a), decltype(b), decltype(c), decltype(d)>();
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = object;
    return Fields<decltype(a), decltype(b), decltype(c), decltype(d),
                  decltype(e)>();
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, f] = object;
    return Fields<decltype(a), decltype(b), decltype(c), decltype(d),
                  decltype(e), decltype(f)>();
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, f, g] = object;
    return Fields<decltype(a), decltype(b), decltype(c), decltype(d),
                  decltype(e), decltype(f), decltype(g)>();
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, f, g, h] = object;
    return Fields<decltype(a), decltype(b), decltype(c), decltype(d),
                  decltype(e), decltype(f), decltype(g), decltype(h)>();
  } else {
    return Fields<>();
  }
}

template <typename T>
inline constexpr bool kIsSafeAtomic = false;
template <typename T>
inline constexpr bool kIsSafeAtomic<std::atomic<T>> =
    std::atomic<T>::is_always_lock_free&& IsSafe<T>();

template <typename T>
inline constexpr bool kIsSafeArray = false;
template <typename T, size_t kSize>
inline constexpr bool kIsSafeArray<T[kSize]> = IsSafe<T>();
template <typename T, size_t kSize>
inline constexpr bool kIsSafeArray<std::array<T, kSize>> = IsSafe<T>();

// Structured bindings of these types do not bind their fields.
template <typename T>
concept IsTupleLike = requires {
  std::tuple_size<T>::value;
};

// Equal answers to different questions, whose order matters.
// NOLINTBEGIN(bugprone-branch-clone)
template <typename T>
consteval bool IsSafe() {
  if constexpr (std::is_const_v<T> || std::is_volatile_v<T>) {
    return false;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return true;
  } else if constexpr (kVouchedSharedMemorySafe<T>) {
    return std::is_trivially_copyable_v<T>;
  } else if constexpr (kIsSafeAtomic<T> || kIsSafeArray<T>) {
    return true;
  } else if constexpr (!std::is_class_v<T> || IsTupleLike<T> ||
                       !std::is_aggregate_v<T> ||
                       !std::is_trivially_destructible_v<T>) {
    return false;
  } else if constexpr (CountFields<T>() == 0) {
    return std::is_empty_v<T>;  // Otherwise a field has no default.
  } else if constexpr (CountFields<T>() > 8) {
    return false;
  } else {
    return decltype(FieldsOf(std::declval<T&>()))::AreSafe();
  }
}
// NOLINTEND(bugprone-branch-clone)

}  // namespace internal_shared_memory_safe

// An aggregate with a base class, or with a reference that has a default, does
// not compile here instead of being unsafe.
template <typename T>
concept SharedMemorySafe = std::is_object_v<T> &&
    internal_shared_memory_safe::IsSafe<T>();

}  // namespace tenon

#endif  // TENON_SHM_VALUE_SHARED_MEMORY_SAFE_H_
