// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/arena.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/arena/internal/arena_state.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {

Arena::Arena(std::unique_ptr<ArenaState> state) : state_(std::move(state)) {}
Arena::~Arena() = default;

absl::StatusOr<std::shared_ptr<Arena>> Arena::Create(
    const ArenaOptions& options) {
  TENON_ASSIGN_OR_RETURN(auto state, ArenaState::Create(options));
  return std::shared_ptr<Arena>(new Arena(std::move(state)));
}

const RandomId& Arena::id() const { return state_->id(); }
const ArenaOptions& Arena::options() const { return state_->options(); }

absl::StatusOr<Block> Arena::Allocate(size_t bytes, Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(OwnedBlock * block, state_->Allocate(bytes, deadline));
  return Block(shared_from_this(), block, {block->data(), block->size()});
}

absl::StatusOr<Block> Arena::TryAllocate(size_t bytes) {
  return Allocate(bytes, Deadline::Passed());
}

absl::StatusOr<ArenaOffer> Arena::Offer(const Block& block) {
  TENON_RETURN_IF_ERROR(state_->CheckUsable());
  if (block.arena_.get() != this) {
    return absl::InvalidArgumentError("the block is not of this arena");
  }
  // Descriptors that lie unread in the inbox count against the limit of this
  // user, and processes attach after offers.
  state_->LookIntoInbox();
  const OwnedSegment& segment = *block.block_->segment;
  ArenaOffer offer;
  offer.bytes =
      ArenaOfferFacts{id(), segment.listed.id(), segment.segment.strategy(),
                      segment.segment.name()}
          .ToBytes();
  offer.fds = {state_->table().fd(), state_->inbox()};
  if (segment.segment.strategy() == SharingStrategy::kFileDescriptor) {
    offer.fds.push_back(segment.segment.fd());
  }
  return offer;
}

absl::Status Arena::CheckHolder(const RandomId& column, size_t more_bytes) {
  return state_->CheckHolder(column, more_bytes);
}

absl::StatusOr<size_t> Arena::Trim() { return state_->Trim(); }

absl::StatusOr<std::vector<HolderUse>> Arena::Holders() {
  return state_->Holders();
}

ArenaUse Arena::Use() const {
  return state_->inherited() ? ArenaUse() : state_->Use();
}

Block::Block(const Block& other)
    : arena_(other.arena_), block_(other.block_), bytes_(other.bytes_) {
  if (block_ != nullptr) {
    block_->references.fetch_add(1, std::memory_order_relaxed);
  }
}

void Block::Reset() {
  if (block_ == nullptr) return;
  OwnedBlock* block = std::exchange(block_, nullptr);
  // What other threads did with it happens before it is used again. Of the only
  // reference nobody else can make another: that spares an atomic step.
  if (block->references.load(std::memory_order_acquire) == 1) {
    block->references.store(0, std::memory_order_relaxed);
    arena_->state_->LetGo(*block);
  } else if (block->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    arena_->state_->LetGo(*block);
  }
  arena_.reset();
  bytes_ = {};
}

absl::StatusOr<BlockDescriptor> Block::Describe() const {
  return Describe(0, size());
}

absl::StatusOr<BlockDescriptor> Block::Describe(size_t offset,
                                                size_t size_bytes) const {
  if (block_ == nullptr) {
    return absl::FailedPreconditionError("there is no block");
  }
  TENON_RETURN_IF_ERROR(arena_->state_->CheckUsable());
  if (size_bytes > size() || offset > size() - size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("a block of ", size(),
                                                   " bytes has no ", size_bytes,
                                                   " bytes at ", offset));
  }
  arena_->state_->LookNowAndThen();
  block_->exposed.store(true, std::memory_order_relaxed);
  return BlockDescriptor{
      .arena = arena_->id(),
      .segment = block_->segment->listed.id(),
      .block = block_->number,
      .generation = StdAtomics::Load(
          arena_->state_->table().generations()[block_->number],
          std::memory_order_relaxed),
      .offset = offset,
      .size = size_bytes};
}

}  // namespace tenon
