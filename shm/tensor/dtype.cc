// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/dtype.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"

namespace tenon {
namespace {

std::string CodeName(uint8_t code) {
  switch (code) {
    case kDLInt:
      return "int";
    case kDLUInt:
      return "uint";
    case kDLFloat:
      return "float";
    case kDLOpaqueHandle:
      return "opaque";
    case kDLBfloat:
      return "bfloat";
    case kDLComplex:
      return "complex";
    case kBoolCode:
      return "bool";
    default:
      return absl::StrCat("code", int{code}, ":");
  }
}

}  // namespace

std::string DtypeName(DLDataType dtype) {
  std::string name = absl::StrCat(CodeName(dtype.code), int{dtype.bits});
  if (dtype.lanes != 1) absl::StrAppend(&name, "x", int{dtype.lanes});
  return name;
}

}  // namespace tenon
