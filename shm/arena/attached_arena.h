// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// AttachedArena: blocks of another process's arena (or of this process's own
// arena, received back). Hold: a claim on one of them.
//
//   TENON_ASSIGN_OR_RETURN(auto arena,
//                          AttachedArena::Attach(offer_bytes, std::move(fds)));
//   TENON_ASSIGN_OR_RETURN(Hold hold, arena->Claim(descriptor));
//   // Now acknowledge the message, read hold.bytes(), or forward it.
//
// A block is claimed before the message that named it is acknowledged: until
// then its sender keeps it. The caller is responsible for that order: nothing
// else keeps the bytes from being reused under a reader.

#ifndef TENON_SHM_ARENA_ATTACHED_ARENA_H_
#define TENON_SHM_ARENA_ATTACHED_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/arena_limits.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

class ArenaAttachment;
class Hold;

// Ownership: held by shared_ptr, which each Hold has. All AttachedArenas of one
//   arena in a process share one attachment (arena_attachment.h): the
//   descriptors of the offers, kept because they may be forwarded, a mapping of
//   each segment and of the table, and cells in this process's column. When the
//   last of them is destroyed, the process detaches.
// Threads: thread-safe.
// Processes: in a forked child calls fail with kFailedPrecondition. exec() ends
//   the attachment, as death does.
// Trust: every number of an offer or a descriptor is checked against the real
//   objects before it is used: the owner's table identifies its socket and its
//   memory, so that no other process can substitute them. Only the sender of
//   the offer vouches that the table belongs to its id: accept messages of an
//   arena from the same peers as its offers. Bytes of a block are untrusted,
//   and may change at any time if the arena is shared-writable or its owner
//   misbehaves.
// Failure: a failed call has changed nothing.
class AttachedArena : public std::enable_shared_from_this<AttachedArena> {
 public:
  // Attaches to the arena of an offer, and maps the offered segment. Does not
  // wait for the owner, which may be stopped or dead: if it is dead, no block
  // is reclaimed any more, and blocks that peers still forward can be claimed.
  // Blocks, for up to a second, only if the owner's socket is shut and the
  // arena is not closed: it waits for the owner's end.
  // Errors: kInvalidArgument if it is not an offer or the descriptors do not
  // match it; kFailedPrecondition naming missing seals; kNotFound if the
  // segment is gone; kResourceExhausted naming the limit, also if the owner has
  // not read its inbox for so long that it is full, or that ended attachments
  // of this process still count (64); kUnavailable if the owner lives and yet
  // cannot be reached; kFailedPrecondition naming the kind of memory and the
  // target to link, if this program does not have it, or if it lacks the
  // arena's device. Limits are checked before memory is reserved for blocks
  // or a segment is mapped. Unused descriptors are closed without blocking
  // (received_fd.h).
  static absl::StatusOr<std::shared_ptr<AttachedArena>> Attach(
      absl::string_view offer, std::vector<UniqueFd> fds,
      const AttachLimits& limits = {});

  ~AttachedArena();
  AttachedArena(const AttachedArena&) = delete;
  AttachedArena& operator=(const AttachedArena&) = delete;

  const RandomId& id() const;
  std::string name() const;

  // Maps the segment of another offer of the same arena; no effect if it was
  // added before. Unmaps segments that the owner has retired.
  // Errors: as Attach().
  absl::Status Add(absl::string_view offer, std::vector<UniqueFd> fds,
                   const AttachLimits& limits = {});

  // Claims the bytes that a message named: some atomic steps; no system call,
  // no lock.
  // Errors: kNotFound if the segment has not been offered to this process, or
  // is retired; kInvalidArgument if the range exceeds it; kDataLoss if the
  // block was reclaimed before, as may happen when a process that forwarded it
  // was killed; kUnavailable if the owner has refused this process's
  // attachment: existing holds remain valid, and an offer attaches anew.
  absl::StatusOr<Hold> Claim(const BlockDescriptor& descriptor);

  // The message that a third process needs to claim blocks of this segment,
  // too.
  // Errors: kNotFound as Claim().
  absl::StatusOr<ArenaOffer> Offer(uint32_t segment) const;

  // Unmaps segments that the owner has retired. Add() does so as well.
  void Sweep();

  // The segments that were added through this object and are mapped.
  struct Mapped {
    size_t segments = 0;
    uint64_t bytes = 0;
  };
  Mapped mapped() const;
  // Of these, those that cannot be evicted: this process has claimed a block,
  // or another AttachedArena has the segment. Reads the cells of their blocks.
  Mapped pinned() const;
  // Unmaps the segment that was added first, of those that can be evicted and
  // are not `kept`; its blocks can be claimed once it is offered again. False
  // if there is none.
  bool EvictOldest(uint32_t kept);

  // ArenaAttachment's. False in a forked child, where the table is not mapped.
  bool IsRefused() const;
  bool OwnerHasEnded() const;
  const std::shared_ptr<ArenaAttachment>& attachment() const {
    return attachment_;
  }

 private:
  friend class Hold;
  friend class ReceivedBlocks;
  struct Added;

  AttachedArena(std::shared_ptr<ArenaAttachment> attachment, uint32_t segment);
  // Claim() without a Hold: the caller releases the claim in the block's cell,
  // and keeps this object until then.
  absl::StatusOr<const std::byte*> ClaimData(const BlockDescriptor& descriptor);
  void Release(const Hold& hold);
  uintptr_t AddressOf(const Hold& hold) const;
  template <typename Counts>
  Mapped CountIf(const Counts& counts) const;

  const std::shared_ptr<ArenaAttachment> attachment_;
  const uint64_t fork_count_;
  const std::unique_ptr<Added> added_;
};

// A claimed block, or a part of one.
// Ownership: keeps the block from being reused until it is destroyed, reset or
//   assigned to, and its memory mapped. Move-only; empty when moved from.
// Threads: thread-compatible; may be released in any thread.
// Processes: in a forked child it is inert: it releases nothing, and does not
//   keep its bytes from being reused.
class Hold {
 public:
  Hold() = default;
  Hold(Hold&& other) noexcept
      : arena_(std::move(other.arena_)),
        data_(std::exchange(other.data_, nullptr)),
        descriptor_(std::exchange(other.descriptor_, BlockDescriptor())) {}
  Hold& operator=(Hold&& other) noexcept;
  ~Hold() {
    if (arena_ != nullptr) Reset();
  }

  // The bytes that the descriptor named; empty if the hold is empty. Memory
  // that the CPU cannot access has no data() and no bytes(), only a size and an
  // address().
  std::span<const std::byte> bytes() const {
    return data_ == nullptr ? std::span<const std::byte>()
                            : std::span<const std::byte>(data_, size());
  }
  const std::byte* data() const { return data_; }
  size_t size() const { return static_cast<size_t>(descriptor_.size); }
  // On a device the device's address. 0 if empty.
  uintptr_t address() const;
  // For writing. Errors: kFailedPrecondition unless the arena is
  // shared-writable and its memory is the CPU's.
  absl::StatusOr<std::byte*> mutable_data() const;

  // To send when forwarding the block. The hold has to live until the receiver
  // has acknowledged.
  const BlockDescriptor& descriptor() const { return descriptor_; }
  const std::shared_ptr<AttachedArena>& arena() const { return arena_; }

  void Reset();

 private:
  friend class AttachedArena;
  Hold(std::shared_ptr<AttachedArena> arena, const std::byte* data,
       const BlockDescriptor& descriptor)
      : arena_(std::move(arena)), data_(data), descriptor_(descriptor) {}

  std::shared_ptr<AttachedArena> arena_;
  const std::byte* data_ = nullptr;
  BlockDescriptor descriptor_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ATTACHED_ARENA_H_
