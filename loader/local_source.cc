// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/local_source.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/shard_order.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/worker/collate_batch.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/loader/worker/sample_threads.h"
#include "tenon/loader/worker/shard_reader.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<LocalSource>> LocalSource::Create(
    Dataset* dataset, std::shared_ptr<const BatchLayout> layout,
    const Options& options, const Cancellation* cancellation) {
  ArenaOptions arena_options;
  arena_options.name = "loader";
  arena_options.segment.strategy = options.strategy;
  arena_options.segment.name_prefix = absl::StrCat("tenon-loader-", getpid());
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Arena> arena,
                         Arena::Create(arena_options));
  std::unique_ptr<SampleThreads> threads;
  if (options.threads > 1) {
    TENON_ASSIGN_OR_RETURN(threads, SampleThreads::Create(options.threads));
  }
  return absl::WrapUnique(new LocalSource(dataset, std::move(layout), options,
                                          std::move(arena), std::move(threads),
                                          cancellation));
}

void LocalSource::StartEpoch(const EpochPlan& plan) {
  plan_ = plan;
  next_ = plan.first_batch;
  shard_order_ =
      ShardOrder(plan.lanes, plan.first_lane, plan.lane_step, plan.start);
  if (iterable_ == nullptr) return;
  shards_ = std::make_unique<ShardReader>(
      iterable_, layout_.get(),
      ShardLanes{.shards = plan.shards, .lanes = plan.lanes});
}

absl::StatusOr<std::optional<BatchResult>> LocalSource::Next(
    Deadline /*deadline*/) {
  while (
      !cancellation_->is_draining() &&
      (iterable_ != nullptr ? !shard_order_.done() : next_ < plan_.batches)) {
    int64_t number = next_;
    absl::StatusOr<std::optional<Batch>> batch = std::nullopt;
    if (iterable_ != nullptr) {
      const int64_t lane = shard_order_.lane();
      number = shard_order_.number();
      shard_order_.Advance();
      batch = MakeOfShard(lane, number);
    } else {
      ++next_;
      batch = Make(number);
    }
    meter().Enter(Stage::kTake);
    if (cancellation_->is_cancelled()) return Cancellation::Error();
    if (!batch.ok()) return BatchResult{batch.status(), number};
    if (batch->has_value()) return BatchResult{**std::move(batch), number};
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Batch>> LocalSource::MakeOfShard(int64_t lane,
                                                              int64_t number) {
  if (shards_->HasEnded(lane)) {
    shard_order_.End(lane);
    return std::nullopt;
  }
  meter().SetBatch(plan_.epoch, number);
  meter().Enter(Stage::kQueue);
  absl::StatusOr<Tensor> allocated = NewBlock(block_bytes_);
  // Else the shard's next batch had the samples of this one.
  const int64_t before = number / plan_.lanes;
  if (!allocated.ok()) shards_->CloseShard(lane, before);
  TENON_ASSIGN_OR_RETURN(Tensor block, std::move(allocated));
  TENON_ASSIGN_OR_RETURN(std::byte* const memory, block.storage()->Write());
  std::optional<ScopedWorkerInfo> info;
  if (options_.worker_info) info.emplace(*options_.worker_info);
  const ShardTask task = {.seed = options_.seed,
                          .epoch = plan_.epoch,
                          .lane = lane,
                          .before = before,
                          .samples = layout_->batch_size(),
                          .on_error = options_.on_error,
                          .drop_last = options_.drop_last,
                          .scratch = scratch()};
  meter().Enter(Stage::kLoad);
  TENON_ASSIGN_OR_RETURN(std::optional<FilledBatch> filled,
                         shards_->Fill(task, memory, [&] {
                           return cancellation_->is_cancelled();
                         }));
  if (!filled) {
    shard_order_.End(lane);
    return std::nullopt;
  }
  TENON_RETURN_IF_ERROR(Collate(filled->samples, block));
  Batch::Contents contents = {.number = number,
                              .size = filled->samples,
                              .worker = -1,
                              .skipped = std::move(filled->skipped)};
  return Batch::Create(std::move(contents), layout_, block.storage());
}

absl::StatusOr<std::optional<Batch>> LocalSource::Make(int64_t number) {
  TENON_ASSIGN_OR_RETURN(const EpochPlan::Items items, plan_.ItemsOf(number));
  meter().SetBatch(plan_.epoch, number);
  meter().Enter(Stage::kQueue);
  TENON_ASSIGN_OR_RETURN(Tensor block, NewBlock(block_bytes_));
  TENON_ASSIGN_OR_RETURN(std::byte* const memory, block.storage()->Write());
  const BatchTask task = {.seed = options_.seed,
                          .epoch = plan_.epoch,
                          .first_position = items.first_position,
                          .indices = items.indices,
                          .on_error = options_.on_error,
                          .scratch = scratch(),
                          .threads = threads_.get()};
  meter().Enter(Stage::kLoad);
  TENON_ASSIGN_OR_RETURN(FilledBatch filled,
                         FillBatch(*dataset_, *layout_, task, memory, [&] {
                           return cancellation_->is_cancelled();
                         }));
  TENON_RETURN_IF_ERROR(Collate(filled.samples, block));
  Batch::Contents contents = {.number = number,
                              .size = filled.samples,
                              .worker = -1,
                              .skipped = std::move(filled.skipped)};
  return Batch::Create(std::move(contents), layout_, block.storage());
}

absl::StatusOr<Tensor> LocalSource::NewBlock(size_t bytes) {
  return CreateTensor(*arena_, kDtypeOf<uint8_t>, {static_cast<int64_t>(bytes)},
                      Deadline::Passed());
}

absl::Status LocalSource::Collate(int64_t samples, Tensor& block) {
  if (scratch() != nullptr) meter().Enter(Stage::kCollate);
  std::optional<Tensor> larger;
  const auto bytes_of =
      [](const Tensor& tensor) -> absl::StatusOr<std::span<std::byte>> {
    TENON_ASSIGN_OR_RETURN(std::byte* const memory, tensor.storage()->Write());
    return std::span(memory, tensor.storage()->size_bytes());
  };
  const auto grow = [&](size_t bytes) -> absl::StatusOr<std::span<std::byte>> {
    TENON_ASSIGN_OR_RETURN(larger, NewBlock(bytes));
    return bytes_of(*larger);
  };
  TENON_ASSIGN_OR_RETURN(const std::span<std::byte> memory, bytes_of(block));
  TENON_ASSIGN_OR_RETURN(
      const size_t needed,
      CollateBatch(*dataset_, *layout_, scratch_, samples, memory, grow));
  block_bytes_ = NextBlockBytes(block_bytes_, needed);
  if (larger) block = *std::move(larger);
  return absl::OkStatus();
}

}  // namespace tenon::loader
