// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LocalSource: makes batches in the consumer itself, one when it is asked for.
// What a loader without workers uses.

#ifndef TENON_LOADER_LOCAL_SOURCE_H_
#define TENON_LOADER_LOCAL_SOURCE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::loader {

// Batches are in private memory, which is reused as they are destroyed.
class LocalSource : public BatchSource {
 public:
  // `dataset` and `cancellation` must outlive it.
  LocalSource(Dataset* dataset, std::shared_ptr<const BatchLayout> layout,
              uint64_t seed, OnSampleError on_error,
              const Cancellation* cancellation);

  void StartEpoch(const EpochPlan& plan) override;
  // Computes the batch; the deadline cannot interrupt Dataset::Get().
  absl::StatusOr<Batch> Next(Deadline deadline) override;
  std::vector<pid_t> WorkerPids() const override { return {}; }

 private:
  class Memories;

  Dataset* dataset_;
  std::shared_ptr<const BatchLayout> layout_;
  uint64_t seed_;
  OnSampleError on_error_;
  const Cancellation* cancellation_;
  std::shared_ptr<Memories> memories_;
  EpochPlan plan_;
  int64_t next_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOCAL_SOURCE_H_
