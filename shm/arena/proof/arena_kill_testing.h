// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Support for tests that kill processes of an arena: bytes that identify their
// block, and ways to pass an offer to another process.

#ifndef TENON_SHM_ARENA_PROOF_ARENA_KILL_TESTING_H_
#define TENON_SHM_ARENA_PROOF_ARENA_KILL_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/peer.h"

namespace tenon {

// Fills a block with bytes unique to this block, generation and arena.
void FillPattern(std::span<std::byte> bytes, const BlockDescriptor& block);
bool HasPattern(std::span<const std::byte> bytes, const BlockDescriptor& block);

// A block allocated, filled and described.
struct SentBlock {
  Block block;
  BlockDescriptor message;
};
absl::StatusOr<SentBlock> MakeSentBlock(Arena& arena, size_t bytes);

// Attaches by an offer whose descriptors are open in this process, as in a
// forked child of the process that made it.
std::vector<UniqueFd> CopyFds(const std::vector<int>& fds);
absl::StatusOr<std::shared_ptr<AttachedArena>> AttachTo(
    const ArenaOffer& offer);

// In memory that the processes of a test share: an offer's bytes, and messages.
// Its descriptors are sent through Peer::GiveFd().
struct OfferBoard {
  static constexpr size_t kBlocks = 4;

  uint64_t size = 0;
  uint64_t fds = 0;
  char bytes[1024] = {};
  BlockDescriptor blocks[kBlocks] = {};
};
absl::Status GiveOffer(Peer& self, absl::string_view other, OfferBoard& board,
                       const ArenaOffer& offer);
absl::StatusOr<std::shared_ptr<AttachedArena>> TakeOfferAndAttach(
    Peer& self, absl::string_view other, const OfferBoard& board);

// A small arena whose quota is `blocks` blocks of `block_bytes`, in one
// segment.
ArenaOptions SmallArena(SharingStrategy strategy, const std::string& prefix,
                        size_t blocks, size_t block_bytes);

// kInternal with `what` unless `holds`, for checks that return a status.
absl::Status Expect(bool holds, absl::string_view what);

// The environment's `name` as a number, or `otherwise`.
uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_PROOF_ARENA_KILL_TESTING_H_
