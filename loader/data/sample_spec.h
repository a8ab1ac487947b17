// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SampleSpec: the fields of a dataset's samples, by name and type.
//
//   SampleSpec spec = SampleSpec()
//                         .Add<float>("image", {3, 224, 224})
//                         .Add<int64_t>("label");

#ifndef TENON_LOADER_DATA_SAMPLE_SPEC_H_
#define TENON_LOADER_DATA_SAMPLE_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

// A value. Threads: thread-compatible.
// Failure: an error of Add() is kept for status(); the loader reports it.
class SampleSpec {
 public:
  struct Field {
    std::string name;
    TensorSpec tensor;  // Of one sample: dense.
  };

  // Adds a tensor; one without a shape is a scalar. T is float, int64_t, ...
  // (dtype.h). Errors, in status(): kInvalidArgument for a name that is empty
  // or taken; TensorSpec::Contiguous()'s.
  template <TensorElement T>
  SampleSpec& Add(absl::string_view name,
                  absl::Span<const int64_t> shape = {}) {
    return Add(name, kDtypeOf<T>, shape);
  }
  // The same for types that C++ has no name for, such as bfloat16 and bool.
  SampleSpec& Add(absl::string_view name, DLDataType dtype,
                  absl::Span<const int64_t> shape = {});

  const std::vector<Field>& fields() const { return fields_; }

  // The first error of Add(); kInvalidArgument if there are no fields.
  absl::Status status() const;

  // "image: float32[3, 224, 224], label: int64[]".
  std::string ToString() const;

 private:
  std::vector<Field> fields_;
  absl::Status error_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_SAMPLE_SPEC_H_
