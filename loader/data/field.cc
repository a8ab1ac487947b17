// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/field.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"

namespace tenon::loader {
namespace {

absl::string_view DtypeCodeName(uint8_t code) {
  switch (code) {
    case kDLInt:
      return "int";
    case kDLUInt:
      return "uint";
    case kDLFloat:
      return "float";
    case kDLBfloat:
      return "bfloat";
    case kDLComplex:
      return "complex";
    default:
      return "opaque";
  }
}

}  // namespace

bool operator==(const FieldSpec& a, const FieldSpec& b) {
  return a.name == b.name && a.dtype.code == b.dtype.code &&
         a.dtype.bits == b.dtype.bits && a.dtype.lanes == b.dtype.lanes &&
         a.shape == b.shape;
}

absl::StatusOr<int64_t> FieldBytes(const FieldSpec& field) {
  if (field.dtype.bits == 0 || field.dtype.bits % 8 != 0 ||
      field.dtype.lanes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("field ", FieldToString(field), ": dtype of ",
                     field.dtype.bits, " bits and ", field.dtype.lanes,
                     " lanes; want whole bytes and at least one lane"));
  }
  int64_t bytes = int64_t{field.dtype.bits} / 8 * field.dtype.lanes;
  for (const int64_t extent : field.shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "field ", FieldToString(field), ": negative extent ", extent));
    }
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "field ", FieldToString(field), " is larger than 2^63-1 bytes"));
    }
  }
  return bytes;
}

std::string FieldToString(const FieldSpec& field) {
  std::string text = absl::StrCat(
      field.name, ": ", DtypeCodeName(field.dtype.code), int{field.dtype.bits});
  if (field.dtype.lanes != 1) absl::StrAppend(&text, "x", field.dtype.lanes);
  absl::StrAppend(&text, "[", absl::StrJoin(field.shape, ", "), "]");
  return text;
}

}  // namespace tenon::loader
