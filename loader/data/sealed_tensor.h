// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SealedTensor: a dataset's large index, in memory once for all its workers,
// and written by none.
//
//   class Records : public Dataset {
//    public:
//     explicit Records(Tensor offsets) : offsets_(std::move(offsets)) {}
//     int64_t size() const override { return offsets_.spec().shape()[0]; }
//     SampleSpec spec() const override {
//       return SampleSpec().Add<int64_t>("offset");
//     }
//     absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
//       TENON_ASSIGN_OR_RETURN(const absl::Span<const int64_t> offsets,
//                              offsets_.data<const int64_t>());
//       return sample.Set("offset", offsets[static_cast<size_t>(index)]);
//     }
//
//    private:
//     Tensor offsets_;
//   };
//   TENON_LOADER_DATASET(Records(Tensor));  // With shm_arguments.h of spawn.
//
//   absl::StatusOr<std::unique_ptr<Loader>> LoadRecords(
//       const std::vector<int64_t>& offsets) {
//     TENON_ASSIGN_OR_RETURN(const Tensor index,
//                            SealedTensor<int64_t>(offsets));
//     return Loader::Create<Records>({.workers = 4}, index);
//   }
//
// Any tensor may be an argument, and none is copied for each worker. Workers
// map the memory of a shared tensor, writable or not by its kind; a tensor in
// private memory is copied once for all workers, which map the copy read-only.
// A SealedTensor() needs no such copy, and not even the consumer can write it.

#ifndef TENON_LOADER_DATA_SEALED_TENSOR_H_
#define TENON_LOADER_DATA_SEALED_TENSOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

// A dense tensor with a copy of `bytes`, the elements in row-major order, in a
// segment of its own, whatever the sharing strategy: a sealed memfd. The kernel
// lets no process write it, change its size or punch a hole into it; a write to
// the mapping is SIGSEGV. Blocks for as long as the copy takes.
// Errors: TensorSpec::Contiguous()'s; kInvalidArgument if the size of `bytes`
// is not that of the tensor, or if they cannot be read; kResourceExhausted
// naming the limit.
absl::StatusOr<Tensor> SealedTensor(DLDataType dtype,
                                    absl::Span<const int64_t> shape,
                                    absl::Span<const std::byte> bytes);

// Of one dimension. Errors: the same.
template <TensorElement T>
absl::StatusOr<Tensor> SealedTensor(absl::Span<const T> values) {
  return SealedTensor(
      kDtypeOf<T>, {static_cast<int64_t>(values.size())},
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                          values.size() * sizeof(T)));
}

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_SEALED_TENSOR_H_
