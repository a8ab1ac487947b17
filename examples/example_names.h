// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of the project's README, and of the pages for users
// of torch, use without declaring them. Examples are compiled, not run: nothing
// here is defined.

#ifndef TENON_EXAMPLES_EXAMPLE_NAMES_H_
#define TENON_EXAMPLES_EXAMPLE_NAMES_H_

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/futures/collect.h"
#include "tenon/futures/future.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/loader/loader.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/exit_code.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/value/value.h"
#include "tenon/spawn/arguments/queue_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/process/start.h"

using tenon::loader::Batch;
using tenon::loader::Loader;

class Photos : public tenon::loader::Dataset {
 public:
  static absl::StatusOr<std::unique_ptr<Photos>> Create(std::string folder,
                                                        int pixels);
  int64_t size() const override;
  tenon::loader::SampleSpec spec() const override;
  absl::Status Get(int64_t index, tenon::loader::SampleRandom& random,
                   tenon::loader::Sample& sample) override;
};
TENON_LOADER_DATASET(Photos(std::string, int));

int64_t Measure(std::string path);
TENON_POOL_FUNCTION(Measure);

int Fail(const absl::Status& status);
void Log(const absl::StatusOr<int>& count);
void Train(const tenon::Tensor& images);
void Train(const tenon::Tensor& images, const tenon::Tensor& labels);
void Use(const tenon::Tensor& tensor);
extern const std::string folder;
extern const tenon::Deadline deadline;
extern const std::vector<std::string> paths;
extern const std::vector<double> rates;
extern const tenon::Tensor weights;
extern std::unique_ptr<tenon::TensorQueue> queue;
extern std::vector<tenon::futures::Future<int>> counts;

#endif  // TENON_EXAMPLES_EXAMPLE_NAMES_H_
