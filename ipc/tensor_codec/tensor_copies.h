// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Copies tensors in private memory into a block of an arena so that they can be
// sent; used by every carrier. Internal to tensor queues and //spawn.
//
// Of each storage the bytes from the first to the last that any of the tensors
// uses are copied; views of one storage stay views of one storage.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_COPIES_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

// Call order: Add() all, Place(), then SpecOf() and Write().
// Ownership: holds the storages.
// Threads: thread-compatible.
class TensorCopies {
 public:
  // Returns the number of the copy, which views of one storage share.
  // Errors: kFailedPrecondition if the tensor is on a device.
  absl::StatusOr<size_t> Add(const Tensor& tensor);

  // Arranges the copies after the first `offset` bytes of a block; returns the
  // size that the block must have.
  size_t Place(size_t offset);

  // The spec of a tensor within the block. Errors: kInvalidArgument if it does
  // not fit.
  absl::StatusOr<TensorSpec> SpecOf(size_t copy, const TensorSpec& spec,
                                    size_t block_bytes) const;

  // Copies the bytes. Errors: kFailedPrecondition if the memory is not
  // accessible.
  absl::Status Write(std::span<std::byte> block) const;

 private:
  struct Copy {
    std::shared_ptr<Storage> storage;
    uint64_t first = 0;  // A multiple of kAlignment.
    uint64_t end = 0;
    uint64_t at = 0;  // In the block.
  };
  static constexpr size_t kAlignment = 64;
  static size_t AlignUp(size_t size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::vector<Copy> copies_;
  absl::flat_hash_map<const Storage*, size_t> numbers_;
};

// Copies the tensors into one block of `arena`, which is free again when all of
// the copies are gone. Waits for memory until `deadline`.
// Errors: Arena::Allocate()'s; kFailedPrecondition if a tensor is on a device.
absl::StatusOr<std::vector<Tensor>> CopyIntoArena(
    Arena& arena, absl::Span<const Tensor> tensors, Deadline deadline);

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_COPIES_H_
