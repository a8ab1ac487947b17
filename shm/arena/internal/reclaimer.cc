// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/reclaimer.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/shm/arena/internal/quarantine.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/process/process_info.h"

namespace tenon {
namespace {

constexpr size_t kBatch = 64;
constexpr size_t kMostOfOneTry = 2048;
constexpr size_t kHoldersInMessage = 3;
constexpr uint64_t kPollEveryMs = 20;
constexpr uint64_t kRemoveExitedEveryMs = 500;

bool IsHeld(const SharedWord<uint64_t>& cell) {
  return LeaseCell::Held(StdAtomics::Load(cell, std::memory_order_relaxed)) !=
         0;
}

}  // namespace

Reclaimer::Reclaimer(const ArenaOptions& options, const ArenaTable& table,
                     Attachments& attachments, const SegmentTable& segments,
                     BlockShelves& shelves, absl::Duration quarantine)
    : options_(options),
      table_(table),
      attachments_(attachments),
      segments_(segments),
      shelves_(shelves),
      quarantine_(quarantine) {
  if (quarantine_.is_off()) return;
  attachments_.OnEnd(
      [this](const Attachment* ended) { QuarantineBlocksOf(ended); });
}

// Its cells are as the process left them. A refused process has none that this
// one can read.
void Reclaimer::QuarantineBlocksOf(const Attachment* ended) {
  if (ended == nullptr) return quarantine_.AddAll();
  segments_.ForEachBlock([&](const OwnedBlock& block) {
    if (IsHeld(ended->cells()[block.number])) quarantine_.Add(block.number);
  });
}

void Reclaimer::PollInbox() {
  const uint64_t now_ms = CoarseNowMs();
  if (now_ms - polled_ms_ < kPollEveryMs) return;
  polled_ms_ = now_ms;
  attachments_.Receive();
  if (now_ms - removed_exited_ms_ < kRemoveExitedEveryMs) return;
  removed_exited_ms_ = now_ms;
  attachments_.RemoveExited();
}

void Reclaimer::ReclaimSome(size_t size_class) {
  Reclaim(size_class, kMostOfOneTry, Until::kSome);
}

void Reclaimer::ReclaimAll() {
  attachments_.Receive();
  // Reclaim() does not ask which processes have exited while blocks become
  // free.
  attachments_.RemoveExited();
  for (size_t i = 0; i < kSizeClasses; ++i) {
    Reclaim(i, SIZE_MAX, Until::kAll);
  }
}

void Reclaimer::Reclaim(size_t size_class, size_t most, Until until) {
  const std::vector<OwnedBlock*> rested = quarantine_.Return(size_class);
  if (!rested.empty()) {
    shelves_.PutFree(size_class, rested);
    if (until == Until::kSome) return;
  }
  ReturnWithheld(size_class);
  const size_t freed = ReclaimReleased(size_class, most, until);
  if (withheld_[size_class].blocks.empty()) return;
  if (freed > 0 && until == Until::kSome) return;
  attachments_.RemoveExited();
  if (ReturnWithheld(size_class)) ReclaimReleased(size_class, most, until);
}

// Puts blocks on their shelf that no refused process can hold any more. Whether
// there were any.
bool Reclaimer::ReturnWithheld(size_t size_class) {
  Withheld& withheld = withheld_[size_class];
  const uint64_t newest = attachments_.newest_refusal();
  if (withheld.newest_refusal == newest) return false;
  withheld.newest_refusal = newest;
  const auto first = std::stable_partition(
      withheld.blocks.begin(), withheld.blocks.end(),
      [newest](const OwnedBlock* block) { return block->refusals < newest; });
  const std::vector<OwnedBlock*> returned(first, withheld.blocks.end());
  withheld.blocks.erase(first, withheld.blocks.end());
  shelves_.PutReleased(size_class, returned);
  return !returned.empty();
}

// Returns how many are free.
size_t Reclaimer::ReclaimReleased(size_t size_class, size_t most, Until until) {
  std::vector<OwnedBlock*> batch;
  // Blocks that are put back are not tested twice.
  size_t left = std::min(most, shelves_.CountReleased(size_class));
  size_t freed = 0;
  bool removed_exited = false;
  while (left > 0 && (freed == 0 || until == Until::kAll)) {
    shelves_.TakeReleased(size_class, std::min(kBatch, left), batch);
    left -= batch.size();
    size_t now = ReclaimBatch(size_class, batch);
    if (now == 0 && !removed_exited) {
      removed_exited = true;
      if (attachments_.RemoveExited() > 0) {
        now = ReclaimBatch(size_class, batch);
      }
    }
    freed += now;
    shelves_.PutReleased(size_class, batch);
  }
  return freed;
}

// Leaves the blocks that are not free in `batch`, without those that are
// withheld. Returns how many are free.
size_t Reclaimer::ReclaimBatch(size_t size_class,
                               std::vector<OwnedBlock*>& batch) {
  if (batch.empty()) return 0;
  candidates_.clear();
  for (const OwnedBlock* block : batch) {
    candidates_.push_back({.block = block->number,
                           .generation_bumped = block->generation_bumped,
                           .refusals = block->refusals});
  }
  TENON_CRASH_POINT("arena.taking_back");
  free_test_.Reclaim(attachments_, table_.generations(),
                     absl::MakeSpan(candidates_));
  TENON_CRASH_POINT("arena.taken_back");
  CountRacingHolders();
  reclaimed_.clear();
  size_t kept = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i]->generation_bumped = candidates_[i].generation_bumped;
    if (candidates_[i].IsReclaimed()) {
      reclaimed_.push_back(batch[i]);
    } else if (candidates_[i].verdict.kind == BlockVerdict::kWithheld) {
      withheld_[size_class].blocks.push_back(batch[i]);
    } else {
      batch[kept++] = batch[i];
    }
  }
  batch.resize(kept);
  quarantine_.HoldBack(size_class, reclaimed_);
  shelves_.PutFree(size_class, reclaimed_);
  return reclaimed_.size();
}

void Reclaimer::CountRacingHolders() {
  for (const ReclaimCandidate& candidate : candidates_) {
    if (candidate.verdict.kind == BlockVerdict::kMoved) {
      attachments_.CountMoved(candidate.verdict.column);
    }
  }
}

std::vector<HolderUse> Reclaimer::Holders() {
  attachments_.Receive();
  attachments_.RemoveExited();
  const auto attached = attachments_.attached();
  std::vector<HolderUse> holders;
  for (const Attachment& attachment : attached) {
    holders.push_back({.pid = attachment.pid,
                       .name = attachment.name,
                       .state = StateOf(attachment.process),
                       .column = attachment.column,
                       .moved = attachment.moved});
  }
  HolderUse own{.pid = getpid(),
                .name = program_invocation_short_name,
                .state = "running"};
  const uint64_t now_ms = CoarseNowMs();
  segments_.ForEachBlock([&](const OwnedBlock& block) {
    if (block.references.load(std::memory_order_relaxed) > 0) {
      Count(block, now_ms, own);
    }
    for (size_t i = 0; i < attached.size(); ++i) {
      if (Holds(i, block)) Count(block, now_ms, holders[i]);
    }
  });
  holders.push_back(own);
  std::erase_if(holders, [](const HolderUse& holder) {
    return holder.blocks == 0 && holder.moved == 0;
  });
  SortByBytes(holders);
  return holders;
}

void Reclaimer::Count(const OwnedBlock& block, uint64_t now_ms,
                      HolderUse& holder) const {
  ++holder.blocks;
  holder.bytes += block.size();
  const uint64_t since = table_.StateOf(block.number).since_ms;
  if (since == 0 || since > now_ms) return;
  holder.oldest = std::max(
      holder.oldest, absl::Milliseconds(static_cast<int64_t>(now_ms - since)));
}

bool Reclaimer::Holds(size_t column, const OwnedBlock& block) const {
  return IsHeld(attachments_.columns()[column][block.number]);
}

// Between two reads of its cells a holder gets no more than it was sent. So
// they are read again only when that may have filled its quota.
absl::Status Reclaimer::CheckHolder(const RandomId& column, size_t more_bytes) {
  auto credit = credit_.find(column);
  if (credit == credit_.end() || credit->second < more_bytes) {
    const size_t quota = options_.quota_bytes_per_holder;
    attachments_.Receive();
    const Held held = HeldBy(column);
    const size_t left = held.bytes < quota ? quota - held.bytes : 0;
    if (left < more_bytes) return BeyondQuota(held, more_bytes);
    // A process that is not attached holds nothing, and has no credit.
    if (held.holder == nullptr) return absl::OkStatus();
    DropCreditOfExited();
    credit = credit_.insert_or_assign(column, left).first;
  }
  credit->second -= more_bytes;
  return absl::OkStatus();
}

absl::Status Reclaimer::BeyondQuota(const Held& held, size_t more_bytes) const {
  const size_t quota = options_.quota_bytes_per_holder;
  if (held.holder == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("CheckHolder(): ", SizeText(more_bytes),
                     " exceed the quota of a holder of arena '", options_.name,
                     "' (", SizeText(quota), ")"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "CheckHolder(): pid ", held.holder->pid, " '", held.holder->name, "' (",
      StateOf(held.holder->process), ") holds ", SizeText(held.bytes),
      " of arena '", options_.name, "' and may hold ", SizeText(quota),
      "; refused ", SizeText(more_bytes), " more"));
}

// The id of a column is its sender's word: the first process that attached with
// it is the holder, and columns of other processes are not counted.
Reclaimer::Held Reclaimer::HeldBy(const RandomId& column) const {
  Held held;
  const auto attached = attachments_.attached();
  for (size_t i = 0; i < attached.size(); ++i) {
    if (attached[i].column != column) continue;
    if (held.holder == nullptr) held.holder = &attached[i];
    if (attached[i].sender != held.holder->sender) continue;
    segments_.ForEachBlock([&](const OwnedBlock& block) {
      if (Holds(i, block)) held.bytes += block.size();
    });
  }
  return held;
}

void Reclaimer::DropCreditOfExited() {
  const auto attached = attachments_.attached();
  if (credit_.size() < 2 * attached.size()) return;
  std::erase_if(credit_, [&](const auto& entry) {
    return std::none_of(attached.begin(), attached.end(),
                        [&](const Attachment& attachment) {
                          return attachment.column == entry.first;
                        });
  });
}

void Reclaimer::Report(ArenaUse& use) {
  attachments_.RemoveExited();
  use.attached = attachments_.attached().size();
  use.tests = free_test_.tests();
  use.failures = free_test_.failures();
  use.refused = attachments_.refused();
  use.last_refusal = std::string(attachments_.last_refusal().message());
  for (const Withheld& withheld : withheld_) {
    use.blocks_withheld += withheld.blocks.size();
  }
  use.blocks_quarantined = quarantine_.CountHeldBack();
}

std::string Reclaimer::DescribeShortage() {
  // First: Holders() receives attachments, which changes the status.
  const std::string holders = DescribeHolders(Holders(), kHoldersInMessage);
  const absl::Status& inbox = attachments_.status();
  std::string text = absl::StrCat("held by: ", holders);
  if (!inbox.ok()) {
    absl::StrAppend(&text, "; no block can be reclaimed: ", inbox.message());
  }
  const std::string rest = quarantine_.Describe();
  if (!rest.empty()) absl::StrAppend(&text, "; ", rest);
  const std::string refused = attachments_.DescribeRefused();
  if (!refused.empty()) {
    size_t blocks = 0, bytes = 0;
    for (const Withheld& withheld : withheld_) {
      for (const OwnedBlock* block : withheld.blocks) {
        ++blocks;
        bytes += block->size();
      }
    }
    absl::StrAppend(&text, "; ", blocks, " blocks, ", SizeText(bytes),
                    ", are withheld, which were handed out before ", refused);
  }
  // A process that was refused may hold blocks that it was sent.
  if (attachments_.refused() > 0) {
    absl::StrAppend(&text, "; ", attachments_.refused(),
                    " attach messages were refused, the last one: ",
                    attachments_.last_refusal().message());
  }
  return text;
}

}  // namespace tenon
