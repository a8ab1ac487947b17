// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/mapped_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/mapped_pages.h"
#include "tenon/shm/arena/memory_kind.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {
namespace {

BlockStore::Facts WithStrategy(BlockStore::Facts facts,
                               const ArenaOptions& options) {
  facts.strategy = options.segment.strategy ? *options.segment.strategy
                                            : GetSharingStrategy();
  return facts;
}

absl::Status SetAccess(std::byte* block, size_t bytes, int access) {
  if (mprotect(block, bytes, access) == 0) return absl::OkStatus();
  // A block with a protection of its own is a mapping of its own, and the
  // number of mappings of a process is limited.
  return PosixError(errno, "mprotect", "a block of an arena");
}

}  // namespace

MappedMemory::~MappedMemory() {
  if (pages_ != nullptr) MappedPages::Retire(std::move(pages_));
}

absl::Status MappedMemory::Map() {
  if (pages_ != nullptr) return absl::OkStatus();
  if (segment_.kind() == SegmentKind::kSharedWritable) {
    TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment_.MapWritable());
    pages_ = MappedPages::Of(std::move(mapping));
  } else {
    TENON_ASSIGN_OR_RETURN(ReadOnlyMapping mapping, segment_.MapReadOnly());
    pages_ = MappedPages::Of(std::move(mapping));
  }
  set_data(pages_->data());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StoredSegment>> MappedKind::Open(
    OfferedSegment offered) const {
  const SegmentKind kind = offered.writable ? SegmentKind::kSharedWritable
                                            : SegmentKind::kOwnerWritten;
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         offered.fd.valid()
                             ? Segment::Adopt(std::move(offered.fd), kind)
                             : Segment::Open(offered.name, kind));
  return std::make_unique<MappedMemory>(std::move(segment));
}

MappedStore::MappedStore(const ArenaOptions& options, Facts facts)
    : BlockStore(WithStrategy(facts, options)),
      kind_(options.kind),
      options_(options.segment) {
  options_.strategy = this->facts().strategy;
}

absl::Status MappedStore::CheckOptions(const ArenaOptions& /*options*/) const {
  return absl::OkStatus();
}

// The mapping is the owner's, also of a segment that all may write.
absl::StatusOr<std::unique_ptr<StoredSegment>> MappedStore::Create(
    size_t bytes) {
  if (kind_ == SegmentKind::kOwnerWritten) {
    TENON_ASSIGN_OR_RETURN(Segment::OwnerWritten made,
                           Segment::CreateOwnerWritten(bytes, options_));
    return std::make_unique<MappedMemory>(std::move(made));
  }
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Segment::CreateSharedWritable(bytes, options_));
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  return std::make_unique<MappedMemory>(
      Segment::OwnerWritten{std::move(segment), std::move(mapping)});
}

absl::Status MappedStore::Wipe(std::byte* block, size_t bytes) {
  memset(block, 0, bytes);
  return absl::OkStatus();
}

void MappedStore::Poison(std::byte* block, size_t bytes) {
  memset(block, kPoison, bytes);
}

absl::Status MappedStore::Protect(std::byte* block, size_t bytes) {
  return SetAccess(block, bytes, PROT_NONE);
}

absl::Status MappedStore::Unprotect(std::byte* block, size_t bytes) {
  return SetAccess(block, bytes, PROT_READ | PROT_WRITE);
}

}  // namespace tenon
