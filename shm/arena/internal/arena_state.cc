// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/arena_state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/shortage_hook.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/process_info.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/lease.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

constexpr int kPoison = 0xDF;

constexpr absl::Duration kFirstNap = absl::Microseconds(50);
constexpr absl::Duration kLongestNap = absl::Milliseconds(2);

absl::Status CheckName(const std::string& name) {
  const bool good = name.size() < sizeof(ArenaHeader::name) &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return absl::ascii_isprint(c);
                    });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the name of an arena has at most ",
                   sizeof(ArenaHeader::name) - 1, " printable characters"));
}

ArenaHeader MakeHeader(const ArenaOptions& options, const RandomId& id) {
  ArenaHeader header;
  header.arena = id;
  header.owner_pid = static_cast<uint64_t>(getpid());
  header.max_blocks = options.max_blocks;
  header.quota_bytes = options.quota_bytes;
  header.shared_writable = options.kind == SegmentKind::kSharedWritable;
  header.protect = options.debug == ArenaDebug::kProtect;
  header.file_system = options.segment.strategy == SharingStrategy::kFileSystem;
  memcpy(header.name, options.name.data(), options.name.size());
  return header;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArenaState>> ArenaState::Create(
    const ArenaOptions& wanted) {
  TENON_RETURN_IF_ERROR(CheckName(wanted.name));
  ArenaOptions options = wanted;
  constexpr uint64_t kUnit = ColumnLayout::kCellsAlignment;
  if (options.max_blocks <= Layout::kMaxBlocks) {
    options.max_blocks = (options.max_blocks + kUnit - 1) / kUnit * kUnit;
  }
  if (!options.segment.strategy) {
    options.segment.strategy = GetSharingStrategy();
  }
  TENON_ASSIGN_OR_RETURN(const RandomId id, RandomId::New());
  ArenaHeader header = MakeHeader(options, id);
  TENON_ASSIGN_OR_RETURN(Attachments attachments,
                         Attachments::Create(id, options.max_blocks));
  TENON_ASSIGN_OR_RETURN(header.inbox_cookie, attachments.socket_cookie());
  TENON_ASSIGN_OR_RETURN(ArenaTable table, ArenaTable::Create(header));
  return std::unique_ptr<ArenaState>(
      new ArenaState(options, std::move(table), std::move(attachments)));
}

ArenaState::ArenaState(const ArenaOptions& options, ArenaTable table,
                       Attachments attachments)
    : options_(options),
      table_(std::move(table)),
      attachments_(std::move(attachments)),
      free_numbers_(options.max_blocks) {
  for (uint32_t slot = 0; slot < Layout::kMaxSegments; ++slot) {
    next_id_[slot] = slot;
  }
  attachments_.PublishRefused(table_.refused());
}

ArenaState::~ArenaState() {
  if (!inherited()) table_.Close();
}

absl::Status ArenaState::CheckUsable() const {
  return CheckNotForked(fork_count_, "an arena");
}

void ArenaState::LookIntoInbox() {
  std::lock_guard lock(ledger_mutex_);
  attachments_.Receive();
}

void ArenaState::LookIfItIsTime() {
  constexpr uint64_t kLookEveryMs = 20;
  constexpr uint64_t kBuryEveryMs = 500;
  const uint64_t now = CoarseNowMs();
  std::unique_lock lock(ledger_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || now - looked_ms_ < kLookEveryMs) return;
  looked_ms_ = now;
  attachments_.Receive();
  if (now - buried_ms_ < kBuryEveryMs) return;
  buried_ms_ = now;
  attachments_.BuryEnded();
}

absl::StatusOr<OwnedBlock*> ArenaState::Allocate(size_t bytes,
                                                 Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const size_t block_bytes = BlockBytesFor(bytes);
  if (block_bytes == 0 || block_bytes > options_.quota_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a block of ", bytes, " bytes can never be had from arena '",
        options_.name, "', whose quota is ", options_.quota_bytes, " bytes"));
  }
  LookNowAndThen();
  Shelf& shelf = shelves_[SizeClassOf(block_bytes)];
  if (OwnedBlock* block = TakeFree(shelf)) return MakeReady(*block, shelf);

  absl::Duration nap = kFirstNap;
  for (bool waited = false;; waited = true) {
    absl::StatusOr<OwnedBlock*> block = TryOnce(block_bytes, shelf);
    if (block.ok()) return MakeReady(**block, shelf);
    if (deadline.has_passed()) {
      return NoBlock(block_bytes, waited, block.status());
    }
    WaitForRelease(std::min(nap, deadline.Remaining()));
    nap = std::min(nap * 2, kLongestNap);
  }
}

OwnedBlock* ArenaState::TakeFree(Shelf& shelf) {
  std::lock_guard lock(shelf.mutex);
  if (shelf.free.empty()) return nullptr;
  OwnedBlock* block = shelf.free.back();
  shelf.free.pop_back();
  --block->segment->blocks_on_shelf;
  // Before the lock is left: until then a report may take it for free.
  block->references.store(1, std::memory_order_relaxed);
  return block;
}

absl::StatusOr<OwnedBlock*> ArenaState::MakeReady(OwnedBlock& block,
                                                  Shelf& shelf) {
  if (Protects(block) &&
      mprotect(block.data(), block.size(), PROT_READ | PROT_WRITE) != 0) {
    // Each block protected by itself is a mapping of its own, of which a
    // process can have so many.
    absl::Status status = PosixError(errno, "mprotect", "a block of an arena");
    std::lock_guard lock(shelf.mutex);
    block.references.store(0, std::memory_order_relaxed);
    shelf.free.push_back(&block);
    ++block.segment->blocks_on_shelf;
    return status;
  }
  if (options_.wipe && block.used) memset(block.data(), 0, block.size());
  block.used = true;
  table_.SetState(block.number, BlockState::kInUse, CoarseNowMs());
  return &block;
}

void ArenaState::LetGo(OwnedBlock& block) {
  if (inherited()) return;
  const bool exposed = block.exposed.load(std::memory_order_relaxed);
  if (!exposed) MakeFree(block);
  Shelf& shelf = shelves_[SizeClassOf(block.size())];
  {
    std::lock_guard lock(shelf.mutex);
    if (exposed) {
      table_.SetState(block.number, BlockState::kLetGo,
                      table_.StateOf(block.number).since_ms);
      shelf.let_go.push_back(&block);
    } else {
      shelf.free.push_back(&block);
      ++block.segment->blocks_on_shelf;
    }
  }
  if (waiting_.load(std::memory_order_relaxed) > 0) released_.notify_one();
}

// Nobody knows of it any more.
void ArenaState::MakeFree(OwnedBlock& block) {
  block.exposed.store(false, std::memory_order_relaxed);
  block.generation_bumped = false;
  table_.SetState(block.number, BlockState::kFree, 0);
  if (options_.debug == ArenaDebug::kNone) return;
  memset(block.data(), kPoison, block.size());
  // If it cannot be, it is poisoned all the same.
  if (Protects(block)) mprotect(block.data(), block.size(), PROT_NONE);
}

absl::StatusOr<OwnedBlock*> ArenaState::TryOnce(size_t block_bytes,
                                                Shelf& shelf) {
  CallShortageHook();
  std::lock_guard lock(ledger_mutex_);
  if (OwnedBlock* block = TakeFree(shelf)) return block;
  TakeBack(shelf, kLookedAt, Until::kSome);
  if (OwnedBlock* block = TakeFree(shelf)) return block;
  absl::Status grown = Grow(block_bytes, shelf);
  if (!grown.ok()) {
    // Memory may lie idle, in blocks of other sizes.
    TakeBackAll();
    // Rather than to retire the segment that has one of this size.
    if (OwnedBlock* block = TakeFree(shelf)) return block;
    if (RetireIdleSegments() > 0) grown = Grow(block_bytes, shelf);
  }
  if (OwnedBlock* block = TakeFree(shelf)) return block;
  return grown.ok() ? absl::AbortedError("others took all there was") : grown;
}

void ArenaState::WaitForRelease(absl::Duration at_most) {
  std::unique_lock lock(wait_mutex_);
  waiting_.fetch_add(1, std::memory_order_relaxed);
  // Releases in other processes wake nobody: hence the short naps.
  released_.wait_for(lock, absl::ToChronoMicroseconds(at_most));
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tenon
