// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorDataset: the rows of tensors as samples.
//
//   absl::Status TrainOn(const Tensor& images, const Tensor& labels) {
//     TENON_ASSIGN_OR_RETURN(
//         auto loader,
//         Loader::Create<TensorDataset>(
//             {.batch_size = 64, .workers = 2},
//             std::vector<std::string>{"image", "label"},
//             std::vector<Tensor>{images, labels}));
//     for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
//       TENON_RETURN_IF_ERROR(batch.status());
//     }
//     return absl::OkStatus();
//   }

#ifndef TENON_LOADER_DATASETS_TENSOR_DATASET_H_
#define TENON_LOADER_DATASETS_TENSOR_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/shm_arguments.h"

namespace tenon::loader {

// Sample i is row i of each tensor, a field each. Workers share tensors that
// are in shared memory; a tensor in private memory is copied once for all
// workers, and a tensor that is not dense once for each.
class TensorDataset : public Dataset {
 public:
  // Errors: kInvalidArgument if there are no tensors, not as many names, a
  // scalar among them, or if the numbers of rows differ; SampleSpec's for the
  // names; Tensor::data()'s.
  static absl::StatusOr<std::unique_ptr<TensorDataset>> Create(
      const std::vector<std::string>& names,
      const std::vector<Tensor>& tensors);

  int64_t size() const override { return size_; }
  SampleSpec spec() const override { return spec_; }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override;
  bool thread_safe() const override { return true; }

 private:
  TensorDataset(int64_t size, SampleSpec spec)
      : size_(size), spec_(std::move(spec)) {}

  struct Rows {
    Tensor tensor;  // Dense.
    absl::Span<const std::byte> bytes;
    size_t row_bytes = 0;
  };

  int64_t size_;
  SampleSpec spec_;
  std::vector<Rows> fields_;
};

TENON_LOADER_DATASET(TensorDataset(std::vector<std::string>,
                                   std::vector<Tensor>));

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_TENSOR_DATASET_H_
