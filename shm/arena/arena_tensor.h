// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors in blocks of an arena: made in place, sent as bytes without a
// descriptor, claimed at the other end.
//
//   // The owner:
//   TENON_ASSIGN_OR_RETURN(Tensor frame, CreateTensor(*arena, kDtypeOf<float>,
//                                                     {3, 480, 640},
//                                                     deadline));
//   TENON_ASSIGN_OR_RETURN(ArenaTensorHandle handle, Describe(frame));
//   TENON_ASSIGN_OR_RETURN(ArenaOffer offer, Offer(frame));  // Once a segment.
//
//   // Another process:
//   TENON_RETURN_IF_ERROR(importer.Accept(offer_bytes, std::move(fds)));
//   TENON_ASSIGN_OR_RETURN(Tensor frame, importer.Claim(handle));
//
// Every view keeps the whole block; the last of this process lets go of it, in
// whatever thread.

#ifndef TENON_SHM_ARENA_ARENA_TENSOR_H_
#define TENON_SHM_ARENA_ARENA_TENSOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/internal/arena_attachment.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

// A dense tensor that fills a new block. Its elements are undefined unless
// ArenaOptions::wipe.
// Errors: TensorSpec::Contiguous()'s and Arena::Allocate()'s.
absl::StatusOr<Tensor> CreateTensor(Arena& arena, DLDataType dtype,
                                    absl::Span<const int64_t> shape,
                                    Deadline deadline);

// Several dense tensors one after the other in one block, each aligned to 64
// bytes. The block is free again when all of them are gone.
// Errors: as CreateTensor(); kInvalidArgument if together they have more than
// 2^63-1 bytes.
struct TensorShape {
  DLDataType dtype;
  std::vector<int64_t> shape;
};
absl::StatusOr<std::vector<Tensor>> CreateTensors(
    Arena& arena, absl::Span<const TensorShape> shapes, Deadline deadline);

// A tensor of an arena, as it travels: 192 bytes without padding. Received, it
// is the sender's word.
struct ArenaTensorHandle {
  BlockDescriptor block;  // All of it.
  TensorSpec spec;
};
static_assert(std::is_trivially_copyable_v<ArenaTensorHandle>);
static_assert(std::has_unique_object_representations_v<ArenaTensorHandle>);

// How to name a tensor that lies in an arena, one's own or claimed; the tensor
// has to live until the receiver has acknowledged. And what the receiver needs
// once before it can claim; the descriptors are good as long as the tensor.
// Errors: kFailedPrecondition if it lies in no arena, or in a forked child.
absl::StatusOr<ArenaTensorHandle> Describe(const Tensor& tensor);
// Only the block.
absl::StatusOr<BlockDescriptor> DescribeBlock(const Tensor& tensor);
absl::StatusOr<ArenaOffer> Offer(const Tensor& tensor);

// What the owners of the arenas can make this process map and reserve. What
// honest senders need beyond the defaults, the receiver has to allow.
struct ArenaTensorImporterOptions {
  // At a time, those among them that were forgotten and are still held, or that
  // their owner still looks at. This process can be attached to 512.
  size_t max_arenas = 16;
  // Of each arena, as its owner's ArenaOptions::max_blocks. A block takes up to
  // 24 bytes of memory, and one of 2^27 cells that this process has.
  uint64_t max_blocks = uint64_t{1} << 20;
  // Of all arenas together. Each has a descriptor.
  size_t max_segments = size_t{1} << 12;
  // Of all segments that are mapped, together: where nobody has written to them
  // reading allocates.
  uint64_t max_bytes = PhysicalMemory();
  // For receivers that are offered an arena again when they need it, such as
  // those of a TensorQueue: an arena of which there is no tensor is forgotten
  // when its owner has closed it or ended, and, the oldest first, where that
  // makes room within these limits.
  bool forget_idle = false;

  static uint64_t PhysicalMemory();  // Of this machine, in bytes.
};

// Ownership: refers to the arenas it was offered until it forgets them or is
//   destroyed, and no tensor claimed through it lives. The process is attached
//   to each arena once, whatever the number of its importers.
// Threads: thread-safe.
// Processes: in a forked child calls fail with kFailedPrecondition.
// Trust: as AttachedArena; the spec is checked against the block. An arena's id
//   is only its sender's word, and limits are counted by importer: each peer
//   that is not trusted gets one of its own. An offer that is refused may leave
//   memory taken in the sender's table (up to 16 bytes a block), which goes
//   with it: who sends such offers, and kResourceExhausted is no excuse, should
//   not be listened to for long.
// Failure: a failed call has changed nothing.
class ArenaTensorImporter {
 public:
  explicit ArenaTensorImporter(const ArenaTensorImporterOptions& options = {})
      : options_(options) {}
  ArenaTensorImporter(const ArenaTensorImporter&) = delete;
  ArenaTensorImporter& operator=(const ArenaTensorImporter&) = delete;

  // Takes an offer of any arena. If it was taken before, nothing happens.
  // Errors: AttachedArena::Attach()'s; kResourceExhausted naming the limit of
  // this importer, with nothing mapped. Other arenas are not affected, but with
  // `forget_idle` one is forgotten each time if there are too many.
  absl::Status Accept(absl::string_view offer, std::vector<UniqueFd> fds);

  // Accept() and ClaimBlock() in one step: no other thread's Sweep() forgets
  // the arena in between. Errors: theirs, but kResourceExhausted if the owner
  // has refused this process once more: another try may succeed.
  absl::StatusOr<std::shared_ptr<Storage>> AcceptAndClaim(
      absl::string_view offer, std::vector<UniqueFd> fds,
      const BlockDescriptor& block);

  // The tensor that a handle names, claimed. Only then may the message be
  // acknowledged. Tensors of one block that arrive separately are of one
  // storage, as long as one of them lives.
  // Errors: AttachedArena::Claim()'s, of which kUnavailable forgets the arena,
  // so that an offer attaches anew; kNotFound if no offer of the arena was
  // accepted; kInvalidArgument if the spec does not fit the block.
  absl::StatusOr<Tensor> Claim(const ArenaTensorHandle& handle);
  // The same for whoever has the spec from elsewhere: the bytes that the
  // descriptor names, claimed. Errors: as Claim(), but for the spec.
  absl::StatusOr<std::shared_ptr<Storage>> ClaimBlock(
      const BlockDescriptor& block);

  // Unmaps segments that their owners have retired and of which no tensor is
  // left; with `forget_idle` forgets arenas of which no tensor is left and
  // whose owner has closed them or ended. Accept() does so as well.
  void Sweep();

  // The same, at most every 100 ms; else nothing, without a system call.
  void SweepNowAndThen();

  // What is mapped for this importer, what it has forgotten and still holds
  // among it.
  struct Mapped {
    size_t arenas = 0;
    size_t segments = 0;
    uint64_t bytes = 0;
  };
  Mapped mapped();

  // Detaches from an arena, as soon as no tensor of it is left: for one of
  // which no more messages come. Those that do are not found, until it is
  // offered again; its owner offers a segment once unless it is asked.
  // Errors: kNotFound if it is not attached to.
  absl::Status Forget(const RandomId& arena);
  // The same for the oldest arena of which there is no tensor. False if there
  // is none.
  bool ForgetOldestIdle();

 private:
  struct Remembered {
    uint64_t generation = 0;
    std::weak_ptr<Storage> storage;
  };
  struct Known {
    uint64_t number = 0;  // Counts up.
    std::shared_ptr<AttachedArena> arena;
    absl::flat_hash_map<uint32_t, Remembered> storages;  // By block.
    size_t sweep_at = 64;                                // Storages.

    std::shared_ptr<Storage> StorageOf(Hold hold);
    void Sweep();
    // No tensor of it is left. With mutex_ held, so that none is made.
    bool IsIdle() const { return arena.use_count() == 1; }
  };
  using Arenas = absl::flat_hash_map<RandomId, std::unique_ptr<Known>>;

  // Counts until no tensor of it is left here, and its owner no longer reads
  // the cells that it has in this process's column.
  struct Forgotten {
    std::weak_ptr<AttachedArena> arena;
    ArenaRemains remains;
  };

  // With mutex_ held.
  Known* Find(const RandomId& arena);
  absl::StatusOr<RandomId> Admit(absl::string_view offer);
  absl::Status AcceptLocked(absl::string_view offer, std::vector<UniqueFd> fds);
  absl::Status AttachLocked(const RandomId& arena, absl::string_view offer,
                            std::vector<UniqueFd> fds);
  absl::StatusOr<std::shared_ptr<Storage>> ClaimBlockLocked(
      const BlockDescriptor& block);
  void SweepLocked();
  void ForgetLocked(Arenas::iterator known);
  // `except` is none.
  Arenas::iterator OldestIdle(const RandomId& except);
  absl::Status MakeRoomForAnArena();
  absl::Status CheckRoomForAnArena() const;
  void KeepWithinLimits(const RandomId& latest);
  enum class Count { kAll, kNotIdle };
  Mapped CountMapped(Count what, const RandomId& except) const;
  AttachLimits WhatIsLeft(const RandomId& arena) const;

  const ArenaTensorImporterOptions options_;
  const uint64_t fork_count_ = ForkCount();
  std::atomic<uint64_t> swept_ms_{0};

  std::mutex mutex_;  // For all below.
  Arenas arenas_;
  uint64_t next_number_ = 0;
  Known* last_ = nullptr;  // Found last.
  std::vector<Forgotten> forgotten_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_TENSOR_H_
