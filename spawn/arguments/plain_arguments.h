// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArgumentTraits of plain types: numbers, enums with a fixed underlying type,
// strings, and vectors, pairs, tuples, optionals and maps of types with traits.

#ifndef TENON_SPAWN_ARGUMENTS_PLAIN_ARGUMENTS_H_
#define TENON_SPAWN_ARGUMENTS_PLAIN_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {

template <ArchivableValue T>
struct ArgumentTraits<T> {
  static std::string Name() { return ReadableTypeName(typeid(T)); }
  static absl::Status Pack(const T& value, ArgumentWriter& to) {
    to.Put(value);
    return absl::OkStatus();
  }
  static absl::StatusOr<T> Unpack(ArgumentReader& from) {
    return from.Get<T>();
  }
};

template <>
struct ArgumentTraits<std::string> {
  static std::string Name() { return "std::string"; }
  static absl::Status Pack(const std::string& value, ArgumentWriter& to) {
    to.PutString(value);
    return absl::OkStatus();
  }
  static absl::StatusOr<std::string> Unpack(ArgumentReader& from) {
    return from.GetString();
  }
};

// The sender states the count, so it is not trusted: elements with bytes end
// with the message; the number of elements without bytes is limited.
inline absl::Status CheckElements(uint64_t count, size_t bytes_of_one) {
  constexpr uint64_t kMaxWithoutBytes = 65'536;
  if (bytes_of_one > 0 || count <= kMaxWithoutBytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("container of ", count,
                                          " elements without bytes; at most ",
                                          kMaxWithoutBytes));
}

template <Argument T>
struct ArgumentTraits<std::vector<T>> {
  // Whether the elements are sent as one copy of their memory.
  static constexpr bool kIsFlat =
      std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
  static constexpr bool kGivenAway = IsGivenAway<T>();

  static std::string Name() {
    return absl::StrCat("std::vector<", ArgumentTraits<T>::Name(), ">");
  }
  static absl::Status Pack(const std::vector<T>& values, ArgumentWriter& to) {
    if constexpr (kIsFlat) {
      to.PutString({reinterpret_cast<const char*>(values.data()),
                    values.size() * sizeof(T)});
    } else {
      to.Put(uint64_t{values.size()});
      for (const T& value : values) {
        absl::Status packed = ArgumentTraits<T>::Pack(value, to);
        if (!packed.ok()) return packed;
      }
    }
    return absl::OkStatus();
  }
  static absl::StatusOr<std::vector<T>> Unpack(ArgumentReader& from) {
    std::vector<T> values;
    if constexpr (kIsFlat) {
      const absl::StatusOr<std::string> bytes = from.GetString();
      if (!bytes.ok()) return bytes.status();
      if (bytes->size() % sizeof(T) != 0) {
        return absl::DataLossError(absl::StrCat("vector of ", bytes->size(),
                                                " bytes; want a multiple of ",
                                                sizeof(T)));
      }
      values.resize(bytes->size() / sizeof(T));
      if (!bytes->empty()) {
        std::memcpy(values.data(), bytes->data(), bytes->size());
      }
    } else {
      // Nothing is reserved for elements that have not been read.
      const absl::StatusOr<uint64_t> size = from.Get<uint64_t>();
      if (!size.ok()) return size.status();
      for (uint64_t i = 0; i < *size; ++i) {
        const size_t left = from.left();
        absl::StatusOr<T> value = ArgumentTraits<T>::Unpack(from);
        if (!value.ok()) return value.status();
        absl::Status limited = CheckElements(*size, left - from.left());
        if (!limited.ok()) return limited;
        values.push_back(*std::move(value));
      }
    }
    return values;
  }
};

template <Argument T>
struct ArgumentTraits<std::optional<T>> {
  static constexpr bool kGivenAway = IsGivenAway<T>();

  static std::string Name() {
    return absl::StrCat("std::optional<", ArgumentTraits<T>::Name(), ">");
  }
  static absl::Status Pack(const std::optional<T>& value, ArgumentWriter& to) {
    to.Put(value.has_value());
    return value ? ArgumentTraits<T>::Pack(*value, to) : absl::OkStatus();
  }
  static absl::StatusOr<std::optional<T>> Unpack(ArgumentReader& from) {
    const absl::StatusOr<bool> has_value = from.Get<bool>();
    if (!has_value.ok()) return has_value.status();
    if (!*has_value) return std::optional<T>();
    absl::StatusOr<T> value = ArgumentTraits<T>::Unpack(from);
    if (!value.ok()) return value.status();
    return std::optional<T>(*std::move(value));
  }
};

template <Argument A, Argument B>
struct ArgumentTraits<std::pair<A, B>> {
  static constexpr bool kGivenAway = IsGivenAway<A>() || IsGivenAway<B>();

  static std::string Name() {
    return absl::StrCat("std::pair<", ArgumentTraits<A>::Name(), ", ",
                        ArgumentTraits<B>::Name(), ">");
  }
  static absl::Status Pack(const std::pair<A, B>& value, ArgumentWriter& to) {
    absl::Status packed = ArgumentTraits<A>::Pack(value.first, to);
    if (!packed.ok()) return packed;
    return ArgumentTraits<B>::Pack(value.second, to);
  }
  static absl::StatusOr<std::pair<A, B>> Unpack(ArgumentReader& from) {
    absl::StatusOr<A> a = ArgumentTraits<A>::Unpack(from);
    if (!a.ok()) return a.status();
    absl::StatusOr<B> b = ArgumentTraits<B>::Unpack(from);
    if (!b.ok()) return b.status();
    return std::pair<A, B>(*std::move(a), *std::move(b));
  }
};

template <Argument K, Argument V>
struct ArgumentTraits<std::map<K, V>> {
  static constexpr bool kGivenAway = IsGivenAway<K>() || IsGivenAway<V>();

  static std::string Name() {
    return absl::StrCat("std::map<", ArgumentTraits<K>::Name(), ", ",
                        ArgumentTraits<V>::Name(), ">");
  }
  static absl::Status Pack(const std::map<K, V>& values, ArgumentWriter& to) {
    to.Put(uint64_t{values.size()});
    for (const auto& [key, value] : values) {
      absl::Status packed = ArgumentTraits<K>::Pack(key, to);
      if (packed.ok()) packed = ArgumentTraits<V>::Pack(value, to);
      if (!packed.ok()) return packed;
    }
    return absl::OkStatus();
  }
  static absl::StatusOr<std::map<K, V>> Unpack(ArgumentReader& from) {
    const absl::StatusOr<uint64_t> size = from.Get<uint64_t>();
    if (!size.ok()) return size.status();
    std::map<K, V> values;
    for (uint64_t i = 0; i < *size; ++i) {
      const size_t left = from.left();
      absl::StatusOr<K> key = ArgumentTraits<K>::Unpack(from);
      if (!key.ok()) return key.status();
      absl::StatusOr<V> value = ArgumentTraits<V>::Unpack(from);
      if (!value.ok()) return value.status();
      absl::Status limited = CheckElements(*size, left - from.left());
      if (!limited.ok()) return limited;
      values.emplace(*std::move(key), *std::move(value));
    }
    return values;
  }
};

// Values packed one after the other, without a name or a count.
template <typename... T>
struct SequenceTraits {
  static_assert((RequireArgument<T>::kIsChecked && ...));

  static std::string Names() {
    std::string names;
    ((names += (names.empty() ? "" : ", ") + ArgumentTraits<T>::Name()), ...);
    return names;
  }
  static absl::Status Pack(const T&... values, ArgumentWriter& to) {
    absl::Status status;
    ((status.ok() ? status = ArgumentTraits<T>::Pack(values, to) : status),
     ...);
    return status;
  }
  static absl::StatusOr<std::tuple<T...>> Unpack(ArgumentReader& from) {
    absl::Status status;
    // Braces: evaluated from left to right. After an error, reads no more.
    std::tuple<std::unique_ptr<T>...> values{UnpackOne<T>(from, status)...};
    if (!status.ok()) return status;
    return std::apply(
        [](auto&... value) { return std::tuple<T...>(std::move(*value)...); },
        values);
  }

 private:
  template <typename U>
  static std::unique_ptr<U> UnpackOne(ArgumentReader& from,
                                      absl::Status& status) {
    if (!status.ok()) return nullptr;
    absl::StatusOr<U> value = ArgumentTraits<U>::Unpack(from);
    if (value.ok()) return std::make_unique<U>(*std::move(value));
    status = value.status();
    return nullptr;
  }
};

template <Argument... T>
struct ArgumentTraits<std::tuple<T...>> {
  static constexpr bool kGivenAway = (IsGivenAway<T>() || ...);

  static std::string Name() {
    return absl::StrCat("std::tuple<", SequenceTraits<T...>::Names(), ">");
  }
  static absl::Status Pack(const std::tuple<T...>& value, ArgumentWriter& to) {
    return std::apply(
        [&](const T&... each) {
          return SequenceTraits<T...>::Pack(each..., to);
        },
        value);
  }
  static absl::StatusOr<std::tuple<T...>> Unpack(ArgumentReader& from) {
    return SequenceTraits<T...>::Unpack(from);
  }
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_PLAIN_ARGUMENTS_H_
