// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/sample_spec.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

SampleSpec& SampleSpec::Add(absl::string_view name, DLDataType dtype,
                            absl::Span<const int64_t> shape) {
  if (!error_.ok()) return *this;
  if (name.empty()) {
    error_ = absl::InvalidArgumentError(
        "SampleSpec::Add(): the name of a field is empty");
    return *this;
  }
  for (const Field& field : fields_) {
    if (field.name == name) {
      error_ = absl::InvalidArgumentError(absl::StrCat(
          "SampleSpec::Add(): two fields have the name '", name, "'"));
      return *this;
    }
  }
  const absl::StatusOr<TensorSpec> tensor =
      TensorSpec::Contiguous(dtype, shape);
  if (!tensor.ok()) {
    error_ = absl::Status(tensor.status().code(),
                          absl::StrCat("SampleSpec::Add(): field '", name,
                                       "': ", tensor.status().message()));
    return *this;
  }
  fields_.push_back({std::string(name), *tensor});
  return *this;
}

absl::Status SampleSpec::status() const {
  if (error_.ok() && fields_.empty()) {
    return absl::InvalidArgumentError("SampleSpec: a sample needs a field");
  }
  return error_;
}

std::string SampleSpec::ToString() const {
  return absl::StrJoin(fields_, ", ", [](std::string* to, const Field& field) {
    absl::StrAppend(to, field.name, ": ", field.tensor.ToString());
  });
}

}  // namespace tenon::loader
