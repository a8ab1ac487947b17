// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/field.h"
#include "tenon/shm/base/check.h"

namespace tenon::loader {

std::span<const std::byte> Batch::bytes(size_t f) const {
  const auto size =
      static_cast<size_t>(layout_->sample_bytes(f) * this->size());
  return {memory_.get() + layout_->offset(f), size};
}

int64_t Batch::total_bytes() const {
  int64_t total = 0;
  for (size_t f = 0; f < fields().size(); ++f) {
    total += layout_->sample_bytes(f) * size();
  }
  return total;
}

void Batch::CheckElementSize(size_t f, size_t size) const {
  const FieldSpec& field = fields()[f];
  const size_t want = size_t{field.dtype.bits} / 8 * field.dtype.lanes;
  if (size != want) {
    Abort(absl::StrCat("Batch::field<T>: T has ", size, " bytes, field '",
                       field.name, "' has ", want));
  }
}

size_t Batch::IndexOf(absl::string_view name) const {
  for (size_t f = 0; f < fields().size(); ++f) {
    if (fields()[f].name == name) return f;
  }
  Abort(absl::StrCat("Batch::field: there is no field '", name, "'"));
}

}  // namespace tenon::loader
