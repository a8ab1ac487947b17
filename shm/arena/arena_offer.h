// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArenaOffer: the message that a process needs once before it can claim blocks
// of a segment of an arena. Bytes and descriptors, for any transport that
// carries both.
//
//   TENON_ASSIGN_OR_RETURN(ArenaOffer offer, arena->Offer(block));
//   // Send offer.bytes and offer.fds: tenon/ipc/channel/channel.h.

#ifndef TENON_SHM_ARENA_ARENA_OFFER_H_
#define TENON_SHM_ARENA_ARENA_OFFER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

// Ownership: the descriptors belong to the arena that made the offer, and are
// valid as long as it and the offered block live.
struct ArenaOffer {
  std::string bytes;
  std::vector<int> fds;
};

// The parsed bytes. Internal to arenas.
struct ArenaOfferFacts {
  RandomId arena;
  uint32_t segment = 0;
  SharingStrategy strategy = SharingStrategy::kFileDescriptor;
  std::string name;  // Of the segment, with kFileSystem.

  std::string ToBytes() const;
  // Errors: kInvalidArgument if it is not an offer, or of another version.
  static absl::StatusOr<ArenaOfferFacts> FromBytes(absl::string_view bytes);

  // The order of the descriptors. The last only with kFileDescriptor.
  enum Fd { kTable = 0, kInbox = 1, kSegment = 2 };
  size_t fd_count() const {
    return strategy == SharingStrategy::kFileDescriptor ? 3 : 2;
  }
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_OFFER_H_
