// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Batch: the samples that a loader returns together.
//
//   absl::Status TrainEpoch(Loader& loader, int64_t epoch) {
//     for (absl::StatusOr<Batch>& batch : loader.Epoch(epoch)) {
//       TENON_RETURN_IF_ERROR(batch.status());
//       TENON_ASSIGN_OR_RETURN(absl::Span<const float> images,
//                              batch->data<float>("image"));
//       Train(images, batch->size());
//     }
//     return absl::OkStatus();
//   }

#ifndef TENON_LOADER_DATA_BATCH_H_
#define TENON_LOADER_DATA_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

// A sample that was left out of its batch, or replaced, because the dataset
// failed on it.
struct SkippedSample {
  int64_t position = 0;  // In the epoch of the whole job; PositionInShard().
  int64_t index = 0;     // In the dataset, or in the shard.
  absl::Status status;
  // The item that replaced it (OnSampleError::kReplace); -1: none.
  int64_t replaced_by = -1;
};

// Ownership: a batch and its tensors hold the memory of the batch, a block of
//   the arena of the process or thread that made it. The last of them releases
//   the block, for another batch. Any number of batches may be kept, each at
//   the cost of its memory; they may outlive the loader and its workers.
// Threads: thread-compatible; may be destroyed in any thread.
// Processes: a worker process shares the block, which is read-only here, and
//   does not write it again while a process holds it. Tensors may be sent to
//   other processes without a copy, such as in a TensorQueue.
// Trust: shapes and offsets of tensors are copied and checked once, so no
//   access leaves the block, whatever the worker writes. The elements of a
//   hostile worker's batch may change at any time.
// Memory order: all that the worker wrote into the block is visible to the
//   thread that received the batch.
class Batch {
 public:
  struct Contents {
    int64_t number = 0;
    int64_t size = 0;
    int worker = -1;
    std::vector<SkippedSample> skipped;
  };
  // For loaders. `storage` has at least layout->total_bytes(), and the table of
  // a layout that has one.
  // Errors: Storage::Read()'s; BatchLayout::ReadTable()'s.
  static absl::StatusOr<Batch> Create(Contents contents,
                                      std::shared_ptr<const BatchLayout> layout,
                                      std::shared_ptr<Storage> storage);

  // The number of this batch in its epoch, from 0. Of an iterable dataset of L
  // lanes (by default, shards): batch k of lane l is k * L + l, in the epoch of
  // the whole job.
  int64_t number() const { return contents_.number; }

  // The number of samples: LoaderOptions::batch_size, less in the last batch of
  // an epoch and when samples were left out, down to 0. 1, or 0, with
  // batch_size unset.
  int64_t size() const { return contents_.size; }

  // The worker that made the batch, or its first samples; -1 without workers.
  int worker() const { return contents_.worker; }

  const std::vector<SkippedSample>& skipped() const {
    return contents_.skipped;
  }

  // The tensors, in the order of Dataset::spec(). That of a field whose shape
  // differs from sample to sample may be followed by "NAME.lengths" and others
  // (FieldKind).
  int num_fields() const { return static_cast<int>(layout_->tensors().size()); }
  const std::string& field_name(int f) const {
    return layout_->tensors()[static_cast<size_t>(f)].name;
  }

  // A tensor by its name or number: dense, of shape [size(), ...] or as
  // FieldKind says. With batch_size unset it is the sample's own tensor.
  // Errors: kNotFound, listing the names, or how many tensors there are;
  // kFailedPrecondition if batch_size is unset and the sample was skipped.
  absl::StatusOr<Tensor> tensor(absl::string_view name) const;
  absl::StatusOr<Tensor> tensor(int f) const;

  // The elements of tensor(field) in row-major order; std::byte reads the bytes
  // of any dtype. Valid as long as this batch, or a tensor of it.
  // Errors: tensor()'s; Tensor::data()'s, such as kInvalidArgument if T is not
  // the type of the tensor.
  template <typename T, typename NameOrNumber>
  absl::StatusOr<absl::Span<const T>> data(const NameOrNumber& field) const {
    const absl::StatusOr<Tensor> tensor = this->tensor(field);
    if (!tensor.ok()) return tensor.status();
    return tensor->template data<const T>();
  }

  // The string of sample `i` in a field of SampleSpec::AddText(). Valid as long
  // as this batch, or a tensor of it.
  // Errors: those of data(); kInvalidArgument for a field of another kind;
  // kOutOfRange unless 0 <= i < size(); kDataLoss if the worker has overwritten
  // the offsets.
  absl::StatusOr<absl::string_view> text(absl::string_view name,
                                         int64_t i) const;

  // The bytes of all tensors together.
  int64_t total_bytes() const;

  // The block that all fields are in: for code that copies a batch as a whole.
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  // This batch over `storage`, which has a copy of its block, on any device.
  // Errors: kInvalidArgument if `storage` has fewer bytes than the block.
  absl::StatusOr<Batch> Over(std::shared_ptr<Storage> storage) const;

 private:
  Batch(Contents contents, std::shared_ptr<const BatchLayout> layout,
        std::shared_ptr<Storage> storage, std::vector<FittedSpec> table)
      : contents_(std::move(contents)),
        layout_(std::move(layout)),
        storage_(std::move(storage)),
        table_(std::move(table)) {}

  Contents contents_;
  std::shared_ptr<const BatchLayout> layout_;
  std::shared_ptr<Storage> storage_;
  std::vector<FittedSpec> table_;  // The rows of the layout's table.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_BATCH_H_
