// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/sample_spec.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

std::vector<std::string> SampleSpec::Field::BatchNames() const {
  switch (kind) {
    case FieldKind::kPadded:
      return {name, absl::StrCat(name, ".lengths")};
    case FieldKind::kRagged:
    case FieldKind::kText:
      return {name, absl::StrCat(name, ".offsets")};
    case FieldKind::kPacked:
      return {name, absl::StrCat(name, ".segments"),
              absl::StrCat(name, ".positions")};
    case FieldKind::kInput:
      return {};
    default:
      return {name};
  }
}

SampleSpec& SampleSpec::Add(absl::string_view name, DLDataType dtype,
                            absl::Span<const int64_t> shape) {
  return AddVarying(name, FieldKind::kFixed, dtype, shape);
}

SampleSpec& SampleSpec::AddVarying(absl::string_view name, FieldKind kind,
                                   DLDataType dtype,
                                   absl::Span<const int64_t> rest,
                                   std::string padding, int64_t row_length) {
  if (!error_.ok()) return *this;
  const absl::StatusOr<TensorSpec> tensor = TensorSpec::Contiguous(dtype, rest);
  if (!tensor.ok()) {
    error_ = absl::Status(tensor.status().code(),
                          absl::StrCat("SampleSpec::Add(): field '", name,
                                       "': ", tensor.status().message()));
    return *this;
  }
  return Add({.name = std::string(name),
              .tensor = *tensor,
              .kind = kind,
              .padding = std::move(padding),
              .row_length = row_length});
}

SampleSpec& SampleSpec::Add(Field field) {
  if (error_.ok()) error_ = Check(field);
  if (error_.ok()) fields_.push_back(std::move(field));
  return *this;
}

absl::Status SampleSpec::Check(const Field& field) const {
  if (field.name.empty()) {
    return absl::InvalidArgumentError(
        "SampleSpec::Add(): the name of a field is empty");
  }
  for (const Field& other : fields_) {
    if (other.name == field.name) {
      return absl::InvalidArgumentError(absl::StrCat(
          "SampleSpec::Add(): two fields have the name '", field.name, "'"));
    }
    for (const std::string& name : field.BatchNames()) {
      if (absl::c_linear_search(other.BatchNames(), name)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "SampleSpec::Add(): a batch has two tensors '", name,
            "', of fields '", other.name, "' and '", field.name, "'"));
      }
    }
  }
  const bool has_padding =
      field.kind == FieldKind::kPadded || field.kind == FieldKind::kPacked;
  const auto padding = static_cast<int64_t>(field.padding.size());
  if (padding != (has_padding ? field.tensor.element_bytes() : 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("SampleSpec::Add(): field '", field.name,
                     "' has a padding of ", padding, " bytes; want ",
                     has_padding ? field.tensor.element_bytes() : 0));
  }
  if (field.kind == FieldKind::kText &&
      (!SameDtype(field.tensor.dtype(), kDtypeOf<uint8_t>) ||
       !field.tensor.shape().empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SampleSpec::Add(): field '", field.name, "' is text of ",
        field.tensor.ToString(), "; want uint8[], as AddText() has"));
  }
  if (field.kind == FieldKind::kPacked &&
      (field.row_length < 1 ||
       field.row_length > std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SampleSpec::Add(): field '", field.name, "' has rows of ",
        field.row_length, "; want 1 to ", std::numeric_limits<int32_t>::max()));
  }
  return absl::OkStatus();
}

absl::Status SampleSpec::status() const {
  if (error_.ok() && fields_.empty()) {
    return absl::InvalidArgumentError("SampleSpec: a sample needs a field");
  }
  return error_;
}

std::string SampleSpec::ToString() const {
  return absl::StrJoin(fields_, ", ", [](std::string* to, const Field& field) {
    absl::StrAppend(to, field.name, ": ");
    const std::string dtype = DtypeName(field.tensor.dtype());
    std::string varying = absl::StrCat(dtype, "[?");
    for (const int64_t extent : field.tensor.shape()) {
      absl::StrAppend(&varying, ", ", extent);
    }
    varying += "]";
    const std::string padding =
        absl::StrCat(" (", absl::BytesToHexString(field.padding), ")");
    switch (field.kind) {
      case FieldKind::kFixed:
        absl::StrAppend(to, field.tensor.ToString());
        return;
      case FieldKind::kStacked:
        absl::StrAppend(to, dtype, " stacked");
        return;
      case FieldKind::kPadded:
        absl::StrAppend(to, varying, " padded", padding);
        return;
      case FieldKind::kRagged:
        absl::StrAppend(to, varying, " ragged");
        return;
      case FieldKind::kPacked:
        absl::StrAppend(to, varying, " packed in rows of ", field.row_length,
                        padding);
        return;
      case FieldKind::kText:
        absl::StrAppend(to, "text");
        return;
      case FieldKind::kInput:
        absl::StrAppend(to, dtype, " input");
        return;
      case FieldKind::kOutput:
        absl::StrAppend(to, dtype, " output");
        return;
    }
  });
}

}  // namespace tenon::loader
