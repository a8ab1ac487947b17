// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Collation: makes the tensors of a batch from those of its samples.
//
// With SampleSpec().AddInput<float>("wave").AddOutput<float>("waves"), a
// dataset has:
//
//   absl::Status Collate(Collation& batch) {
//     TENON_ASSIGN_OR_RETURN(std::vector<Tensor> waves,
//                            batch.samples("wave"));
//     TENON_ASSIGN_OR_RETURN(RaggedBatch joined, Concatenate(waves));
//     return batch.Set("waves", joined.values);
//   }

#ifndef TENON_LOADER_DATA_COLLATION_H_
#define TENON_LOADER_DATA_COLLATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

// Ownership: a view. It and its tensors are valid during the call of
//   Dataset::Collate() that it is passed to.
// Threads: thread-compatible.
class Collation {
 public:
  // The number of samples, at least 1.
  int64_t size() const { return size_; }

  // The tensors of a field whose shape differs from sample to sample, one of
  // each sample. A field of one shape has none: it is in the batch already.
  // Errors: kNotFound, listing the fields; kInvalidArgument for a field of one
  // shape or of AddOutput().
  absl::StatusOr<std::vector<Tensor>> samples(absl::string_view field) const;

  // Makes the batch's tensor of a field of SampleSpec::AddOutput(). Its
  // elements are undefined until they are written. Each such field must be made
  // once. Errors: kNotFound, listing the fields; kInvalidArgument for a field
  // of another kind; kFailedPrecondition for a field that has been made;
  // TensorSpec::Contiguous()'s; kResourceExhausted if this process has no
  // memory for it.
  absl::StatusOr<Tensor> Create(absl::string_view field,
                                absl::Span<const int64_t> shape);
  // Makes it as a copy of `tensor`. Errors: also Tensor::CopyFrom()'s.
  absl::Status Set(absl::string_view field, const Tensor& tensor);

  // The rest is for loaders. Tensors are placed in `memory`, behind the fixed
  // part of the layout; those that do not fit are in private memory until
  // Finish().
  Collation(const BatchLayout& layout, const SampleScratch& scratch,
            int64_t size, std::span<std::byte> memory);

  // The tensors of field `f`, whose shape must differ from sample to sample.
  std::vector<Tensor> SamplesOf(int f) const;
  // A tensor for row `row` of the table.
  absl::StatusOr<Tensor> Place(int row, DLDataType dtype,
                               absl::Span<const int64_t> shape);

  // Returns larger memory for the batch. The former memory must stay valid
  // until Finish() returns.
  using Grow =
      absl::FunctionRef<absl::StatusOr<std::span<std::byte>>(size_t bytes)>;
  // Writes the table, all rows of which must have been placed, and first copies
  // a batch that does not fit to memory of grow(). Returns its bytes.
  // Errors: kInvalidArgument, naming the tensor that was not placed; grow()'s.
  absl::StatusOr<size_t> Finish(Grow grow);

 private:
  struct Row {
    TensorSpec spec;  // With its offset in the batch.
    Tensor tensor;
  };

  const BatchLayout& layout_;
  const SampleScratch& scratch_;
  int64_t size_;
  std::span<std::byte> memory_;
  std::shared_ptr<Storage> storage_;  // Over memory_.
  size_t end_;                        // Of what has been placed.
  std::vector<std::optional<Row>> rows_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_COLLATION_H_
