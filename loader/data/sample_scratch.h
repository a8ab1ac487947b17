// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SampleScratch: the tensors of fields whose shape differs from sample to
// sample, until a batch is collated.

#ifndef TENON_LOADER_DATA_SAMPLE_SCRATCH_H_
#define TENON_LOADER_DATA_SAMPLE_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

// Ownership: owns the memory of the tensors, and keeps it for the next batch.
//   The layout is not owned, and must outlive it.
// Threads: thread-compatible; Clear(), Allocate(), Find() and bytes() may be
//   called for different samples at the same time.
class SampleScratch {
 public:
  explicit SampleScratch(const BatchLayout* layout);

  // Begins a batch without tensors.
  void Reset();
  // Removes the tensors of sample `sample`, so that it can be made again.
  void Clear(int64_t sample);
  // The tensors of sample `from` become those of `to`, in place of its own.
  void Move(int64_t from, int64_t to);

  // Memory for field `f`, which is not kFixed, of sample `sample`, in [0,
  // layout.batch_size()); replaces that of an earlier call. The contents are
  // undefined.
  // Errors: TensorSpec::Contiguous()'s; kResourceExhausted if this process
  // has no memory for it.
  absl::StatusOr<std::span<std::byte>> Allocate(
      int f, int64_t sample, absl::Span<const int64_t> shape);
  // The tensor, and its bytes; empty before Allocate().
  std::optional<Tensor> Find(int f, int64_t sample) const;
  std::span<std::byte> bytes(int f, int64_t sample) const;

  // OK if the sample has all of its tensors, and those of kStacked have the
  // shape that they have in sample 0.
  // Errors: kInvalidArgument, naming the field and both shapes.
  absl::Status Check(int64_t sample) const;

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    size_t size = 0;
    std::shared_ptr<Storage> storage;  // Over the memory.
  };
  struct Entry {
    int chunk = -1;  // -1: there is no tensor.
    TensorSpec spec;
  };

  size_t IndexOf(int f, int64_t sample) const;
  absl::StatusOr<Entry> Place(const TensorSpec& spec);

  const BatchLayout& layout_;
  mutable ThreadMutex mutex_;
  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  size_t total_ ABSL_GUARDED_BY(mutex_) = 0;  // Of all chunks.
  // The one in use, from used_ on.
  size_t chunk_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Entry> entries_;  // Those of sample 0, of sample 1, ...
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_SAMPLE_SCRATCH_H_
