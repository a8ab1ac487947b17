// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: little here is defined.

#ifndef TENON_LOADER_EXAMPLE_NAMES_H_
#define TENON_LOADER_EXAMPLE_NAMES_H_

#include <sched.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/distributions.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/collate/collate.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sealed_tensor.h"
#include "tenon/loader/data/window_shuffle.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/datasets/subset_dataset.h"
#include "tenon/loader/datasets/tensor_dataset.h"
#include "tenon/loader/job/job.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/subset_sampler.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/child/init.h"

class Squares : public tenon::loader::Dataset {
 public:
  explicit Squares(int64_t size);
  int64_t size() const override;
  tenon::loader::SampleSpec spec() const override;
  absl::Status Get(int64_t index, tenon::loader::SampleRandom& random,
                   tenon::loader::Sample& sample) override;
};
TENON_LOADER_DATASET(Squares(int64_t));

int Fail(const absl::Status& status);
void Save(const std::string& text);
tenon::loader::SampleSpec LineSpec();
absl::StatusOr<std::unique_ptr<tenon::loader::SampleStream>> OpenLines(
    const std::string& path);
void Train(absl::Span<const float> images, int64_t count);
void Use(absl::Span<const int64_t> values);
void Use(const tenon::Tensor& tensor);
extern std::unique_ptr<tenon::loader::Loader> photos;
extern const tenon::Deadline deadline;
extern const std::string folder;
extern const std::vector<tenon::Tensor> samples;
extern tenon::loader::SampleRandom draws;

#endif  // TENON_LOADER_EXAMPLE_NAMES_H_
