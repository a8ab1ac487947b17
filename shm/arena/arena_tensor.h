// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors in blocks of an arena: created in place, sent as bytes without a
// descriptor, claimed by the receiver.
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
// Every view keeps the whole block; the last view of this process releases it,
// in any thread.

#ifndef TENON_SHM_ARENA_ARENA_TENSOR_H_
#define TENON_SHM_ARENA_ARENA_TENSOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena_limits.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/kept_block.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

class Arena;

// A dense tensor that fills a new block. Its elements are undefined unless
// ArenaOptions::wipe.
// Errors: TensorSpec::Contiguous()'s and Arena::Allocate()'s.
absl::StatusOr<Tensor> CreateTensor(Arena& arena, DLDataType dtype,
                                    absl::Span<const int64_t> shape,
                                    Deadline deadline);

// Several consecutive dense tensors in one block, each aligned as a block: to
// 64 bytes, in a pool of device memory to 256. The block is free again when all
// of them are gone. Errors: as CreateTensor(); kInvalidArgument if together
// they have more than 2^63-1 bytes.
struct TensorShape {
  DLDataType dtype;
  std::vector<int64_t> shape;
};
absl::StatusOr<std::vector<Tensor>> CreateTensors(
    Arena& arena, absl::Span<const TensorShape> shapes, Deadline deadline);

// A tensor of an arena as a message: 192 bytes without padding. A received one
// is untrusted.
struct ArenaTensorHandle {
  BlockDescriptor block;  // All of it.
  TensorSpec spec;
};
static_assert(std::is_trivially_copyable_v<ArenaTensorHandle>);
static_assert(std::has_unique_object_representations_v<ArenaTensorHandle>);

// Describe() names a tensor of an arena, own or claimed; the tensor has to live
// until the receiver has acknowledged. Offer() returns the message that the
// receiver needs once before it can claim; its descriptors are valid as long as
// the tensor lives.
// Errors: kFailedPrecondition if the tensor is not in an arena, or in a forked
// child.
absl::StatusOr<ArenaTensorHandle> Describe(const Tensor& tensor);
// Describes only the block.
absl::StatusOr<BlockDescriptor> DescribeBlock(const Tensor& tensor);
// The same without a status: false on any error.
bool DescribeBlockTo(const Tensor& tensor, BlockDescriptor& block);
absl::StatusOr<ArenaOffer> Offer(const Tensor& tensor);

// Ownership: refers to the offered arenas until it forgets them or is destroyed
//   and no tensor claimed through it lives. The process attaches to each arena
//   once, whatever the number of its importers.
//   Keeps the storage objects of received blocks for later messages, some
//   thousand of them for each arena.
// Threads: thread-safe.
// Processes: in a forked child calls fail with kFailedPrecondition.
// Trust: as AttachedArena; the spec is checked against the block. An arena's id
//   is untrusted, and limits are counted by importer: use a separate importer
//   for each peer that is not trusted. A rejected offer may leave memory
//   allocated in the sender's table (up to 16 bytes a block), which is freed
//   with the table: disconnect a peer that keeps sending such offers, even if
//   they fail with kResourceExhausted.
// Failure: a failed call has no effect.
class ArenaTensorImporter {
 public:
  explicit ArenaTensorImporter(const ArenaTensorImporterOptions& options = {});
  ~ArenaTensorImporter();
  ArenaTensorImporter(const ArenaTensorImporter&) = delete;
  ArenaTensorImporter& operator=(const ArenaTensorImporter&) = delete;

  // Accepts an offer of any arena. No effect if it was accepted before.
  // Errors: AttachedArena::Attach()'s; kResourceExhausted naming the limit of
  // this importer, with nothing mapped. Other arenas are not affected, but with
  // `forget_idle` each call forgets one if there are too many.
  absl::Status Accept(absl::string_view offer, std::vector<UniqueFd> fds);

  // Accept() and ClaimBlock() in one step: no other thread's Sweep() forgets
  // the arena in between. Errors: theirs, but kResourceExhausted if the owner
  // has refused this process once more: another try may succeed.
  absl::StatusOr<std::shared_ptr<Storage>> AcceptAndClaim(
      absl::string_view offer, std::vector<UniqueFd> fds,
      const BlockDescriptor& block);

  // The tensor that a handle names, claimed. Acknowledge the message only after
  // this. Tensors of one block that arrive separately share one storage, as
  // long as one of them lives.
  // Errors: AttachedArena::Claim()'s, of which kUnavailable forgets the arena,
  // so that an offer attaches anew; kNotFound if no offer of the arena was
  // accepted; kInvalidArgument if the spec does not fit the block.
  absl::StatusOr<Tensor> Claim(const ArenaTensorHandle& handle);
  // The same for callers that know the spec: the bytes that the descriptor
  // names, claimed. Errors: as Claim(), except those of the spec.
  // Sets `kept`, if given, for ClaimAgain().
  absl::StatusOr<std::shared_ptr<Storage>> ClaimBlock(
      const BlockDescriptor& block, KeptBlock* kept = nullptr);
  // Claims the same bytes of the same block as that call of this importer, with
  // another generation: without a look-up, and without a status. Null on any
  // error, or if the block is not kept any more: call ClaimBlock(), which
  // returns the error. Undefined for a KeptBlock of another importer.
  std::shared_ptr<Storage> ClaimAgain(const KeptBlock& kept,
                                      uint64_t generation);

  // Unmaps segments that their owners have retired and that have no tensors
  // left; with `forget_idle` forgets arenas that have no tensors left and whose
  // owner has closed them or ended. Accept() does so as well.
  void Sweep();

  // The same, at most every 100 ms; otherwise returns without a system call.
  void SweepNowAndThen();

  MappedArenas mapped();

  // Detaches from an arena as soon as no tensor of it is left: call it when no
  // more messages of the arena are expected. A later Claim() is kNotFound until
  // the arena is offered again; its owner offers a segment once unless it is
  // asked.
  // Errors: kNotFound if not attached to the arena.
  absl::Status Forget(const RandomId& arena);
  // The same for the oldest arena without tensors. False if there is none.
  bool ForgetOldestIdle();

 private:
  class Imports;

  absl::Status CheckUsable(std::vector<UniqueFd>& fds) const;

  const uint64_t fork_count_;
  const std::unique_ptr<Imports> imports_;
  std::atomic<uint64_t> swept_ms_{0};
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_TENSOR_H_
