// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TENON_SPAWN_FUNCTION: entry points with parameters of their own.
//
//   #include "tenon/spawn/arguments/shm_arguments.h"  // Tensors travel.
//
//   absl::Status Train(int index, std::string model, std::vector<double> rates,
//                      Tensor weights) {
//     return absl::OkStatus();
//   }
//   TENON_SPAWN_FUNCTION(Train);
//
//   absl::StatusOr<spawn::Processes> workers =
//       spawn::Start(8, Train, {}, "resnet", rates, weights);  // start.h
//
// Each parameter is of a type with ArgumentTraits (argument.h), taken by value
// or as a const reference. The first is the index. The function returns
// absl::Status or nothing.

#ifndef TENON_SPAWN_CHILD_FUNCTION_H_
#define TENON_SPAWN_CHILD_FUNCTION_H_

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/child/entry.h"

namespace tenon::spawn {

// Takes all descriptors of a child, in their order.
std::vector<UniqueFd> TakeAllFds(Child& child);

namespace internal_function {

template <typename R, typename... P>
struct Typed {
  static_assert((Parameter<P> && ...),
                "TENON_SPAWN_FUNCTION(f): f takes its parameters by value or "
                "as const references");
  static_assert(std::is_void_v<R> || std::is_same_v<R, absl::Status>,
                "TENON_SPAWN_FUNCTION(f): f returns absl::Status or void");
  static_assert((RequireArgument<std::decay_t<P>>::kIsChecked && ...));

  using Pointer = R (*)(int, P...);

  static std::string Signature() {
    return ::tenon::spawn::Signature<std::decay_t<P>...>();
  }

  static absl::Status Run(Pointer function, Child& child) {
    absl::StatusOr<std::tuple<std::decay_t<P>...>> arguments =
        UnpackCall<std::decay_t<P>...>(child.argument_view(),
                                       TakeAllFds(child));
    if (!arguments.ok()) return arguments.status();
    const auto call = [&](auto&... argument) {
      return function(child.index(), std::move(argument)...);
    };
    if constexpr (std::is_void_v<R>) {
      std::apply(call, *arguments);
      return absl::OkStatus();
    } else {
      return std::apply(call, *arguments);
    }
  }
};

template <typename R, typename... P>
Typed<R, P...> TypeOf(R (*)(int, P...));

}  // namespace internal_function

template <auto kFunction>
concept CanBeSpawned = requires {
  internal_function::TypeOf(kFunction);
};

// Registers a function; called by TENON_SPAWN_FUNCTION.
template <auto kFunction>
bool RegisterFunction(absl::string_view name) {
  static_assert(CanBeSpawned<kFunction>,
                "TENON_SPAWN_FUNCTION(f): f is a function or a static member "
                "function, absl::Status f(int index, P...) or void f(int "
                "index, P...); not a lambda, object or member function");
  using Typed = decltype(internal_function::TypeOf(kFunction));
  return RegisterTypedEntry(
      name, +[](Child& child) { return Typed::Run(kFunction, child); },
      Typed::Signature(), reinterpret_cast<void (*)()>(kFunction));
}

}  // namespace tenon::spawn

// At namespace scope in a .cc file; `function` is registered under the name as
// written. In a library, the target needs `alwayslink = True`.
#define TENON_SPAWN_FUNCTION(function) \
  TENON_SPAWN_FUNCTION_(function, __COUNTER__)
#define TENON_SPAWN_FUNCTION_(function, n) \
  TENON_SPAWN_FUNCTION_INNER_(function, n)
#define TENON_SPAWN_FUNCTION_INNER_(function, n)                \
  [[maybe_unused]] static const bool tenon_spawn_function_##n = \
      ::tenon::spawn::RegisterFunction<function>(#function)

#endif  // TENON_SPAWN_CHILD_FUNCTION_H_
