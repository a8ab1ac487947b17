// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BatchLayout: the tensors of a batch and their offsets in its block.
//
//   0          field 0: sample 0, sample 1, ... sample B-1
//   offset(1)  field 1: sample 0, ...                      (64 B aligned)
//   ...
//   table      a TensorSpec for each tensor of a field whose shape differs
//              from sample to sample
//   ...        those tensors
//
// Each field of one shape is a dense tensor of shape [B, ...], used or sent to
// a device in one piece. The tensors behind the table are collated (FieldKind)
// when all samples have been made; their offsets differ from batch to batch.

#ifndef TENON_LOADER_DATA_BATCH_LAYOUT_H_
#define TENON_LOADER_DATA_BATCH_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

// A value; thread-compatible.
class BatchLayout {
 public:
  static constexpr int64_t kAlignment = 64;  // A cache line, an AVX-512 word.

  struct Field {
    std::string name;
    // Of a full batch, in a block of total_bytes(). Without elements if the
    // field is not kFixed.
    FittedSpec tensor;
    int64_t sample_bytes = 0;
    int64_t offset = 0;
    SampleSpec::Field declared;
    int varying = -1;    // Its number among those that are not kFixed.
    int first_row = -1;  // Of the table, if not kFixed.
  };
  // A tensor of a batch: all of a kFixed field, or a row of the table.
  struct BatchTensor {
    std::string name;
    int field = 0;  // In fields().
    int row = -1;
    DLDataType dtype = {};
  };

  // The layout of `batch_size` samples; unset: of one sample without a batch
  // dimension.
  // Errors: spec.status(); kInvalidArgument if batch_size is not positive, if a
  // sample has TensorSpec::kMaxRank dimensions, or if a batch would exceed
  // 2^63-1 bytes.
  static absl::StatusOr<BatchLayout> Create(const SampleSpec& spec,
                                            std::optional<int64_t> batch_size);

  // The fields of a sample.
  const std::vector<Field>& fields() const { return fields_; }
  // The number of a field. Errors: kNotFound, listing the fields.
  absl::StatusOr<int> Find(absl::string_view name) const;

  // The tensors of a batch.
  const std::vector<BatchTensor>& tensors() const { return tensors_; }
  // The number of a tensor. Errors: kNotFound, listing the tensors.
  absl::StatusOr<int> FindTensor(absl::string_view name) const;
  // OK if there is a tensor `t`. Errors: kNotFound.
  absl::Status CheckTensor(int t) const;

  int64_t batch_size() const { return batch_size_; }
  // Whether a batch is one sample without a batch dimension.
  bool unbatched() const { return unbatched_; }
  // The bytes of a full batch up to the end of the table; never 0.
  int64_t total_bytes() const { return total_bytes_; }

  // How many fields are not kFixed, and rows of the table; 0 or more.
  int varying() const { return varying_; }
  int rows() const { return rows_; }
  int64_t table_offset() const { return table_offset_; }
  // The table of a batch of `samples` in `block`, which a peer may write
  // meanwhile. Errors: kDataLoss if it does not fit the block, the fields or
  // the number of samples.
  absl::StatusOr<std::vector<FittedSpec>> ReadTable(
      std::span<const std::byte> block, int64_t samples) const;

 private:
  BatchLayout() = default;

  // Places the fields and the table.
  absl::Status Place(const SampleSpec& spec);
  void NameTensors();
  std::vector<std::string> BatchNames(const Field& field) const;
  // Whether tensor `i` of a field may have this shape in a batch of `samples`,
  // the first tensor of the field having `first`.
  bool MayHave(const SampleSpec::Field& field, int i, int64_t samples,
               absl::Span<const int64_t> first,
               absl::Span<const int64_t> shape) const;

  std::vector<Field> fields_;
  std::vector<BatchTensor> tensors_;
  bool unbatched_ = false;
  int varying_ = 0;
  int rows_ = 0;
  int64_t table_offset_ = 0;
  int64_t batch_size_ = 0;
  int64_t total_bytes_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_BATCH_LAYOUT_H_
