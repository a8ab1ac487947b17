// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A call of a function as bytes and descriptors; used by start.h, function.h
// and the pool.
//
//   | magic | parcel | signature: "(std::string, std::vector<double>)" |
//   | arguments |
//
// The receiver compares the signature with its own before it reads on. Tensors
// are sent in a parcel (tensor_parcel.h), whose descriptors are the last ones:
// in that of the call for a start; for a message with several calls, in that of
// the message (pool_protocol.h). A call without tensors of its own has an empty
// one.

#ifndef TENON_SPAWN_ARGUMENTS_PACKED_CALL_H_
#define TENON_SPAWN_ARGUMENTS_PACKED_CALL_H_

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
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/plain_arguments.h"

namespace tenon::spawn {

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

// Whether a registered function may have a parameter of this type, whose value
// comes from another process.
template <typename P>
concept Parameter = !std::is_lvalue_reference_v<P> ||
                    std::is_const_v<std::remove_reference_t<P>>;

// kInvalidArgument with both signatures, for `what`.
absl::Status SignatureMismatch(absl::string_view what, absl::string_view takes,
                               absl::string_view given);

// Puts what precedes the arguments, with an empty parcel.
void PutCallHead(const std::string& signature, ArgumentWriter& to);

// For calls that are sent as plain bytes and descriptors, to any number of
// processes: puts the tensors of `call`, a result of PackCall(), into its
// parcel. This process holds them until every process that has the descriptors
// has claimed them. Errors: kResourceExhausted at a limit of descriptors; those
// of Offer() of arena_tensor.h.
absl::StatusOr<PackedArguments> EncloseTensors(PackedArguments call);

// A reader of the arguments of a call, whose bytes must outlive it. Tensors in
// its parcel are claimed; their sender no longer holds them for this process.
// `tensors` are those that were sent beside it. Errors: kInvalidArgument if it
// is not a call, or has another signature; kDataLoss.
absl::StatusOr<ArgumentReader> OpenCall(absl::string_view bytes,
                                        const std::string& signature,
                                        std::vector<UniqueFd> fds,
                                        PackedTensors tensors);

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
  static_assert(sizeof...(T) == sizeof...(A),
                "the call has more or fewer arguments than the function has "
                "parameters");
  static_assert((!(IsGivenAway<T>() && std::is_lvalue_reference_v<A>)&&...),
                "this argument must be moved: std::move() it");
  ArgumentWriter writer;
  PutCallHead(Signature<T...>(), writer);
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

// The reverse. Errors: those of OpenCall(), and those of unpacking an argument.
template <typename... T>
absl::StatusOr<std::tuple<T...>> UnpackCall(absl::string_view bytes,
                                            std::vector<UniqueFd> fds,
                                            PackedTensors tensors = {}) {
  absl::StatusOr<ArgumentReader> reader =
      OpenCall(bytes, Signature<T...>(), std::move(fds), std::move(tensors));
  if (!reader.ok()) return reader.status();
  absl::StatusOr<std::tuple<T...>> values =
      SequenceTraits<T...>::Unpack(*reader);
  if (!values.ok()) return values;
  absl::Status whole = reader->Finish();
  if (!whole.ok()) return whole;
  return values;
}

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_PACKED_CALL_H_
