// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// From the answer of a pool's worker to a value; used by process_pool.h and
// result_stream.h.

#ifndef TENON_SPAWN_POOL_POOL_RECEIVER_H_
#define TENON_SPAWN_POOL_POOL_RECEIVER_H_

#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {

// Receives the answer of a call. Called once, or destroyed uncalled.
class PoolReceiver {
 public:
  virtual ~PoolReceiver() = default;
  virtual void Receive(absl::StatusOr<PackedArguments> answer) = 0;
  // Which input of a Map() or Stream() the call has, for its error.
  virtual std::optional<size_t> input() const { return std::nullopt; }
};

namespace internal_pool {

// A result of type T; std::monostate for void.
template <typename T>
using Held = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <typename T>
absl::StatusOr<T> UnpackValue(PackedArguments answer) {
  ArgumentReader reader(answer.bytes, std::move(answer.fds),
                        std::move(answer.tensors));
  absl::StatusOr<T> value = ArgumentTraits<T>::Unpack(reader);
  if (!value.ok()) return value;
  const absl::Status whole = reader.Finish();
  if (!whole.ok()) return whole;
  return value;
}

// An exception from a user's type becomes an error: usually no user code that
// could catch it is on this thread's stack.
template <typename T>
absl::StatusOr<Held<T>> UnpackResult(absl::StatusOr<PackedArguments> answer) {
  if (!answer.ok()) return std::move(answer).status();
  if constexpr (std::is_void_v<T>) {
    return std::monostate();
  } else {
    try {
      return UnpackValue<T>(*std::move(answer));
    } catch (const std::exception& e) {
      return absl::InternalError(
          absl::StrCat("cannot unpack the result: ", e.what()));
    } catch (...) {
      return absl::InternalError(
          "cannot unpack the result: it threw an object that is not a "
          "std::exception");
    }
  }
}

}  // namespace internal_pool
}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_POOL_RECEIVER_H_
