// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BatchLayout: the tensors of a batch and their offsets in its block.
//
//   0          field 0: sample 0, sample 1, ... sample B-1
//   offset(1)  field 1: sample 0, ...                      (64 B aligned)
//
// Each field is one dense tensor of shape [B, ...], ready to be used or sent to
// a device in one piece.

#ifndef TENON_LOADER_DATA_BATCH_LAYOUT_H_
#define TENON_LOADER_DATA_BATCH_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

// A value; thread-compatible.
class BatchLayout {
 public:
  static constexpr int64_t kAlignment = 64;  // A cache line, an AVX-512 word.

  struct Field {
    std::string name;
    FittedSpec tensor;  // Of a full batch, in a block of total_bytes().
    int64_t sample_bytes = 0;
    int64_t offset = 0;
  };

  // The layout of `batch_size` samples.
  // Errors: the spec's; kInvalidArgument if batch_size is not positive, for a
  // sample of TensorSpec::kMaxRank dimensions, or if a batch would be larger
  // than 2^63-1 bytes.
  static absl::StatusOr<BatchLayout> Create(const SampleSpec& spec,
                                            int64_t batch_size);

  const std::vector<Field>& fields() const { return fields_; }
  // The index of a field. Errors: kNotFound, listing the fields.
  absl::StatusOr<int> Find(absl::string_view name) const;
  // OK if there is a field `f`. Errors: kNotFound.
  absl::Status Check(int f) const;

  int64_t batch_size() const { return batch_size_; }
  // Of a full batch; never 0.
  int64_t total_bytes() const { return total_bytes_; }

 private:
  BatchLayout() = default;

  std::vector<Field> fields_;
  int64_t batch_size_ = 0;
  int64_t total_bytes_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_BATCH_LAYOUT_H_
