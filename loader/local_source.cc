// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/local_source.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::loader {

// Aligned pieces of memory, kept for the next batch. Thread-safe; lives as long
// as any batch.
class LocalSource::Memories
    : public std::enable_shared_from_this<LocalSource::Memories> {
 public:
  explicit Memories(size_t size) : size_(size) {}

  std::shared_ptr<std::byte> Take() {
    Piece piece = TakeFree();
    if (piece == nullptr) {
      piece.reset(static_cast<std::byte*>(operator new(size_, kAlignment)));
    }
    return {piece.release(), [owner = shared_from_this()](std::byte* used) {
              const ThreadLock lock(&owner->mutex_);
              owner->free_.emplace_back(used);
            }};
  }

 private:
  static constexpr std::align_val_t kAlignment{BatchLayout::kAlignment};
  struct Delete {
    void operator()(std::byte* piece) const {
      operator delete(piece, kAlignment);
    }
  };
  using Piece = std::unique_ptr<std::byte, Delete>;

  Piece TakeFree() {
    const ThreadLock lock(&mutex_);
    if (free_.empty()) return nullptr;
    Piece piece = std::move(free_.back());
    free_.pop_back();
    return piece;
  }

  const size_t size_;
  ThreadMutex mutex_;
  std::vector<Piece> free_ ABSL_GUARDED_BY(mutex_);
};

LocalSource::LocalSource(Dataset* dataset,
                         std::shared_ptr<const BatchLayout> layout,
                         uint64_t seed, OnSampleError on_error,
                         const Cancellation* cancellation)
    : dataset_(dataset),
      layout_(std::move(layout)),
      seed_(seed),
      on_error_(on_error),
      cancellation_(cancellation),
      memories_(std::make_shared<Memories>(
          static_cast<size_t>(layout_->total_bytes()))) {}

void LocalSource::StartEpoch(const EpochPlan& plan) {
  plan_ = plan;
  next_ = 0;
}

absl::StatusOr<Batch> LocalSource::Next(Deadline /*deadline*/) {
  TENON_ASSIGN_OR_RETURN(const std::vector<int64_t> indices,
                         plan_.Indices(next_));
  std::shared_ptr<std::byte> memory = memories_->Take();
  Batch::Contents contents = {.number = next_};
  const BatchTask task = {.seed = seed_,
                          .epoch = plan_.epoch,
                          .first_position = plan_.first_position(next_),
                          .indices = indices,
                          .on_error = on_error_};
  absl::StatusOr<int64_t> filled = FillBatch(
      *dataset_, *layout_, task, memory.get(),
      [&](SkippedSample sample) {
        contents.skipped.push_back(std::move(sample));
        return absl::OkStatus();
      },
      [&] { return cancellation_->is_cancelled(); });
  if (absl::IsCancelled(filled.status()) && cancellation_->is_cancelled()) {
    return Cancellation::Error();
  }
  TENON_RETURN_IF_ERROR(filled.status());
  contents.size = *filled;
  ++next_;
  return Batch(std::move(contents), layout_, std::move(memory));
}

}  // namespace tenon::loader
