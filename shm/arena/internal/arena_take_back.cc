// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Of ArenaState (arena_state.h): taking back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "tenon/shm/arena/internal/arena_state.h"
#include "tenon/shm/base/crash_point.h"

namespace tenon {
namespace {

constexpr size_t kBatch = 64;

}  // namespace

size_t ArenaState::TakeBack(Shelf& shelf, size_t most, Until enough) {
  std::vector<OwnedBlock*> batch;
  size_t left;  // What is put back is not looked at twice.
  {
    std::lock_guard lock(shelf.mutex);
    left = std::min(most, shelf.let_go.size());
  }
  size_t freed = 0;
  bool buried = false;
  while (left > 0 && (freed == 0 || enough == Until::kAll)) {
    {
      std::lock_guard lock(shelf.mutex);
      const auto end =
          shelf.let_go.begin() +
          static_cast<ptrdiff_t>(std::min({kBatch, left, shelf.let_go.size()}));
      batch.assign(shelf.let_go.begin(), end);
      shelf.let_go.erase(shelf.let_go.begin(), end);
    }
    left -= batch.size();
    size_t now = TakeBackBatch(shelf, batch);
    if (now == 0 && !buried) {
      buried = true;
      if (attachments_.BuryEnded() > 0) now = TakeBackBatch(shelf, batch);
    }
    freed += now;
    std::lock_guard lock(shelf.mutex);
    shelf.let_go.insert(shelf.let_go.end(), batch.begin(), batch.end());
  }
  return freed;
}

// Leaves in `batch` what could not be taken back.
size_t ArenaState::TakeBackBatch(Shelf& shelf,
                                 std::vector<OwnedBlock*>& batch) {
  candidates_.clear();
  for (const OwnedBlock* block : batch) {
    candidates_.push_back({.block = block->number,
                           .generation_bumped = block->generation_bumped});
  }
  TENON_CRASH_POINT("arena.taking_back");
  ledger_.TakeBack(attachments_, table_.generations(),
                   absl::MakeSpan(candidates_));
  TENON_CRASH_POINT("arena.taken_back");
  NoteMovers();
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i]->generation_bumped = candidates_[i].generation_bumped;
    if (candidates_[i].IsTakenBack()) MakeFree(*batch[i]);
  }
  std::lock_guard lock(shelf.mutex);
  size_t kept = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (candidates_[i].IsTakenBack()) {
      shelf.free.push_back(batch[i]);
      ++batch[i]->segment->blocks_on_shelf;
    } else {
      batch[kept++] = batch[i];
    }
  }
  batch.resize(kept);
  return candidates_.size() - kept;
}

void ArenaState::NoteMovers() {
  for (const TakeBackCandidate& candidate : candidates_) {
    if (candidate.verdict.kind == BlockVerdict::kMoved) {
      attachments_.NoteMoved(candidate.verdict.column);
    }
  }
}

size_t ArenaState::TakeBackAll() {
  // A batch of which some come back does not ask who has ended.
  attachments_.Receive();
  attachments_.BuryEnded();
  size_t freed = 0;
  for (Shelf& shelf : shelves_) {
    freed += TakeBack(shelf, SIZE_MAX, Until::kAll);
  }
  return freed;
}

}  // namespace tenon
