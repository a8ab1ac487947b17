// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/attached_arena.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/arena_limits.h"
#include "tenon/shm/arena/internal/arena_attachment.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/mapped_segment.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unix_socket.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/segment/control_memory.h"
#include "tenon/shm/tensor/device.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

constexpr char kWhat[] = "an attached arena";

absl::Status CheckFds(const ArenaOfferFacts& facts, const ReceivedFds& fds) {
  if (fds.size() != facts.fd_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("arena offer: got ", fds.size(), " descriptors; want ",
                     facts.fd_count()));
  }
  return CheckIsUnixSocket(fds[ArenaOfferFacts::kInbox], SOCK_SEQPACKET,
                           "the inbox that came with the offer of an arena");
}

// Checks its size, which is sealed, and which must match the table's header.
absl::Status CheckTableSize(int fd, const AttachLimits& limits) {
  const uint64_t max_blocks = std::min(limits.max_blocks, Layout::kMaxBlocks);
  TENON_ASSIGN_OR_RETURN(
      const size_t size,
      CheckIsControlMemory(fd, "a received table of an arena"));
  if (size <= Layout::Bytes(max_blocks)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a received table of an arena has ", SizeText(size),
                   "; the limit is ", SizeText(Layout::Bytes(max_blocks)),
                   ", for ", max_blocks, " blocks (max_blocks)"));
}

absl::Status BlockWasReclaimed(absl::string_view arena,
                               const BlockDescriptor& descriptor) {
  return absl::DataLossError(absl::StrCat(
      "block ", descriptor.block, " of arena '", arena,
      "' was reclaimed before it could be claimed: its sender had released it, "
      "or was killed"));
}

absl::Status AttachmentIsRefused(absl::string_view arena) {
  return absl::UnavailableError(absl::StrCat(
      "the owner of arena '", arena,
      "' has refused the attachment of this process, and cannot read its "
      "claims: accept an offer of the arena again"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<AttachedArena>> AttachedArena::Attach(
    absl::string_view offer, std::vector<UniqueFd> fds,
    const AttachLimits& limits) {
  ReceivedFds received(std::move(fds));
  TENON_ASSIGN_OR_RETURN(const ArenaOfferFacts facts,
                         ArenaOfferFacts::FromBytes(offer));
  TENON_RETURN_IF_ERROR(CheckFds(facts, received));
  TENON_RETURN_IF_ERROR(
      CheckTableSize(received[ArenaOfferFacts::kTable], limits));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<ArenaAttachment> attachment,
                         ArenaAttachment::Get(facts, received, limits));
  return std::shared_ptr<AttachedArena>(
      new AttachedArena(std::move(attachment), facts.segment));
}

// The segments that were added through it, the first one first; some may be
// unmapped since.
struct AttachedArena::Added {
  explicit Added(uint32_t segment) : segments({segment}) {}

  ThreadMutex mutex;
  std::vector<uint32_t> segments ABSL_GUARDED_BY(mutex);
};

AttachedArena::AttachedArena(std::shared_ptr<ArenaAttachment> attachment,
                             uint32_t segment)
    : attachment_(std::move(attachment)),
      fork_count_(ForkCount()),
      added_(std::make_unique<Added>(segment)) {}

AttachedArena::~AttachedArena() {
  if (fork_count_ != ForkCount()) return;
  const ThreadLock lock(&added_->mutex);
  for (const uint32_t segment : added_->segments) {
    attachment_->RemoveUser(segment);
  }
}

absl::Status AttachedArena::Add(absl::string_view offer,
                                std::vector<UniqueFd> fds,
                                const AttachLimits& limits) {
  ReceivedFds received(std::move(fds));
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  TENON_ASSIGN_OR_RETURN(const ArenaOfferFacts facts,
                         ArenaOfferFacts::FromBytes(offer));
  TENON_RETURN_IF_ERROR(CheckFds(facts, received));
  const ThreadLock lock(&added_->mutex);
  // Added segments are counted already.
  std::vector<uint32_t>& segments = added_->segments;
  std::erase_if(segments, [this](uint32_t segment) {
    return attachment_->BytesOf(segment) == 0;
  });
  if (std::find(segments.begin(), segments.end(), facts.segment) !=
      segments.end()) {
    return attachment_->Map(facts, received, AttachLimits(),
                            ArenaAttachment::User::kKnown);
  }
  TENON_RETURN_IF_ERROR(
      attachment_->Map(facts, received, limits, ArenaAttachment::User::kNew));
  segments.push_back(facts.segment);
  return absl::OkStatus();
}

absl::StatusOr<Hold> AttachedArena::Claim(const BlockDescriptor& descriptor) {
  TENON_ASSIGN_OR_RETURN(const std::byte* const data, ClaimData(descriptor));
  const bool is_of_cpu = IsOnCpu(attachment_->device());
  return Hold(shared_from_this(), is_of_cpu ? data : nullptr, descriptor);
}

// A claimed block keeps its segment open.
uintptr_t AttachedArena::AddressOf(const Hold& hold) const {
  const BlockDescriptor& block = hold.descriptor_;
  const SegmentAccess& segment = attachment_->SlotOf(block.segment);
  const ArenaSegment& listed = segment.listed();
  return reinterpret_cast<uintptr_t>(segment.data()) +
         (block.block - listed.first_block) * listed.block_bytes + block.offset;
}

absl::StatusOr<const std::byte*> AttachedArena::ClaimData(
    const BlockDescriptor& descriptor) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  ArenaAttachment& attachment = *attachment_;
  SegmentAccess& segment = attachment.SlotOf(descriptor.segment);
  if (descriptor.arena != id() || !segment.Enter(descriptor.segment)) {
    return absl::NotFoundError(
        absl::StrCat("segment ", descriptor.segment, " of arena ",
                     descriptor.arena.ToString(),
                     " has not been offered to this process, or is retired"));
  }
  const ArenaSegment& listed = segment.listed();
  const uint64_t index = uint64_t{descriptor.block} - listed.first_block;
  if (index >= listed.block_count || descriptor.size > listed.block_bytes ||
      descriptor.offset > listed.block_bytes - descriptor.size) {
    segment.Leave();
    return absl::InvalidArgumentError(
        absl::StrCat("Claim(): ", SizeText(descriptor.size), " at offset ",
                     descriptor.offset, " of block ", descriptor.block,
                     " are outside of segment ", descriptor.segment,
                     " of arena '", name(), "', which has ", listed.block_count,
                     " blocks of ", SizeText(listed.block_bytes),
                     " from block ", listed.first_block, " on"));
  }
  const SharedWord<uint64_t>& generation =
      attachment.table().generations()[descriptor.block];
  // The claim is a barrier, after which alone the second cache line would be
  // fetched.
  __builtin_prefetch(&generation);
  SharedWord<uint64_t>& cell = attachment.cell(descriptor.block);
  const bool claimed = Lease<>::Claim(cell, generation, descriptor.generation);
  const std::byte* const data =
      segment.data() + index * listed.block_bytes + descriptor.offset;
  // A claim keeps the segment open.
  segment.Leave();
  if (!claimed) return BlockWasReclaimed(name(), descriptor);
  TENON_CRASH_POINT("attached_arena.claimed");
  if (attachment.MayBeRefused() && attachment.IsRefused()) [[unlikely]] {
    Lease<>::Release(cell);
    return AttachmentIsRefused(name());
  }
  return data;
}

void AttachedArena::Release(const Hold& hold) {
  if (fork_count_ != ForkCount()) return;
  // A hold was claimed, and is released once: it cannot fail.
  Lease<>::Release(attachment_->cell(hold.descriptor_.block));
  TENON_CRASH_POINT("attached_arena.released");
}

absl::StatusOr<ArenaOffer> AttachedArena::Offer(uint32_t segment) const {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  return attachment_->Offer(segment);
}

void AttachedArena::Sweep() { attachment_->Sweep(); }

const RandomId& AttachedArena::id() const {
  return attachment_->table().header().arena;
}

std::string AttachedArena::name() const { return attachment_->table().name(); }

bool AttachedArena::IsRefused() const {
  return fork_count_ == ForkCount() && attachment_->IsRefused();
}

bool AttachedArena::OwnerHasEnded() const {
  return fork_count_ == ForkCount() && attachment_->OwnerHasEnded();
}

template <typename Counts>
AttachedArena::Mapped AttachedArena::CountIf(const Counts& counts) const {
  Mapped counted;
  if (fork_count_ != ForkCount()) return counted;
  const ThreadLock lock(&added_->mutex);
  for (const uint32_t segment : added_->segments) {
    const uint64_t bytes = attachment_->BytesOf(segment);
    if (bytes == 0 || !counts(segment)) continue;
    ++counted.segments;
    counted.bytes += bytes;
  }
  return counted;
}

AttachedArena::Mapped AttachedArena::mapped() const {
  return CountIf([](uint32_t) { return true; });
}

AttachedArena::Mapped AttachedArena::pinned() const {
  return CountIf(
      [this](uint32_t segment) { return attachment_->IsPinned(segment); });
}

bool AttachedArena::EvictOldest(uint32_t kept) {
  if (fork_count_ != ForkCount()) return false;
  const ThreadLock lock(&added_->mutex);
  std::vector<uint32_t>& segments = added_->segments;
  const auto evicted =
      std::find_if(segments.begin(), segments.end(), [&](uint32_t segment) {
        return segment != kept && attachment_->BytesOf(segment) != 0 &&
               attachment_->Evict(segment);
      });
  if (evicted == segments.end()) return false;
  segments.erase(evicted);
  return true;
}

Hold& Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  arena_ = std::move(other.arena_);
  data_ = std::exchange(other.data_, nullptr);
  descriptor_ = std::exchange(other.descriptor_, BlockDescriptor());
  return *this;
}

void Hold::Reset() {
  if (arena_ == nullptr) return;
  arena_->Release(*this);
  arena_.reset();
  data_ = nullptr;
  descriptor_ = BlockDescriptor();
}

uintptr_t Hold::address() const {
  return arena_ == nullptr ? 0 : arena_->AddressOf(*this);
}

absl::StatusOr<std::byte*> Hold::mutable_data() const {
  if (arena_ == nullptr ||
      arena_->attachment()->table().header().shared_writable == 0) {
    return absl::FailedPreconditionError(
        "mutable_data(): the block is read-only: its arena is owner-written");
  }
  if (data_ == nullptr) {
    return absl::FailedPreconditionError(
        "mutable_data(): the block is in memory of a device, which the CPU "
        "cannot access; address() is the device's");
  }
  return const_cast<std::byte*>(data_);
}

}  // namespace tenon
