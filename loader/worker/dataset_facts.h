// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DatasetFacts: what a loader needs to know of a dataset that only its worker
// program can make.

#ifndef TENON_LOADER_WORKER_DATASET_FACTS_H_
#define TENON_LOADER_WORKER_DATASET_FACTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/data/worker_program.h"

namespace tenon::loader {

// A value.
struct DatasetFacts {
  SampleSpec spec;
  int64_t size = 0;
  int64_t shards = 0;  // 0: map-style. Or kShardPerWorker.
  int64_t open_shards = 0;
  bool thread_safe = false;
};

// Errors: those of spec(), and kInternal for an exception in the dataset.
absl::StatusOr<DatasetFacts> FactsOf(const Dataset& dataset);

std::string Encode(const DatasetFacts& facts);
// The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<DatasetFacts> DecodeDatasetFacts(absl::string_view bytes);

// A dataset of these facts, map-style or iterable, without samples: Get() and
// Open() return kUnimplemented.
std::unique_ptr<Dataset> DatasetOf(DatasetFacts facts);

// Has a process of `program` make the dataset of `recipe`, and returns
// DatasetOf() its facts. Blocks for `start_patience` at most until the program
// has called Init(), then for `patience` until the process has ended.
// Errors: kDeadlineExceeded after `patience`; those of Process::Start() and of
// the worker program, which name it: of LoadPlugin() and of
// DatasetRecipe::Make(); kFailedPrecondition for a program that ends, or takes
// longer, without a call of Init().
absl::StatusOr<std::unique_ptr<Dataset>> DescribeDataset(
    const WorkerProgram& program, const DatasetRecipe& recipe,
    absl::Duration patience, absl::Duration start_patience = absl::Seconds(60));

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_DATASET_FACTS_H_
