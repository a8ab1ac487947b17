// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OfferOf(): the offer of a segment, from the arena's owner or another process
// that has it mapped. Internal to arenas.

#ifndef TENON_SHM_ARENA_INTERNAL_SEGMENT_OFFER_H_
#define TENON_SHM_ARENA_INTERNAL_SEGMENT_OFFER_H_

#include <cstdint>
#include <string>

#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

// The descriptors stay their owners'.
inline ArenaOffer OfferOf(const RandomId& arena, uint32_t segment,
                          const StoredSegment& memory, int table, int inbox) {
  ArenaOfferFacts facts = {.arena = arena, .segment = segment};
  facts.name = memory.name();
  if (!facts.name.empty()) facts.strategy = SharingStrategy::kFileSystem;
  ArenaOffer offer = {.bytes = facts.ToBytes(), .fds = {table, inbox}};
  if (facts.name.empty()) offer.fds.push_back(memory.fd());
  return offer;
}

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_SEGMENT_OFFER_H_
