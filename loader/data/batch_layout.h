// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BatchLayout: the offsets of the fields of a batch in its memory.
//
//   0          field 0: sample 0, sample 1, ... sample B-1
//   offset(1)  field 1: sample 0, ...                      (64 B aligned)
//
// so that each field is one dense tensor of shape [B, ...], ready to be used or
// sent to a device in one piece.

#ifndef TENON_LOADER_DATA_BATCH_LAYOUT_H_
#define TENON_LOADER_DATA_BATCH_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/loader/data/field.h"

namespace tenon::loader {

// A value; thread-compatible.
class BatchLayout {
 public:
  static constexpr int64_t kAlignment = 64;  // A cache line, an AVX-512 word.

  // Lays out `batch_size` samples of `fields`.
  // Errors: kInvalidArgument if batch_size is not positive, if there is no
  // field, if two have one name, or if FieldBytes() refuses one or all of them
  // together are larger than 2^63-1 bytes.
  static absl::StatusOr<BatchLayout> Create(std::vector<FieldSpec> fields,
                                            int64_t batch_size);

  const std::vector<FieldSpec>& fields() const { return fields_; }
  int64_t batch_size() const { return batch_size_; }
  // Of a whole batch; never 0.
  int64_t total_bytes() const { return total_bytes_; }

  // Of field `i`: where it begins, and the size of one sample of it.
  int64_t offset(size_t i) const { return places_[i].offset; }
  int64_t sample_bytes(size_t i) const { return places_[i].sample_bytes; }

 private:
  struct Place {
    int64_t offset;
    int64_t sample_bytes;
  };
  BatchLayout() = default;

  std::vector<FieldSpec> fields_;
  std::vector<Place> places_;
  int64_t batch_size_ = 0;
  int64_t total_bytes_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_BATCH_LAYOUT_H_
