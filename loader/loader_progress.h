// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderProgress: which batches of an epoch the user has received, and where
// the next epoch begins.

#ifndef TENON_LOADER_LOADER_PROGRESS_H_
#define TENON_LOADER_LOADER_PROGRESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader_options.h"
#include "tenon/loader/loader_state.h"
#include "tenon/loader/sampling/batch_sampler.h"
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

// Ownership: owns what plans refer to, so it outlives the source of batches.
// Threads: thread-compatible.
class LoaderProgress {
 public:
  // `whole` is the plan of any epoch from its beginning; its samplers outlive
  // this. `dataset` is its name.
  LoaderProgress(absl::string_view dataset, const LoaderOptions& options,
                 const EpochPlan& whole);
  LoaderProgress(const LoaderProgress&) = delete;
  LoaderProgress& operator=(const LoaderProgress&) = delete;

  // The plan of `epoch` (>= 0): from where a state that was loaded says, if it
  // is of this epoch, else from its beginning. Valid until the call after the
  // next one. Errors: those of the sampler.
  absl::StatusOr<EpochPlan> Begin(int64_t epoch);

  // The user has received batch `number` of the epoch, or its error.
  void OnBatch(int64_t number);
  // The user has learnt that the epoch has ended.
  void OnEnd();

  // Loader::State() and Load(), without the rank before errors.
  absl::StatusOr<LoaderState> State();
  absl::Status Load(const LoaderState& state);

 private:
  using Order = std::vector<std::pair<std::string, std::string>>;

  // A part of an order in an epoch, that is resumed.
  struct Rest {
    std::unique_ptr<Sampler> sampler;
    std::unique_ptr<BatchSampler> batch_sampler;
    EpochPlan plan;
  };

  bool is_stream() const { return whole_.shards > 0; }
  bool is_slice() const;
  // Of samples, or batches.
  int64_t WholeSize() const;
  absl::StatusOr<Order> OrderOf(int64_t epoch);
  absl::StatusOr<std::string> Digest(int64_t epoch);
  absl::Status CheckSlice() const;
  absl::Status CheckLoadable(const LoaderState::Contents& state) const;
  absl::StatusOr<std::unique_ptr<Rest>> RestOf(
      const LoaderState::Contents& state) const;
  // The position of the whole order after the first `batches` of the plan's
  // sampler.
  absl::StatusOr<int64_t> PositionAfter(int64_t batches) const;
  // The positions of a batch that is late.
  absl::StatusOr<LoaderState::Range> RangeOf(int64_t number) const;
  absl::Status SetPosition(LoaderState::Contents& contents) const;
  absl::Status SetLanePositions(LoaderState::Contents& contents) const;

  const LoaderOptions options_;
  const std::string dataset_;
  const EpochPlan whole_;
  const Rank rank_;                              // Of an iterable dataset.
  std::optional<LoaderState::Contents> loaded_;  // For the next epoch.

  int64_t epoch_ = 0;
  bool ended_ = false;  // The epoch before has.
  const EpochPlan* plan_ = &whole_;
  std::unique_ptr<Rest> rest_;     // If plan_ is a part of it.
  std::unique_ptr<Rest> retired_;  // That of the epoch before.
  // Of a sampler: after all batches received so far, and those before that have
  // not been received: one or more with in_order false.
  int64_t next_ = 0;
  std::set<int64_t> late_;
  // Of an iterable dataset: after all batches received of lanes whose number
  // modulo the size is the same: one, or one for each worker of each rank.
  std::vector<int64_t> next_of_lanes_;

  std::optional<int64_t> digest_epoch_;
  std::string digest_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOADER_PROGRESS_H_
