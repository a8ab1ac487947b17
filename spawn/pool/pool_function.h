// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TENON_POOL_FUNCTION: functions that a ProcessPool runs.
//
//   #include "tenon/spawn/arguments/shm_arguments.h"  // Tensors travel.
//
//   absl::StatusOr<Tensor> Decode(std::string path, int size) {
//     return Tensor::Create(kDtypeOf<float>, {size, size});
//   }
//   TENON_POOL_FUNCTION(Decode);
//
// Parameters and result are of types with ArgumentTraits (argument.h);
// parameters are taken by value or as const references. The result may be void,
// absl::Status, T, or absl::StatusOr<T>.

#ifndef TENON_SPAWN_POOL_POOL_FUNCTION_H_
#define TENON_SPAWN_POOL_POOL_FUNCTION_H_

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"

namespace tenon::spawn {

// From a received call to a result to be sent.
using PooledFunction =
    absl::StatusOr<PackedArguments> (*)(PackedArguments call);

struct PoolFunctionRecord {
  PooledFunction function = nullptr;
  // "(std::string, int) -> tenon::Tensor".
  std::string signature;
  void (*key)() = nullptr;
};

// Registers a function; called by TENON_POOL_FUNCTION before main(), or while
// threads run. A second function of the same name ends the program with a
// message.
bool RegisterPoolFunction(absl::string_view name, PoolFunctionRecord record);

std::optional<PoolFunctionRecord> FindPoolFunction(absl::string_view name);
std::optional<std::string> PoolFunctionNameOf(void (*key)());
std::vector<std::string> PoolFunctionNames();

namespace internal_pool {

// The type of a function's result as a Future's value.
template <typename R>
struct ResultOf {
  using Type = R;
};
template <>
struct ResultOf<absl::Status> {
  using Type = void;
};
template <typename T>
struct ResultOf<absl::StatusOr<T>> {
  using Type = T;
};

template <typename T>
std::string ResultName() {
  if constexpr (std::is_void_v<T>) {
    return "void";
  } else {
    return ArgumentTraits<T>::Name();
  }
}

template <typename T>
absl::StatusOr<PackedArguments> PackResult(const T& value) {
  ArgumentWriter writer;
  absl::Status status = ArgumentTraits<T>::Pack(value, writer);
  if (status.ok()) {
    absl::StatusOr<PackedArguments> packed = std::move(writer).Finish();
    if (packed.ok()) return packed;
    status = packed.status();
  }
  return absl::Status(status.code(), absl::StrCat("cannot pack the result: ",
                                                  status.message()));
}

template <typename R, typename... P>
struct Pooled {
  static_assert((Parameter<P> && ...),
                "TENON_POOL_FUNCTION(f): f takes its parameters by value or as "
                "const references, and returns its result");
  static_assert(!std::is_reference_v<R>,
                "TENON_POOL_FUNCTION(f): f returns void, absl::Status, a value "
                "or absl::StatusOr of a value; not a reference");
  using Result = typename ResultOf<R>::Type;
  static_assert((RequireArgument<std::decay_t<P>>::kIsChecked && ...));
  static_assert(RequireArgument<std::conditional_t<std::is_void_v<Result>, int,
                                                   Result>>::kIsChecked);

  static std::string Signature() {
    return absl::StrCat(::tenon::spawn::Signature<std::decay_t<P>...>(), " -> ",
                        ResultName<Result>());
  }

  static absl::StatusOr<PackedArguments> Run(R (*function)(P...),
                                             PackedArguments call) {
    absl::StatusOr<std::tuple<std::decay_t<P>...>> arguments =
        UnpackCall<std::decay_t<P>...>(call.bytes, std::move(call.fds),
                                       std::move(call.tensors));
    if (!arguments.ok()) return arguments.status();
    const auto apply = [&](auto&... argument) -> R {
      return function(std::move(argument)...);
    };
    if constexpr (std::is_void_v<R>) {
      std::apply(apply, *arguments);
      return PackedArguments();
    } else if constexpr (std::is_same_v<R, absl::Status>) {
      absl::Status status = std::apply(apply, *arguments);
      if (!status.ok()) return status;
      return PackedArguments();
    } else if constexpr (std::is_same_v<R, Result>) {
      return PackResult<Result>(std::apply(apply, *arguments));
    } else {
      const R result = std::apply(apply, *arguments);
      if (!result.ok()) return result.status();
      return PackResult<Result>(*result);
    }
  }
};

template <typename R, typename... P>
Pooled<R, P...> PooledOf(R (*)(P...));

}  // namespace internal_pool

template <auto kFunction>
concept CanBePooled = requires {
  internal_pool::PooledOf(kFunction);
};

template <auto kFunction>
bool RegisterPooled(absl::string_view name) {
  static_assert(CanBePooled<kFunction>,
                "TENON_POOL_FUNCTION(f): f is a function or a static member "
                "function, R f(P...), where R is void, absl::Status, T or "
                "absl::StatusOr<T>; not a lambda, object or member function");
  using Pooled = decltype(internal_pool::PooledOf(kFunction));
  return RegisterPoolFunction(
      name, {.function =
                 [](PackedArguments call) {
                   return Pooled::Run(kFunction, std::move(call));
                 },
             .signature = Pooled::Signature(),
             .key = reinterpret_cast<void (*)()>(kFunction)});
}

}  // namespace tenon::spawn

// At namespace scope in a .cc file; `function` is registered under the name as
// written. In a library, the target needs `alwayslink = True`.
#define TENON_POOL_FUNCTION(function) \
  TENON_POOL_FUNCTION_(function, __COUNTER__)
#define TENON_POOL_FUNCTION_(function, n) \
  TENON_POOL_FUNCTION_INNER_(function, n)
#define TENON_POOL_FUNCTION_INNER_(function, n)                \
  [[maybe_unused]] static const bool tenon_pool_function_##n = \
      ::tenon::spawn::RegisterPooled<function>(#function)

#endif  // TENON_SPAWN_POOL_POOL_FUNCTION_H_
