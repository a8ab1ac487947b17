// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The storages of tensors in blocks of an arena of this process. Internal to
// CreateTensor().
//
// An owner uses its blocks again and again. So the storage of a block is kept
// with it, and handed out for each tensor by a std::shared_ptr whose control
// block is kept as well: no allocation, and no reference count of the arena
// (kept_object.h).

#ifndef TENON_SHM_ARENA_INTERNAL_OWN_STORAGE_H_
#define TENON_SHM_ARENA_INTERNAL_OWN_STORAGE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {

// The lease of such a storage; ReceivedLease is that of a received one. The
// block of a kept one refers to its arena without a count.
struct OwnLease final : Storage::Lease {
  explicit OwnLease(Block b) : block(std::move(b)) {}
  Block block;
};

class OwnStorages {
 public:
  // A storage of a new block of at least `bytes`, which is released with the
  // last reference. The arena is not closed before. Thread-safe.
  // Errors: Arena::Allocate()'s.
  static absl::StatusOr<std::shared_ptr<Storage>> Create(Arena& arena,
                                                         size_t bytes,
                                                         Deadline deadline);

 private:
  class Kept;

  static Kept* KeptOf(Arena& arena, OwnedBlock& block);
  static Storage::Pooled PooledAt(const Arena& arena, const OwnedBlock& block);
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_OWN_STORAGE_H_
