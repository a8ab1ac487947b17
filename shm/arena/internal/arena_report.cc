// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Of ArenaState (arena_state.h): who holds what.

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/internal/arena_state.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/process_info.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/ledger/lease.h"

namespace tenon {
namespace {

constexpr size_t kHoldersInMessage = 3;

absl::Status NotSoManyBytes(const ArenaOptions& options, size_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "no holder may hold ", bytes, " bytes of arena '", options.name,
      "': at most ", options.quota_bytes_per_holder));
}

// A process that was refused may hold what its sender has let go of.
std::string DescribeRefusals(const Attachments& attachments) {
  if (attachments.refused() == 0) return "";
  return absl::StrCat("; ", attachments.refused(),
                      " attach messages were refused, the last because: ",
                      attachments.last_refusal().message());
}

}  // namespace

template <typename Visit>
void ArenaState::ForEachBlock(Visit visit) const {
  for (const auto& segment : segments_) {
    if (segment == nullptr) continue;
    for (uint64_t i = 0; i < segment->listed.block_count; ++i) {
      visit(segment->blocks[i]);
    }
  }
}

absl::Status ArenaState::NoBlock(size_t block_bytes, bool waited,
                                 const absl::Status& reason) {
  std::lock_guard lock(ledger_mutex_);
  // First: it looks into the inbox, which changes the status.
  const std::string holders =
      DescribeHolders(HoldersLocked(), kHoldersInMessage);
  const absl::Status& inbox = attachments_.status();
  const std::string message = absl::StrCat(
      "no block of ", block_bytes, " bytes in arena '", options_.name,
      "': ", reason.message(), "; it has ", bytes_,
      " bytes in segments, quota ", options_.quota_bytes,
      "; held by: ", holders,
      inbox.ok() ? "" : "; nothing can be taken back: ", inbox.message(),
      DescribeRefusals(attachments_));
  return waited ? absl::DeadlineExceededError(message)
                : absl::ResourceExhaustedError(message);
}

absl::StatusOr<std::vector<HolderUse>> ArenaState::Holders() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  std::lock_guard lock(ledger_mutex_);
  return HoldersLocked();
}

std::vector<HolderUse> ArenaState::HoldersLocked() {
  attachments_.Receive();
  attachments_.BuryEnded();
  const auto attached = attachments_.attached();
  std::vector<HolderUse> holders(attached.size() + 1);
  for (size_t i = 0; i < attached.size(); ++i) {
    holders[i].pid = attached[i].pid;
    holders[i].name = attached[i].name;
    holders[i].state = StateOf(attached[i].process);
    holders[i].column = attached[i].column;
    holders[i].moved = attached[i].moved;
  }
  HolderUse& own = holders.back();
  own.pid = getpid();
  own.name = program_invocation_short_name;
  own.state = "running";

  const uint64_t now_ms = CoarseNowMs();
  const auto add = [&](HolderUse& holder, const OwnedBlock& block) {
    ++holder.blocks;
    holder.bytes += block.size();
    const uint64_t since = table_.StateOf(block.number).since_ms;
    if (since == 0 || since > now_ms) return;
    holder.oldest =
        std::max(holder.oldest,
                 absl::Milliseconds(static_cast<int64_t>(now_ms - since)));
  };
  ForEachBlock([&](const OwnedBlock& block) {
    if (block.references.load(std::memory_order_relaxed) > 0) add(own, block);
    for (size_t i = 0; i < attached.size(); ++i) {
      const uint64_t cell = StdAtomics::Load(attached[i].cells()[block.number],
                                             std::memory_order_relaxed);
      if (LeaseCell::Held(cell) != 0) add(holders[i], block);
    }
  });
  std::erase_if(holders, [](const HolderUse& holder) {
    return holder.blocks == 0 && holder.moved == 0;
  });
  SortByBytes(holders);
  return holders;
}

size_t ArenaState::BytesHeldBy(size_t column) const {
  const SharedWord<uint64_t>* cells = attachments_.columns()[column];
  size_t bytes = 0;
  ForEachBlock([&](const OwnedBlock& block) {
    const uint64_t cell =
        StdAtomics::Load(cells[block.number], std::memory_order_relaxed);
    if (LeaseCell::Held(cell) != 0) bytes += block.size();
  });
  return bytes;
}

// Between two looks at its cells a holder can get no more than it was sent; so
// it is looked at again only when that may have filled its quota.
absl::Status ArenaState::CheckHolder(const RandomId& column,
                                     size_t more_bytes) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const size_t quota = options_.quota_bytes_per_holder;
  std::lock_guard lock(ledger_mutex_);
  auto credit = credit_.find(column);
  if (credit == credit_.end() || credit->second < more_bytes) {
    attachments_.Receive();
    const Attachment* holder = nullptr;
    size_t held = 0;
    const auto attached = attachments_.attached();
    for (size_t i = 0; i < attached.size(); ++i) {
      if (attached[i].column != column) continue;
      // The first one: who comes later in its name is counted for nothing.
      if (holder == nullptr) holder = &attached[i];
      if (attached[i].sender == holder->sender) held += BytesHeldBy(i);
    }
    // A process that is not attached holds nothing, and is not remembered.
    if (holder == nullptr) {
      return more_bytes <= quota ? absl::OkStatus()
                                 : NotSoManyBytes(options_, more_bytes);
    }
    const size_t left = held < quota ? quota - held : 0;
    if (left < more_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("pid ", holder->pid, " '", holder->name, "' (",
                       StateOf(holder->process), ") holds ", held,
                       " bytes of arena '", options_.name, "' and may hold ",
                       quota, ", so not ", more_bytes, " more"));
    }
    ForgetCreditOfTheEnded();
    credit = credit_.insert_or_assign(column, left).first;
  }
  credit->second -= more_bytes;
  return absl::OkStatus();
}

void ArenaState::ForgetCreditOfTheEnded() {
  const auto attached = attachments_.attached();
  if (credit_.size() < 2 * attached.size()) return;
  std::erase_if(credit_, [&](const auto& entry) {
    return std::none_of(attached.begin(), attached.end(),
                        [&](const Attachment& attachment) {
                          return attachment.column == entry.first;
                        });
  });
}

ArenaUse ArenaState::Use() {
  ArenaUse use;
  std::lock_guard lock(ledger_mutex_);
  attachments_.BuryEnded();
  use.segment_bytes = bytes_;
  use.attached = attachments_.attached().size();
  use.tests = ledger_.tests();
  use.failures = ledger_.failures();
  use.refused = attachments_.refused();
  use.last_refusal = std::string(attachments_.last_refusal().message());
  for (const auto& segment : segments_) use.segments += segment != nullptr;
  ForEachBlock([&](const OwnedBlock& block) {
    switch (table_.StateOf(block.number).kind) {
      case BlockState::kInUse:
        ++use.blocks_in_use;
        break;
      case BlockState::kLetGo:
        ++use.blocks_let_go;
        break;
      case BlockState::kFree:
        ++use.blocks_free;
        break;
    }
  });
  return use;
}

}  // namespace tenon
