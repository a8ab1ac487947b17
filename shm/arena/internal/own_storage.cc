// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/own_storage.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/internal/kept_object.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {
namespace {

// Of an arena. Kept storages take memory of this process.
constexpr uint32_t kMostKept = 4096;

}  // namespace

class OwnStorages::Kept final : public KeptObject {
 public:
  Kept(Arena& arena, OwnedBlock& block)
      : arena_(arena),
        block_(block),
        storage_(PooledAt(arena, block),
                 // Not counted.
                 Block(std::shared_ptr<Arena>(std::shared_ptr<void>(), &arena),
                       &block, arena.BytesOf(block))) {}
  // Arena and segment may be gone.
  ~Kept() override { storage_.lease().block.block_ = nullptr; }

  bool IsInUse() override { return control_.IsInUse(); }

  // By a thread that has taken the block.
  [[gnu::always_inline]] std::shared_ptr<Storage> HandOut() {
    return control_.Make<Storage>(&storage_,
                                  [this](Storage*) { arena_.Release(block_); });
  }

 private:
  Arena& arena_;
  OwnedBlock& block_;
  ControlBlock control_;
  PooledStorage<OwnLease> storage_;
};

Storage::Pooled OwnStorages::PooledAt(const Arena& arena,
                                      const OwnedBlock& block) {
  return {.data = block.data(),
          .size_bytes = block.size(),
          .writable = true,
          .kind = arena.options().kind,
          .device = arena.store().facts().device};
}

// Null if there are too many, or the control block is in use: by a weak
// reference, or for some instructions by a thread that has just released the
// block.
[[gnu::always_inline]] inline OwnStorages::Kept* OwnStorages::KeptOf(
    Arena& arena, OwnedBlock& block) {
  if (block.kept == nullptr) [[unlikely]] {
    std::atomic<uint32_t>& kept = arena.kept();
    if (kept.load(std::memory_order_relaxed) >= kMostKept) return nullptr;
    block.kept = std::make_unique<Kept>(arena, block);
    kept.fetch_add(1, std::memory_order_relaxed);
  }
  auto* kept = static_cast<Kept*>(block.kept.get());
  return kept->IsInUse() ? nullptr : kept;
}

absl::StatusOr<std::shared_ptr<Storage>> OwnStorages::Create(
    Arena& arena, size_t bytes, Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(OwnedBlock* const block, arena.Take(bytes, deadline));
  if (Kept* const kept = KeptOf(arena, *block)) [[likely]]
    return kept->HandOut();
  return Storage::FromPool(PooledAt(arena, *block),
                           OwnLease(arena.ReferTo(*block)));
}

}  // namespace tenon
