// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch_layout.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/field.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

absl::Status CheckFields(const std::vector<FieldSpec>& fields) {
  if (fields.empty()) {
    return absl::InvalidArgumentError("a sample needs at least one field");
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const FieldSpec& field : fields) {
    if (!names.insert(field.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two fields have the name '", field.name, "'"));
    }
  }
  return absl::OkStatus();
}

// offset + count * size, rounded up; false on overflow.
bool Advance(int64_t* offset, int64_t count, int64_t size) {
  int64_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(*offset, bytes, offset) ||
      __builtin_add_overflow(*offset, BatchLayout::kAlignment - 1, offset)) {
    return false;
  }
  *offset -= *offset % BatchLayout::kAlignment;
  return true;
}

}  // namespace

absl::StatusOr<BatchLayout> BatchLayout::Create(std::vector<FieldSpec> fields,
                                                int64_t batch_size) {
  if (batch_size <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size must be positive, not ", batch_size));
  }
  TENON_RETURN_IF_ERROR(CheckFields(fields));
  BatchLayout layout;
  layout.batch_size_ = batch_size;
  int64_t offset = 0;
  for (const FieldSpec& field : fields) {
    TENON_ASSIGN_OR_RETURN(const int64_t bytes, FieldBytes(field));
    layout.places_.push_back({.offset = offset, .sample_bytes = bytes});
    if (!Advance(&offset, batch_size, bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch of ", batch_size, " samples with field ",
                       FieldToString(field), " is larger than 2^63-1 bytes"));
    }
  }
  layout.fields_ = std::move(fields);
  // Fields of no bytes still need memory to point at.
  layout.total_bytes_ = std::max(offset, kAlignment);
  return layout;
}

}  // namespace tenon::loader
