// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorMessage: a sequence of tensors, strings and scalars in an order on
// which sender and receiver agree.
//
//   TensorMessage message;
//   message.Add(int64_t{epoch}).Add("train").Add(images).Add(labels);
//
//   // The receiver:
//   TENON_ASSIGN_OR_RETURN(int64_t epoch, got.integer(0));
//   TENON_ASSIGN_OR_RETURN(Tensor images, got.tensor(2));
//
// Its transfer: tensor_queue.h.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_MESSAGE_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_MESSAGE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

// Ownership: owns its strings; its tensors are references to their storages.
// Threads: thread-compatible.
// Processes: in a forked child its tensors are inert.
// Failure: accessors change nothing.
class TensorMessage {
 public:
  // Integers are sent as 64 bits; a bool is an integer, 0 or 1.
  using Field = std::variant<int64_t, double, std::string, Tensor>;

  TensorMessage() = default;
  explicit TensorMessage(const Tensor& tensor) { Add(tensor); }

  // Each returns this message. Unsigned 64-bit integers, such as a size_t, do
  // not compile, because not all of them fit into int64_t: cast them.
  template <std::integral T>
  requires(sizeof(T) < sizeof(int64_t) ||
           std::signed_integral<T>) TensorMessage& Add(T value) {
    return AddInteger(static_cast<int64_t>(value));
  }
  template <std::unsigned_integral T>
  requires(sizeof(T) >= sizeof(int64_t)) TensorMessage& Add(T value) = delete;
  TensorMessage& Add(double value);
  TensorMessage& Add(absl::string_view value);
  TensorMessage& Add(const char* value);
  TensorMessage& Add(std::string value);
  TensorMessage& Add(const Tensor& value);
  TensorMessage& Add(Tensor&& value);

  // Reserves room for `fields` fields.
  void Reserve(size_t fields) { fields_.reserve(fields); }

  size_t size() const { return fields_.size(); }
  bool empty() const { return fields_.empty(); }
  absl::Span<const Field> fields() const { return fields_; }

  // The field at `index`. The string is valid until a field is added or the
  // message is destroyed. Errors: kOutOfRange if there are fewer fields;
  // kInvalidArgument naming both types if it has another type.
  absl::StatusOr<int64_t> integer(size_t index) const;
  absl::StatusOr<double> number(size_t index) const;
  absl::StatusOr<absl::string_view> string(size_t index) const;
  absl::StatusOr<Tensor> tensor(size_t index) const;

 private:
  TensorMessage& AddInteger(int64_t value);

  // A message of one tensor, the most frequent one, needs no allocation.
  absl::InlinedVector<Field, 1> fields_;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_MESSAGE_H_
