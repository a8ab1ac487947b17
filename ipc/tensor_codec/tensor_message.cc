// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_codec/tensor_message.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {
namespace {

// In the order of the alternatives of a Field.
constexpr absl::string_view kKinds[] = {"an integer", "a number", "a string",
                                        "a tensor"};
static_assert(std::variant_size_v<TensorMessage::Field> == std::size(kKinds));

template <typename T>
absl::StatusOr<const T*> FieldAt(absl::Span<const TensorMessage::Field> fields,
                                 size_t index) {
  if (index >= fields.size()) {
    return absl::OutOfRangeError(absl::StrCat(
        "TensorMessage: index ", index, " is out of range: the message has ",
        fields.size(), " fields"));
  }
  if (const T* field = std::get_if<T>(&fields[index])) return field;
  return absl::InvalidArgumentError(absl::StrCat(
      "TensorMessage: field ", index, " is ", kKinds[fields[index].index()],
      ", not ", kKinds[TensorMessage::Field(T()).index()]));
}

}  // namespace

TensorMessage& TensorMessage::AddInteger(int64_t value) {
  fields_.emplace_back(std::in_place_type<int64_t>, value);
  return *this;
}

TensorMessage& TensorMessage::Add(double value) {
  fields_.emplace_back(std::in_place_type<double>, value);
  return *this;
}

TensorMessage& TensorMessage::Add(absl::string_view value) {
  fields_.emplace_back(std::in_place_type<std::string>, value.data(),
                       value.size());
  return *this;
}

TensorMessage& TensorMessage::Add(const char* value) {
  return Add(absl::string_view(value));
}

TensorMessage& TensorMessage::Add(std::string value) {
  fields_.emplace_back(std::in_place_type<std::string>, std::move(value));
  return *this;
}

TensorMessage& TensorMessage::Add(const Tensor& value) {
  fields_.emplace_back(std::in_place_type<Tensor>, value);
  return *this;
}

TensorMessage& TensorMessage::Add(Tensor&& value) {
  fields_.emplace_back(std::in_place_type<Tensor>, std::move(value));
  return *this;
}

absl::StatusOr<int64_t> TensorMessage::integer(size_t index) const {
  TENON_ASSIGN_OR_RETURN(const int64_t* field,
                         FieldAt<int64_t>(fields_, index));
  return *field;
}

absl::StatusOr<double> TensorMessage::number(size_t index) const {
  TENON_ASSIGN_OR_RETURN(const double* field, FieldAt<double>(fields_, index));
  return *field;
}

absl::StatusOr<absl::string_view> TensorMessage::string(size_t index) const {
  TENON_ASSIGN_OR_RETURN(const std::string* field,
                         FieldAt<std::string>(fields_, index));
  return absl::string_view(field->data(), field->size());
}

absl::StatusOr<Tensor> TensorMessage::tensor(size_t index) const {
  TENON_ASSIGN_OR_RETURN(const Tensor* field, FieldAt<Tensor>(fields_, index));
  return *field;
}

}  // namespace tenon
