// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RunEpochs: takes all batches of a loader, counts them and shows progress.

#ifndef TENON_EXAMPLES_PHOTOS_EPOCH_RUN_H_
#define TENON_EXAMPLES_PHOTOS_EPOCH_RUN_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/examples/photos/epoch_digest.h"
#include "tenon/loader/loader.h"

namespace tenon {

// The results of a run.
struct EpochResults {
  int64_t images = 0;
  int64_t batches = 0;
  int64_t bytes = 0;
  int64_t skipped = 0;              // Samples left out,
  std::set<std::string> bad_files;  // of these files.
  absl::Duration wall_time;
  absl::Duration time_to_first_batch;
  std::string tuning;  // Loader::tuning()
  std::map<int, int64_t> images_of_worker;
  EpochDigest digest;
};

struct EpochRunOptions {
  int64_t epochs = 1;
  // The start of the run: start-up counts towards the time to the first batch.
  std::chrono::steady_clock::time_point began;
  // Whether to show progress and to warn of bad files.
  bool show = true;
};

// Runs epochs 0 to `epochs` - 1. Warns of each bad file once, on stderr.
// Errors: the loader's.
absl::StatusOr<EpochResults> RunEpochs(loader::Loader& loader,
                                       const EpochRunOptions& options);

// The results for humans, one per line.
std::string Summary(const EpochResults& results);

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_EPOCH_RUN_H_
