// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/batch_joiner.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

bool BatchJoiner::Begin(int64_t number, size_t parts) {
  if (layout_->varying() > 0) return false;
  if (arena_ == nullptr) {
    // By descriptor, whatever the loader's strategy: a name would stay if this
    // process is killed.
    ArenaOptions options = {.name = "loader"};
    options.segment.strategy = SharingStrategy::kFileDescriptor;
    absl::StatusOr<std::shared_ptr<Arena>> arena = Arena::Create(options);
    if (!arena.ok()) return false;
    arena_ = *std::move(arena);
  }
  absl::StatusOr<Tensor> block = CreateTensor(
      *arena_, kDtypeOf<uint8_t>, {layout_->total_bytes()}, Deadline::Passed());
  if (!block.ok()) return false;
  joined_.emplace(Joined{.block = *std::move(block),
                         .parts_left = parts,
                         .contents = {.number = number, .worker = 0}});
  return true;
}

std::optional<absl::StatusOr<Batch>> BatchJoiner::Add(
    absl::StatusOr<Batch> part) {
  if (joined_->status.ok()) {
    joined_->status = part.ok() ? Append(*part) : part.status();
  }
  if (--joined_->parts_left > 0) return std::nullopt;
  Joined joined = *std::exchange(joined_, std::nullopt);
  if (!joined.status.ok()) return joined.status;
  return Batch::Create(std::move(joined.contents), layout_,
                       joined.block.storage());
}

absl::Status BatchJoiner::Append(const Batch& part) {
  TENON_ASSIGN_OR_RETURN(std::byte* const memory,
                         joined_->block.storage()->Write());
  Batch::Contents& contents = joined_->contents;
  for (int f = 0; f < part.num_fields(); ++f) {
    const BatchLayout::Field& field = layout_->fields()[static_cast<size_t>(f)];
    TENON_ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes,
                           part.data<std::byte>(f));
    std::copy(bytes.begin(), bytes.end(),
              memory + field.offset + contents.size * field.sample_bytes);
  }
  contents.size += part.size();
  contents.skipped.insert(contents.skipped.end(), part.skipped().begin(),
                          part.skipped().end());
  return absl::OkStatus();
}

}  // namespace tenon::loader
