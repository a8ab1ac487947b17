// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SampleSpec: the fields of a dataset's samples, by name and type.
//
//   SampleSpec spec = SampleSpec()
//                         .Add<float>("image", {3, 224, 224})
//                         .Add<int64_t>("label");
//
// A field whose shape differs from sample to sample is declared with its form
// in a batch. Dataset::Get() writes it by Sample::Allocate() or SetText().
//
//   SampleSpec spec = SampleSpec()
//                         .AddPadded<int64_t>("ids", 0)      // + "ids.lengths"
//                         .AddRagged<float>("boxes", {4})  // + "boxes.offsets"
//                         .AddText("file");                 // + "file.offsets"

#ifndef TENON_LOADER_DATA_SAMPLE_SPEC_H_
#define TENON_LOADER_DATA_SAMPLE_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/cplusplus_20.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

// The form that a field has in a batch; in a sample it is one tensor. In a
// batch of one sample without a batch dimension (LoaderOptions::batch_size
// unset) all but kInput and kOutput are the sample's own tensor.
enum class FieldKind : uint8_t {
  kFixed,    // [samples, shape...]; samples are written into it.
  kStacked,  // [samples, shape...]; the shape may differ from batch to batch.
  kPadded,   // collate.h: PaddedBatch; the lengths are "NAME.lengths".
  kRagged,   // RaggedBatch; the offsets are "NAME.offsets".
  kPacked,   // PackedBatch; "NAME.segments", "NAME.positions".
  kText,     // Ragged, of uint8; for Batch::text().
  kInput,    // Nothing: for Dataset::Collate() only.
  kOutput,   // Made by Dataset::Collate(); samples do not have it.
};

// Ownership: a value. Threads: thread-compatible.
// Failure: the first error of Add() and its kind is kept, and later calls have
//   no effect; Loader::Create() returns status().
class SampleSpec {
 public:
  struct Field {
    std::string name;
    // Of one sample: dense. For kPadded, kRagged and kPacked without the first
    // dimension, which differs; for kStacked, kInput and kOutput only the dtype
    // is used.
    TensorSpec tensor;
    FieldKind kind = FieldKind::kFixed;
    std::string padding;     // The bytes of an element.
    int64_t row_length = 0;  // Of kPacked.

    // The names of its tensors in a batch.
    std::vector<std::string> BatchNames() const;
  };

  // Adds a field of one shape; {} is a scalar. T is float, int64_t, ...
  // (dtype.h). Errors, in status(): kInvalidArgument for a name that is empty,
  // or that the batch has already; TensorSpec::Contiguous()'s.
  template <TensorElement T>
  SampleSpec& Add(absl::string_view name,
                  absl::Span<const int64_t> shape = {}) {
    return Add(name, kDtypeOf<T>, shape);
  }
  // The same for a dtype without a C++ type here, such as bfloat16 and bool.
  SampleSpec& Add(absl::string_view name, DLDataType dtype,
                  absl::Span<const int64_t> shape = {});

  // Adds a field of shape [n, rest...], where n differs from sample to sample:
  // in a batch padded to the longest one, one after another, or packed into
  // rows of `row_length`. Errors: as Add(); kInvalidArgument if row_length is
  // not 1 to 2^31-1.
  template <TensorElement T>
  SampleSpec& AddPadded(absl::string_view name, T padding,
                        absl::Span<const int64_t> rest = {}) {
    return AddVarying(name, FieldKind::kPadded, kDtypeOf<T>, rest,
                      BytesOf(padding));
  }
  template <TensorElement T>
  SampleSpec& AddRagged(absl::string_view name,
                        absl::Span<const int64_t> rest = {}) {
    return AddVarying(name, FieldKind::kRagged, kDtypeOf<T>, rest);
  }
  template <TensorElement T>
  SampleSpec& AddPacked(absl::string_view name, int64_t row_length, T padding,
                        absl::Span<const int64_t> rest = {}) {
    return AddVarying(name, FieldKind::kPacked, kDtypeOf<T>, rest,
                      BytesOf(padding), row_length);
  }

  // Adds a field of any shape, which is the same for all samples of a batch.
  template <TensorElement T>
  SampleSpec& AddStacked(absl::string_view name) {
    return AddVarying(name, FieldKind::kStacked, kDtypeOf<T>);
  }

  // Adds a string of any length.
  SampleSpec& AddText(absl::string_view name) {
    return AddVarying(name, FieldKind::kText, kDtypeOf<uint8_t>);
  }

  // For Dataset::Collate(): adds a field of any shape that it reads from the
  // samples, or one that it makes for the batch.
  template <TensorElement T>
  SampleSpec& AddInput(absl::string_view name) {
    return AddVarying(name, FieldKind::kInput, kDtypeOf<T>);
  }
  template <TensorElement T>
  SampleSpec& AddOutput(absl::string_view name) {
    return AddVarying(name, FieldKind::kOutput, kDtypeOf<T>);
  }

  // Adds a field of any kind and dtype; kText of scalars of uint8 only. Errors:
  // as those above; kInvalidArgument for a padding of another size than an
  // element, or where the kind has none.
  SampleSpec& Add(Field field);

  const std::vector<Field>& fields() const { return fields_; }

  // The first error of Add(); kInvalidArgument if there are no fields.
  absl::Status status() const;

  // "image: float32[3, 224, 224], ids: int64[?] padded (0000000000000000)".
  std::string ToString() const;

 private:
  template <TensorElement T>
  static std::string BytesOf(const T& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  SampleSpec& AddVarying(absl::string_view name, FieldKind kind,
                         DLDataType dtype, absl::Span<const int64_t> rest = {},
                         std::string padding = {}, int64_t row_length = 0);
  absl::Status Check(const Field& field) const;

  std::vector<Field> fields_;
  absl::Status error_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_SAMPLE_SPEC_H_
