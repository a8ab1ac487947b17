// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ReplaySource: returns the first batches of another source again and again, so
// that a consumer can be measured as if batches cost nothing.

#ifndef TENON_LOADER_REPLAY_SOURCE_H_
#define TENON_LOADER_REPLAY_SOURCE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::loader {

// Ownership: owns the other source, and keeps the batches.
class ReplaySource : public BatchSource {
 public:
  // Keeps the first `batches` that are good, or all of an epoch that has fewer.
  // `cancellation` must outlive it.
  ReplaySource(std::unique_ptr<BatchSource> source, size_t batches,
               const Cancellation* cancellation)
      : source_(std::move(source)),
        batches_(batches),
        cancellation_(cancellation) {}

  void StartEpoch(const EpochPlan& plan) override;
  // As soon as all are kept: one of them, at once, until the epoch has returned
  // as many as it has; of a stream, whose number is not known, as many as are
  // kept.
  absl::StatusOr<std::optional<BatchResult>> Next(Deadline deadline) override;
  std::vector<pid_t> WorkerPids() const override {
    return source_->WorkerPids();
  }
  int Workers() const override { return source_->Workers(); }
  std::string Tuning() const override { return source_->Tuning(); }
  std::vector<absl::Status> Incidents() const override {
    return source_->Incidents();
  }
  int64_t Replaced() const override { return source_->Replaced(); }

 private:
  absl::StatusOr<std::optional<BatchResult>> NextOfSource(Deadline deadline);

  std::unique_ptr<BatchSource> source_;
  const size_t batches_;
  const Cancellation* cancellation_;
  EpochPlan plan_;
  std::vector<Batch> kept_;
  bool is_complete_ = false;
  size_t returned_ = 0;  // Of this epoch.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_REPLAY_SOURCE_H_
