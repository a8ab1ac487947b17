// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of arenas: replaces a channel between two processes.

#ifndef TENON_SHM_ARENA_ARENA_TESTING_H_
#define TENON_SHM_ARENA_ARENA_TESTING_H_

#include <fcntl.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Copies of the descriptors, as a receiver gets them.
inline std::vector<UniqueFd> Travel(const std::vector<int>& fds) {
  std::vector<UniqueFd> arrived;
  for (const int fd : fds) {
    arrived.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return arrived;
}

inline absl::StatusOr<std::shared_ptr<AttachedArena>> AttachTo(
    const ArenaOffer& offer) {
  return AttachedArena::Attach(offer.bytes, Travel(offer.fds));
}

// Of an arena of this process.
inline std::vector<HolderUse> HoldersOf(Arena& arena) {
  return arena.Holders().value();
}

}  // namespace tenon

#endif  // TENON_SHM_ARENA_ARENA_TESTING_H_
