// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StackDataset: the fields of several datasets side by side.

#ifndef TENON_LOADER_DATASETS_STACK_DATASET_H_
#define TENON_LOADER_DATASETS_STACK_DATASET_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// Sample i has all fields of sample i of each dataset. They draw from one
// sequence of random numbers, in their order; so Dataset::GetBatch() of the
// members is not used.
class StackDataset : public Dataset {
 public:
  // Errors: kInvalidArgument for no datasets, a null or iterable one, different
  // sizes, a name of a field that two of them have, and fields of
  // SampleSpec::AddInput() or AddOutput(): they would need one Collate().
  static absl::StatusOr<std::unique_ptr<StackDataset>> Create(
      std::vector<std::unique_ptr<Dataset>> datasets);

  int64_t size() const override { return members_[0].dataset->size(); }
  SampleSpec spec() const override { return spec_; }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override;
  // If all datasets are.
  bool thread_safe() const override;

 private:
  struct Member {
    std::unique_ptr<Dataset> dataset;
    int first_field = 0;
    int fields = 0;
  };

  StackDataset(std::vector<Member> members, SampleSpec spec)
      : members_(std::move(members)), spec_(std::move(spec)) {}

  std::vector<Member> members_;
  SampleSpec spec_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_STACK_DATASET_H_
