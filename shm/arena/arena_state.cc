// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/arena_state.h"

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
#include "tenon/shm/crash_point.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/ledger/process_info.h"
#include "tenon/shm/status_macros.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

constexpr size_t kBatch = 64;
// How much of a shelf one try looks through.
constexpr size_t kMaxBatches = 32;
constexpr size_t kLargestSegment = size_t{32} << 20;
constexpr int kPoison = 0xDF;
constexpr size_t kHoldersInMessage = 3;

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

bool Protects(const ArenaOptions& options, const OwnedBlock& block) {
  return options.debug == ArenaDebug::kProtect && block.size() >= kPageBytes;
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
  TENON_ASSIGN_OR_RETURN(ArenaTable table,
                         ArenaTable::Create(MakeHeader(options, id)));
  TENON_ASSIGN_OR_RETURN(Attachments attachments,
                         Attachments::Create(id, options.max_blocks));
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
}

ArenaState::~ArenaState() {
  if (!inherited()) table_.Close();
}

absl::Status ArenaState::CheckUsable() const {
  return CheckNotForked(fork_count_, "an arena");
}

// --- Allocating and letting go. ---

absl::StatusOr<OwnedBlock*> ArenaState::Allocate(size_t bytes,
                                                 Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const size_t block_bytes = BlockBytesFor(bytes);
  if (block_bytes == 0 || block_bytes > options_.quota_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a block of ", bytes, " bytes can never be had from arena '",
        options_.name, "', whose quota is ", options_.quota_bytes, " bytes"));
  }
  Shelf& shelf = shelves_[SizeClassOf(block_bytes)];
  if (OwnedBlock* block = TakeFree(shelf)) return MakeReady(*block);

  absl::Duration nap = kFirstNap;
  for (bool waited = false;; waited = true) {
    absl::StatusOr<OwnedBlock*> block = TryOnce(block_bytes, shelf);
    if (block.ok()) return MakeReady(**block);
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

OwnedBlock* ArenaState::MakeReady(OwnedBlock& block) {
  if (Protects(options_, block)) {
    mprotect(block.data(), block.size(), PROT_READ | PROT_WRITE);
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
  if (Protects(options_, block)) {
    mprotect(block.data(), block.size(), PROT_NONE);
  }
}

absl::StatusOr<OwnedBlock*> ArenaState::TryOnce(size_t block_bytes,
                                                Shelf& shelf) {
  std::lock_guard lock(ledger_mutex_);
  if (OwnedBlock* block = TakeFree(shelf)) return block;
  TakeBack(shelf, kMaxBatches);
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
      inbox.ok() ? "" : "; nothing can be taken back: ", inbox.message());
  return waited ? absl::DeadlineExceededError(message)
                : absl::ResourceExhaustedError(message);
}

// --- Taking back. ---

size_t ArenaState::TakeBack(Shelf& shelf, size_t batches) {
  std::vector<OwnedBlock*> batch;
  size_t left;  // What is put back is not looked at twice.
  {
    std::lock_guard lock(shelf.mutex);
    left = shelf.let_go.size();
  }
  bool buried = false;
  for (size_t i = 0; i < batches && left > 0; ++i) {
    {
      std::lock_guard lock(shelf.mutex);
      const auto end =
          shelf.let_go.begin() +
          static_cast<ptrdiff_t>(std::min({kBatch, left, shelf.let_go.size()}));
      batch.assign(shelf.let_go.begin(), end);
      shelf.let_go.erase(shelf.let_go.begin(), end);
    }
    left -= batch.size();
    size_t freed = TakeBackBatch(shelf, batch);
    if (freed == 0 && !buried) {
      buried = true;
      if (attachments_.BuryDead() > 0) freed = TakeBackBatch(shelf, batch);
    }
    {
      std::lock_guard lock(shelf.mutex);
      shelf.let_go.insert(shelf.let_go.end(), batch.begin(), batch.end());
    }
    if (freed > 0) return freed;
  }
  return 0;
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
  size_t freed = 0;
  for (Shelf& shelf : shelves_) {
    for (size_t i = 0; i < kMaxBatches; ++i) {
      const size_t now = TakeBack(shelf, kMaxBatches);
      if (now == 0) break;
      freed += now;
    }
  }
  return freed;
}

// --- Segments. ---

absl::Status ArenaState::Grow(size_t block_bytes, Shelf& shelf) {
  TENON_ASSIGN_OR_RETURN(const ArenaSegment plan,
                         PlanSegment(block_bytes, shelf));
  absl::Status made = MakeSegment(plan, shelf);
  if (!made.ok()) free_numbers_.Free(plan.first_block, plan.block_count);
  return made;
}

// Larger the more there are of this size, within quota and numbers.
absl::StatusOr<ArenaSegment> ArenaState::PlanSegment(size_t block_bytes,
                                                     Shelf& shelf) {
  const size_t left = options_.quota_bytes - bytes_;
  if (left < block_bytes) {
    return absl::ResourceExhaustedError("the quota is used up");
  }
  const auto slot = static_cast<uint32_t>(
      std::find(segments_.begin(), segments_.end(), nullptr) -
      segments_.begin());
  if (slot == Layout::kMaxSegments) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it has ", slot, " segments, as many as an arena can"));
  }
  const uint32_t doublings =
      std::min(shelf.segments.load(std::memory_order_relaxed), 7u);
  const size_t wanted =
      std::min(options_.segment_bytes << doublings, kLargestSegment);
  uint64_t count = std::max<size_t>(1, std::min(wanted, left) / block_bytes);
  for (; count > 0; count /= 2) {
    const auto first = free_numbers_.Allocate(count);
    if (!first.has_value()) continue;
    return ArenaSegment{
        .id_and_state = uint64_t{next_id_[slot]} << 32 | ArenaSegment::kLive,
        .block_bytes = block_bytes,
        .block_count = count,
        .first_block = *first};
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "it has ", options_.max_blocks, " blocks (ArenaOptions::max_blocks)"));
}

absl::Status ArenaState::MakeSegment(const ArenaSegment& plan, Shelf& shelf) {
  const size_t bytes = plan.block_bytes * plan.block_count;
  std::optional<Segment> segment;
  WritableMapping mapping;
  if (options_.kind == SegmentKind::kOwnerWritten) {
    TENON_ASSIGN_OR_RETURN(
        auto owned, Segment::CreateOwnerWritten(bytes, options_.segment));
    segment.emplace(std::move(owned.segment));
    mapping = std::move(owned.mapping);
  } else {
    TENON_ASSIGN_OR_RETURN(
        segment, Segment::CreateSharedWritable(bytes, options_.segment));
    TENON_ASSIGN_OR_RETURN(mapping, segment->MapWritable());
  }
  // Before anybody can hold a block of it, its cells can be read everywhere.
  TENON_RETURN_IF_ERROR(
      attachments_.Reserve(plan.first_block, plan.block_count));
  TENON_RETURN_IF_ERROR(table_.Add(plan));
  auto owned = std::make_unique<OwnedSegment>(plan, *std::move(segment),
                                              std::move(mapping));
  const uint32_t slot = Layout::SlotOf(plan.id());
  next_id_[slot] += Layout::kMaxSegments;
  bytes_ += owned->bytes();
  shelf.segments.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(shelf.mutex);
  // So that they are given out from the first to the last.
  for (uint64_t i = plan.block_count; i-- > 0;) {
    OwnedBlock& block = owned->blocks[i];
    block.number = static_cast<uint32_t>(plan.first_block + i);
    block.segment = owned.get();
    if (Protects(options_, block)) {
      mprotect(block.data(), block.size(), PROT_NONE);
    }
    shelf.free.push_back(&block);
  }
  owned->blocks_on_shelf = plan.block_count;
  segments_[slot] = std::move(owned);
  return absl::OkStatus();
}

size_t ArenaState::RetireIdleSegments() {
  size_t bytes = 0;
  for (const auto& segment : segments_) {
    if (segment == nullptr) continue;
    Shelf& shelf = shelves_[SizeClassOf(segment->listed.block_bytes)];
    {
      std::lock_guard lock(shelf.mutex);
      if (segment->blocks_on_shelf != segment->listed.block_count) continue;
      std::erase_if(shelf.free, [&](const OwnedBlock* block) {
        return block->segment == segment.get();
      });
    }
    bytes += segment->bytes();
    Retire(*segment, shelf);
  }
  return bytes;
}

// All of its blocks are free, and on no shelf.
void ArenaState::Retire(OwnedSegment& segment, Shelf& shelf) {
  TENON_CRASH_POINT("arena.retiring");
  table_.Retire(segment.listed.id());
  free_numbers_.Free(segment.listed.first_block, segment.listed.block_count);
  bytes_ -= segment.bytes();
  shelf.segments.fetch_sub(1, std::memory_order_relaxed);
  segments_[Layout::SlotOf(segment.listed.id())].reset();
}

absl::StatusOr<size_t> ArenaState::Trim() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  std::lock_guard lock(ledger_mutex_);
  TakeBackAll();
  return RetireIdleSegments();
}

// --- Who holds what. ---

template <typename Visit>
void ArenaState::ForEachBlock(Visit visit) const {
  for (const auto& segment : segments_) {
    if (segment == nullptr) continue;
    for (uint64_t i = 0; i < segment->listed.block_count; ++i) {
      visit(segment->blocks[i]);
    }
  }
}

absl::StatusOr<std::vector<HolderUse>> ArenaState::Holders() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  std::lock_guard lock(ledger_mutex_);
  return HoldersLocked();
}

std::vector<HolderUse> ArenaState::HoldersLocked() {
  attachments_.Receive();
  attachments_.BuryDead();
  const auto attached = attachments_.attached();
  std::vector<HolderUse> holders(attached.size() + 1);
  for (size_t i = 0; i < attached.size(); ++i) {
    holders[i].pid = attached[i].pid;
    holders[i].name = attached[i].name;
    holders[i].state = StateOf(attached[i].pid);
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
  size_t& credit = credit_.try_emplace(column, quota).first->second;
  if (credit < more_bytes) {
    attachments_.Receive();
    const auto attached = attachments_.attached();
    for (size_t i = 0; i < attached.size(); ++i) {
      if (attached[i].column != column) continue;
      const size_t held = BytesHeldBy(i);
      credit = held < quota ? quota - held : 0;
      if (credit >= more_bytes) break;
      return absl::ResourceExhaustedError(
          absl::StrCat("pid ", attached[i].pid, " '", attached[i].name, "' (",
                       StateOf(attached[i].pid), ") holds ", held,
                       " bytes of arena '", options_.name, "' and may hold ",
                       quota, ", so not ", more_bytes, " more"));
    }
  }
  credit -= std::min(credit, more_bytes);
  return absl::OkStatus();
}

ArenaUse ArenaState::Use() const {
  ArenaUse use;
  std::lock_guard lock(ledger_mutex_);
  use.segment_bytes = bytes_;
  use.attached = attachments_.attached().size();
  use.tests = ledger_.tests();
  use.failures = ledger_.failures();
  use.refused = attachments_.refused();
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
