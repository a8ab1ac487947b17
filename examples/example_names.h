// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of the project's README use without declaring them.
// Examples are compiled, not run: nothing here is defined.

#ifndef TENON_EXAMPLES_EXAMPLE_NAMES_H_
#define TENON_EXAMPLES_EXAMPLE_NAMES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/loader.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/child/init.h"

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

int Fail(const absl::Status& status);
void Train(const tenon::Tensor& images);
extern const std::string folder;

#endif  // TENON_EXAMPLES_EXAMPLE_NAMES_H_
