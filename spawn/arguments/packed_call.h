// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A call of a function as bytes and descriptors; used by start.h, function.h
// and the pool.
//
//   | magic | signature: "(std::string, std::vector<double>)" | arguments |
//
// The receiver compares the signature with its own before it reads on. Tensors
// in blocks of arenas are sent beside the call: in a parcel for a message with
// several calls (pool_protocol.h), or in front of the call for a start:
//
//   | other magic | its descriptors, the last ones | length |
//   | parcel (tensor_parcel.h) | call |

#ifndef TENON_SPAWN_ARGUMENTS_PACKED_CALL_H_
#define TENON_SPAWN_ARGUMENTS_PACKED_CALL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/plain_arguments.h"

namespace tenon::spawn {

inline constexpr uint32_t kCallMagic = 0x6c6c6163;     // "call"
inline constexpr uint32_t kTensorsMagic = 0x736e6574;  // "tens"

// The type as which an argument is sent: its own, but std::string for text.
template <typename T>
using TravelsAs =
    std::conditional_t<std::is_convertible_v<T, std::string_view> ||
                           std::is_convertible_v<T, absl::string_view>,
                       std::string, std::decay_t<T>>;

// "(std::string, double)".
template <typename... T>
std::string Signature() {
  return absl::StrCat("(", SequenceTraits<T...>::Names(), ")");
}

// kInvalidArgument with both signatures, for `what`.
absl::Status SignatureMismatch(absl::string_view what, absl::string_view takes,
                               absl::string_view given);

// Checks the header of a call and returns the rest of its bytes. Errors:
// kInvalidArgument if it is not a call, or has another signature.
absl::StatusOr<absl::string_view> CheckCall(absl::string_view bytes,
                                            const std::string& signature);

// For calls that are sent as plain bytes and descriptors, to any number of
// processes: puts the tensors of `call`, if it has any, in front of the rest.
// This process holds them until every process that has the descriptors has
// claimed them. Errors: kResourceExhausted at a limit of descriptors; those of
// Offer() of arena_tensor.h.
absl::StatusOr<PackedArguments> EncloseTensors(PackedArguments call);

// The reverse: each tensor is claimed, or the error of its claim; their sender
// no longer holds them for this process. Errors: kDataLoss.
struct EnclosedTensors {
  absl::string_view call;  // Within the bytes.
  std::vector<UniqueFd> fds;
  std::vector<absl::StatusOr<Tensor>> tensors;
};
absl::StatusOr<EnclosedTensors> TakeTensors(absl::string_view bytes,
                                            std::vector<UniqueFd> fds);

// Destroys a value that was passed by std::move().
template <typename T>
void Consume(T&& value) {
  if constexpr (!std::is_lvalue_reference_v<T> && !std::is_const_v<T> &&
                std::is_move_constructible_v<T>) {
    [[maybe_unused]] const T taken(std::forward<T>(value));
  }
}

// Packs `arguments` as the parameters `T`; arguments passed by std::move() are
// moved from afterwards, all others are only borrowed.
template <typename... T, typename... A>
absl::StatusOr<PackedArguments> PackCall(A&&... arguments) {
  static_assert((Argument<T> && ...),
                "an argument of this type cannot be sent: it has no "
                "ArgumentTraits (argument.h), or their header is missing");
  static_assert((!(IsGivenAway<T>() && std::is_lvalue_reference_v<A>)&&...),
                "this argument must be moved: std::move() it");
  ArgumentWriter writer;
  writer.Put(kCallMagic);
  writer.PutString(Signature<T...>());
  absl::Status status =
      SequenceTraits<T...>::Pack(static_cast<const T&>(arguments)..., writer);
  (Consume(std::forward<A>(arguments)), ...);
  if (status.ok()) {
    absl::StatusOr<PackedArguments> packed = std::move(writer).Finish();
    if (packed.ok()) return packed;
    status = packed.status();
  }
  return absl::Status(status.code(), absl::StrCat("cannot pack an argument: ",
                                                  status.message()));
}

// The reverse. Errors: those of CheckCall(), and those of unpacking an
// argument.
template <typename... T>
absl::StatusOr<std::tuple<T...>> UnpackCall(
    absl::string_view bytes, std::vector<UniqueFd> fds,
    std::vector<absl::StatusOr<Tensor>> tensors) {
  TENON_ASSIGN_OR_RETURN(const absl::string_view arguments,
                         CheckCall(bytes, Signature<T...>()));
  ArgumentReader reader(arguments, std::move(fds), std::move(tensors));
  TENON_ASSIGN_OR_RETURN(std::tuple<T...> values,
                         SequenceTraits<T...>::Unpack(reader));
  TENON_RETURN_IF_ERROR(reader.Finish());
  return values;
}

// UnpackCall() for the result of EncloseTensors().
template <typename... T>
absl::StatusOr<std::tuple<T...>> UnpackCall(absl::string_view bytes,
                                            std::vector<UniqueFd> fds) {
  TENON_ASSIGN_OR_RETURN(EnclosedTensors enclosed,
                         TakeTensors(bytes, std::move(fds)));
  return UnpackCall<T...>(enclosed.call, std::move(enclosed.fds),
                          std::move(enclosed.tensors));
}

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_PACKED_CALL_H_
