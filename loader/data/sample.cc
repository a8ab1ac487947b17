// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/sample.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

namespace {

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// OK if a sample may have a tensor of that shape.
absl::Status CheckShape(const SampleSpec::Field& field,
                        absl::Span<const int64_t> shape) {
  const absl::Span<const int64_t> declared = field.tensor.shape();
  switch (field.kind) {
    case FieldKind::kFixed:
      if (shape == declared) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          "Sample::Allocate(): field '", field.name, "' cannot have shape ",
          ShapeText(shape), "; every sample has ", ShapeText(declared),
          ": SampleSpec::AddPadded() and others declare fields that differ"));
    case FieldKind::kPadded:
    case FieldKind::kRagged:
    case FieldKind::kPacked:
      if (shape.size() != declared.size() + 1 || shape.subspan(1) != declared) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Sample::Allocate(): field '", field.name, "' cannot have shape ",
            ShapeText(shape), "; want ", ShapeText(declared),
            " after a first dimension of any extent"));
      }
      if (field.kind == FieldKind::kPacked && shape[0] > field.row_length) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Sample::Allocate(): field '", field.name, "' of shape ",
            ShapeText(shape), " is longer than a row of ", field.row_length));
      }
      return absl::OkStatus();
    case FieldKind::kOutput:
      return absl::InvalidArgumentError(
          absl::StrCat("Sample::Allocate(): field '", field.name,
                       "' is made by Dataset::Collate(); samples have none"));
    default:
      return absl::OkStatus();
  }
}

absl::Status NotOneSample(absl::string_view call, const std::string& field,
                          int64_t size) {
  return absl::FailedPreconditionError(absl::StrCat(
      call, ": field '", field, "' differs in shape; access it in one sample, ",
      "by sample(i), not in ", size));
}

}  // namespace

absl::StatusOr<int> SampleSpan::Find(absl::string_view name) const {
  TENON_ASSIGN_OR_RETURN(const int f, layout_->Find(name));
  const int own = f - first_field_;
  if (own < 0 || own >= fields_) return NotInPart(name);
  return f;
}

absl::StatusOr<int> SampleSpan::Find(int f) const {
  if (f < 0 || f >= fields_) return NoField(f);
  return first_field_ + f;
}

absl::Status SampleSpan::CopyFrom(const SampleSpan& from) const {
  if (size_ != 1 || from.size_ != 1 || fields_ != from.fields_) {
    return absl::FailedPreconditionError(
        absl::StrCat("Sample::CopyFrom(): ", from.size_, " samples of ",
                     from.fields_, " fields to ", size_, " of ", fields_,
                     "; want one sample of the same fields"));
  }
  for (int f = 0; f < fields_; ++f) {
    TENON_RETURN_IF_ERROR(CopyField(f, from));
  }
  return absl::OkStatus();
}

absl::Status SampleSpan::CopyField(int f, const SampleSpan& from) const {
  const int source = from.first_field_ + f;
  const BatchLayout::Field& field =
      from.layout_->fields()[static_cast<size_t>(source)];
  const BatchLayout::Field& target =
      layout_->fields()[static_cast<size_t>(first_field_) +
                        static_cast<size_t>(f)];
  const bool is_output = field.declared.kind == FieldKind::kOutput;
  if (is_output && target.declared.kind == FieldKind::kOutput) {
    return absl::OkStatus();
  }
  const DLDataType dtype = field.declared.tensor.dtype();
  const DLDataType to_dtype = target.declared.tensor.dtype();
  if (is_output || !SameDtype(dtype, to_dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Sample::CopyFrom(): field '", field.name, "' (", DtypeName(dtype),
        is_output ? ", made by Dataset::Collate()" : "", ") does not fit '",
        target.name, "' (", DtypeName(to_dtype), "); want the same fields"));
  }
  absl::Span<const int64_t> shape = field.declared.tensor.shape();
  std::optional<Tensor> tensor;
  if (field.varying >= 0) {
    tensor = from.scratch_->Find(source, from.first_);
    if (!tensor) return from.Scratch(source).status();
    shape = tensor->spec().shape();
  }
  TENON_ASSIGN_OR_RETURN(const absl::Span<std::byte> bytes,
                         from.data<std::byte>(f));
  TENON_ASSIGN_OR_RETURN(const absl::Span<std::byte> to,
                         Allocate<std::byte>(f, shape));
  if (to.size() != bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Sample::CopyFrom(): field '", field.name, "' has ",
        SizeText(bytes.size()), ", its target ", SizeText(to.size())));
  }
  std::copy(bytes.begin(), bytes.end(), to.begin());
  return absl::OkStatus();
}

absl::StatusOr<std::span<std::byte>> SampleSpan::Place(
    int f, absl::Span<const int64_t> shape) const {
  const BatchLayout::Field& field = layout_->fields()[static_cast<size_t>(f)];
  if (size_ != 1) return NotOneSample("Sample::Allocate()", field.name, size_);
  TENON_RETURN_IF_ERROR(CheckShape(field.declared, shape));
  if (field.varying < 0)
    return std::span(batch_ + field.offset + first_ * field.sample_bytes,
                     static_cast<size_t>(field.sample_bytes));
  absl::StatusOr<std::span<std::byte>> memory =
      scratch_->Allocate(f, first_, shape);
  if (!memory.ok()) return InCall("Sample::Allocate()", memory.status());
  return memory;
}

absl::StatusOr<std::span<std::byte>> SampleSpan::Scratch(int f) const {
  const std::string& field = layout_->fields()[static_cast<size_t>(f)].name;
  if (size_ != 1) return NotOneSample("Sample::data()", field, size_);
  if (scratch_->Find(f, first_).has_value()) return scratch_->bytes(f, first_);
  return absl::FailedPreconditionError(absl::StrCat(
      "Sample::data(): field '", field,
      "' has no memory yet, as its shape differs from sample to sample; call "
      "Sample::Allocate() first"));
}

absl::Status SampleSpan::CopyText(int f, absl::string_view text) const {
  const SampleSpec::Field& field =
      layout_->fields()[static_cast<size_t>(f)].declared;
  if (field.kind != FieldKind::kText) {
    return absl::InvalidArgumentError(
        absl::StrCat("Sample::SetText(): field '", field.name,
                     "' is not one of SampleSpec::AddText()"));
  }
  TENON_ASSIGN_OR_RETURN(const std::span<std::byte> to,
                         Place(f, {static_cast<int64_t>(text.size())}));
  if (!text.empty()) std::memcpy(to.data(), text.data(), text.size());
  return absl::OkStatus();
}

absl::Status SampleSpan::InCall(absl::string_view call,
                                const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(call, ": ", status.message()));
}

std::string SampleSpan::FieldNames() const {
  const auto fields = absl::MakeConstSpan(layout_->fields())
                          .subspan(static_cast<size_t>(first_field_),
                                   static_cast<size_t>(fields_));
  return absl::StrJoin(fields, ", ",
                       [](std::string* text, const BatchLayout::Field& field) {
                         absl::StrAppend(text, field.name);
                       });
}

absl::Status SampleSpan::NoField(int f) const {
  return absl::NotFoundError(absl::StrCat("there is no field ", f,
                                          "; there are ", fields_,
                                          " fields: ", FieldNames()));
}

absl::Status SampleSpan::NotInPart(absl::string_view name) const {
  return absl::NotFoundError(absl::StrCat(
      "field '", name,
      "' is not among those of this part of the sample: ", FieldNames()));
}

absl::Status SampleSpan::WrongDtype(const BatchLayout::Field& field,
                                    DLDataType used) {
  return absl::InvalidArgumentError(
      absl::StrCat("field '", field.name, "' has elements of ",
                   DtypeName(field.tensor.spec().dtype()),
                   " and was accessed as ", DtypeName(used)));
}

absl::Status SampleSpan::NotOneElement(size_t elements) {
  return absl::InvalidArgumentError(
      absl::StrCat("Sample::Set(): the field has ", elements,
                   " elements; Set() writes one: use data() for more"));
}

}  // namespace tenon::loader
