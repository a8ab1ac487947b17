// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/arena.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/block_shelves.h"
#include "tenon/shm/arena/internal/kept_object.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/arena/internal/reclaimer.h"
#include "tenon/shm/arena/internal/segment_offer.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/arena/reclaim_hook.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/memory_limit.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/pages/reserve_pages.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

// The mutex is held while blocks are reclaimed and while a segment is made; the
// locks of lanes and shelves may be acquired while it is held, never the other
// way round. Taking a free block and releasing one need these alone.
struct ArenaParts {
  ArenaParts(const ArenaOptions& wanted, std::unique_ptr<BlockStore> storing,
             ArenaTable listing, Attachments inbox)
      : options(wanted),
        store(std::move(storing)),
        table(std::move(listing)),
        attachments(std::move(inbox)) {
    attachments.PublishRefused(table.refused());
  }
  ~ArenaParts() {
    if (!is_inherited()) table.Close();
  }

  std::span<std::byte> BytesOf(const OwnedBlock& block) const {
    return {is_of_cpu ? block.data() : nullptr, block.size()};
  }

  bool is_inherited() const { return fork_count != ForkCount(); }
  absl::Status CheckUsable() const {
    return CheckNotForked(fork_count, "an arena");
  }

  // Called for each block that is allocated or described: every 64th call polls
  // the inbox, without waiting for the mutex. So processes can attach to an
  // owner that is never short of memory, and find their cells free (model:
  // limit). The inbox holds some 278 messages, and a process attaches because
  // it was sent a block. Not exact if threads race.
  void PollInboxNowAndThen(std::atomic<uint32_t>& calls) {
    constexpr uint32_t kCallsPerPoll = 64;
    const uint32_t n = calls.load(std::memory_order_relaxed) + 1;
    calls.store(n, std::memory_order_relaxed);
    if (n % kCallsPerPoll == 0) [[unlikely]]
      TryPollInbox();
  }
  void TryPollInbox() {
    if (!mutex.TryLock()) return;
    reclaimer.PollInbox();
    mutex.Unlock();
  }

  // Of a segment that is retired. Moves those that are in use to `used`: no
  // tensor uses them, but perhaps a weak reference does, or a thread that has
  // just released a block.
  void DropKept(OwnedSegment& segment,
                std::vector<std::unique_ptr<KeptObject>>& used) {
    for (uint64_t i = 0; i < segment.listed.block_count; ++i) {
      std::unique_ptr<KeptObject> object = std::move(segment.blocks[i].kept);
      if (object == nullptr) continue;
      kept.fetch_sub(1, std::memory_order_relaxed);
      if (object->IsInUse()) used.push_back(std::move(object));
    }
  }
  // Those in use, for the only thread that refers to the arena.
  std::vector<KeptObject*> KeptInUse() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::vector<KeptObject*> in_use;
    const auto add = [&](const std::unique_ptr<KeptObject>& object) {
      if (object != nullptr && object->IsInUse()) {
        in_use.push_back(object.get());
      }
    };
    for (const auto& object : formerly_kept) add(object);
    if (kept.load(std::memory_order_relaxed) == 0) return in_use;
    segments.ForEachBlock([&](const OwnedBlock& block) { add(block.kept); });
    return in_use;
  }

  const ArenaOptions options;
  const std::unique_ptr<BlockStore> store;
  const bool is_of_cpu = store->is_of_cpu();
  const size_t misaligned = store->facts().block_alignment - 1;
  // In whole units of the store: those of all segments together.
  const size_t usable_quota =
      options.quota_bytes - options.quota_bytes % store->facts().segment_unit;
  const uint64_t fork_count = ForkCount();
  ArenaTable table;
  ThreadMutex mutex;
  Attachments attachments ABSL_GUARDED_BY(mutex);
  SegmentTable segments ABSL_GUARDED_BY(mutex){options, *store, table,
                                               attachments};
  BlockShelves shelves{options, *store, table};
  Reclaimer reclaimer ABSL_GUARDED_BY(mutex){
      options,  table,   attachments,
      segments, shelves, store->facts().quarantine};
  // Calls of PollInboxNowAndThen(): descriptions, and allocations by lane.
  std::atomic<uint32_t> described{0};
  struct alignas(64) Calls {
    std::atomic<uint32_t> count{0};
  };
  std::array<Calls, BlockShelves::kLanes> allocated;
  // The number of OwnedBlock::kept; those of retired segments that were in use.
  std::atomic<uint32_t> kept{0};
  std::vector<std::unique_ptr<KeptObject>> formerly_kept ABSL_GUARDED_BY(mutex);
};

namespace {

constexpr absl::Duration kFirstNap = absl::Microseconds(50);
constexpr absl::Duration kLongestNap = absl::Milliseconds(2);

absl::Status CheckName(const std::string& name) {
  static_assert(sizeof(ArenaHeader::name) == kMaxArenaNameLength + 1);
  const bool good = name.size() <= kMaxArenaNameLength &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return absl::ascii_isprint(c);
                    });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Create(): bad arena name of ", name.size(), " bytes; want at most ",
      kMaxArenaNameLength, " printable characters"));
}

ArenaOptions Complete(ArenaOptions options, const BlockStore& store) {
  constexpr uint64_t kUnit = ColumnLayout::kCellsAlignment;
  if (options.max_blocks <= ArenaTableLayout::kMaxBlocks) {
    options.max_blocks = (options.max_blocks + kUnit - 1) / kUnit * kUnit;
  }
  options.segment.strategy = store.facts().strategy;
  return options;
}

ArenaHeader MakeHeader(const ArenaOptions& options,
                       const BlockStore::Facts& store, const RandomId& id) {
  ArenaHeader header;
  header.kind = static_cast<uint64_t>(store.kind);
  header.device = store.identity;
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

// A block of a new segment.
absl::StatusOr<OwnedBlock*> Grow(ArenaParts& parts, size_t block_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(parts.mutex) {
  TENON_ASSIGN_OR_RETURN(OwnedSegment * made, parts.segments.Add(block_bytes));
  return parts.shelves.AddAndTake(*made);
}

// Returns the bytes.
size_t RetireIdleSegments(ArenaParts& parts)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(parts.mutex) {
  std::vector<std::unique_ptr<KeptObject>> used =
      std::move(parts.formerly_kept);
  std::erase_if(used, [](const auto& object) { return !object->IsInUse(); });
  const size_t bytes = parts.segments.RetireIf([&](OwnedSegment& segment) {
    if (!parts.shelves.RemoveIfIdle(segment)) return false;
    parts.DropKept(segment, used);
    return true;
  });
  parts.formerly_kept = std::move(used);
  return bytes;
}

absl::StatusOr<OwnedBlock*> TryTake(ArenaParts& parts, size_t block_bytes) {
  CallReclaimHook();
  const size_t size_class = SizeClassOf(block_bytes);
  BlockShelves& shelves = parts.shelves;
  const ThreadLock lock(&parts.mutex);
  if (OwnedBlock* block = shelves.TakeFree(size_class)) return block;
  parts.reclaimer.ReclaimSome(size_class);
  if (OwnedBlock* block = shelves.TakeFree(size_class)) return block;
  if (shelves.EmptyLanes()) {
    if (OwnedBlock* block = shelves.TakeFree(size_class)) return block;
  }
  absl::StatusOr<OwnedBlock*> grown = Grow(parts, block_bytes);
  if (grown.ok()) return grown;
  // Memory may be idle in blocks of other sizes.
  parts.reclaimer.ReclaimAll();
  // Before the segment that has a block of this size is retired.
  if (OwnedBlock* block = shelves.TakeAnyFree(size_class)) return block;
  if (RetireIdleSegments(parts) > 0) grown = Grow(parts, block_bytes);
  return grown;
}

absl::Status TooLarge(const ArenaParts& parts, size_t bytes) {
  const size_t unit = parts.store->facts().segment_unit;
  return absl::InvalidArgumentError(absl::StrCat(
      "Allocate(): ", SizeText(bytes), " for a block of arena '",
      parts.options.name, "'; want at most ",
      parts.options.quota_bytes < kLargestBlock
          ? absl::StrCat("its quota, ", SizeText(parts.options.quota_bytes),
                         " (ArenaOptions::quota_bytes)")
          : SizeText(kLargestBlock),
      unit == 1
          ? ""
          : absl::StrCat(", in segments of multiples of ", SizeText(unit))));
}

absl::Status ShortageError(ArenaParts& parts, size_t block_bytes, bool waited,
                           const absl::Status& reason) {
  const ThreadLock lock(&parts.mutex);
  const std::string message =
      absl::StrCat("Allocate(): no free block of ", SizeText(block_bytes),
                   " in arena '", parts.options.name, "': ", reason.message(),
                   "; ", SizeText(parts.segments.bytes()),
                   " in segments, quota ", SizeText(parts.options.quota_bytes),
                   "; ", parts.reclaimer.DescribeShortage());
  return waited ? absl::DeadlineExceededError(message)
                : absl::ResourceExhaustedError(message);
}

// Whether an error of growing may be gone when other memory is released. A
// device that was lost stays so.
bool MayPass(const absl::Status& error) {
  return absl::IsResourceExhausted(error) || absl::IsUnavailable(error);
}

// Fails if no release can make room for such a block. The first check makes its
// text only if it fails; the texts of the others cost less than their checks.
absl::Status CheckCanEverBeMet(const ArenaParts& parts, size_t block_bytes) {
  // Every machine has as much.
  constexpr size_t kAlwaysThere = size_t{16} << 20;
  if (!parts.is_of_cpu) return absl::OkStatus();
  const auto what = [&] {
    return absl::StrCat("a block of arena '", parts.options.name, "'");
  };
  if (ExceedsFileSizeLimit(block_bytes)) {
    return PosixError(EFBIG, "Allocate",
                      absl::StrCat(what(), ", ", SizeText(block_bytes)));
  }
  if (parts.store->facts().strategy == SharingStrategy::kFileSystem) {
    TENON_RETURN_IF_ERROR(CheckShmLimit(block_bytes, "Allocate", what()));
  }
  if (block_bytes <= kAlwaysThere) return absl::OkStatus();
  return CheckMemoryLimit(block_bytes, "Allocate()", what());
}

// Without a free block: makes one, or waits. Releases in other processes wake
// nothing: hence the short naps.
absl::StatusOr<OwnedBlock*> WaitForBlock(ArenaParts& parts, size_t block_bytes,
                                         Deadline deadline) {
  absl::StatusOr<OwnedBlock*> block = TryTake(parts, block_bytes);
  const auto is_over = [&] { return block.ok() || !MayPass(block.status()); };
  if (is_over()) return block;
  TENON_RETURN_IF_ERROR(CheckCanEverBeMet(parts, block_bytes));
  const bool waits = !deadline.has_passed();
  if (waits) {
    const int64_t begin_ns = MonotonicNs();
    absl::Duration nap = kFirstNap;
    do {
      parts.shelves.WaitForRelease(std::min(nap, deadline.Remaining()));
      nap = std::min(nap * 2, kLongestNap);
      block = TryTake(parts, block_bytes);
    } while (!is_over() && !deadline.has_passed());
    const ThreadLock lock(&parts.mutex);
    parts.table.waits().Add(static_cast<uint64_t>(MonotonicNs() - begin_ns));
  }
  if (is_over()) return block;
  return ShortageError(parts, block_bytes, waits, block.status());
}

}  // namespace

// An arena to which only tensors refer, by storages that do not count.
class Arena::Ended final : public KeptObject {
 public:
  explicit Ended(std::unique_ptr<Arena> arena)
      : arena_(std::move(arena)), in_use_(arena_->parts_->KeptInUse()) {}

  bool IsInUse() override {
    while (!in_use_.empty() && !in_use_.back()->IsInUse()) in_use_.pop_back();
    return !in_use_.empty();
  }

 private:
  const std::unique_ptr<Arena> arena_;
  std::vector<KeptObject*> in_use_;  // Others may be among them.
};

Arena::Arena(std::unique_ptr<ArenaParts> parts) : parts_(std::move(parts)) {}
Arena::~Arena() = default;

void Arena::End(Arena* arena) {
  KeptObject::Abandon(std::make_unique<Ended>(std::unique_ptr<Arena>(arena)));
}

absl::StatusOr<std::shared_ptr<Arena>> Arena::Create(
    const ArenaOptions& options) {
  return Create(options, std::make_unique<MappedStore>(options));
}

absl::StatusOr<std::shared_ptr<Arena>> Arena::Create(
    const ArenaOptions& options, std::unique_ptr<BlockStore> store) {
  TENON_RETURN_IF_ERROR(CheckName(options.name));
  if (!options.segment.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Create(): segment.name '", options.segment.name,
        "' for an arena, which has several segments; leave it empty and send "
        "an ArenaOffer"));
  }
  TENON_RETURN_IF_ERROR(store->CheckOptions(options));
  const ArenaOptions complete = Complete(options, *store);
  TENON_ASSIGN_OR_RETURN(const RandomId id, RandomId::New());
  ArenaHeader header = MakeHeader(complete, store->facts(), id);
  TENON_ASSIGN_OR_RETURN(Attachments attachments,
                         Attachments::Create(id, complete.max_blocks));
  TENON_ASSIGN_OR_RETURN(header.inbox_cookie, attachments.socket_cookie());
  TENON_ASSIGN_OR_RETURN(ArenaTable table, ArenaTable::Create(header));
  return std::shared_ptr<Arena>(new Arena(std::make_unique<ArenaParts>(
                                    complete, std::move(store),
                                    std::move(table), std::move(attachments))),
                                End);
}

const RandomId& Arena::id() const { return parts_->table.header().arena; }
const ArenaOptions& Arena::options() const { return parts_->options; }
const BlockStore& Arena::store() const { return *parts_->store; }
const DLDevice& Arena::device() const { return store().facts().device; }

[[gnu::always_inline]] inline absl::StatusOr<OwnedBlock*> Arena::TakeInline(
    size_t bytes, Deadline deadline) {
  TENON_RETURN_IF_ERROR(parts_->CheckUsable());
  size_t block_bytes = BlockBytesFor(bytes);
  if ((block_bytes & parts_->misaligned) != 0) [[unlikely]] {
    block_bytes = BlockBytesFor(bytes, parts_->misaligned + 1);
  }
  if (block_bytes == 0 || block_bytes > parts_->usable_quota) {
    return TooLarge(*parts_, bytes);
  }
  parts_->PollInboxNowAndThen(
      parts_->allocated[BlockShelves::ThisLane()].count);
  OwnedBlock* block = parts_->shelves.TakeFree(SizeClassOf(block_bytes));
  if (block == nullptr) {
    TENON_ASSIGN_OR_RETURN(block, WaitForBlock(*parts_, block_bytes, deadline));
  }
  TENON_RETURN_IF_ERROR(parts_->shelves.MakeReady(*block));
  return block;
}

absl::StatusOr<OwnedBlock*> Arena::Take(size_t bytes, Deadline deadline) {
  return TakeInline(bytes, deadline);
}

std::atomic<uint32_t>& Arena::kept() { return parts_->kept; }

// Its last reference is gone.
void Arena::Release(OwnedBlock& block) {
  block.references.store(0, std::memory_order_relaxed);
  if (!parts_->is_inherited()) parts_->shelves.Release(block);
}

std::span<std::byte> Arena::BytesOf(const OwnedBlock& block) const {
  return parts_->BytesOf(block);
}

Block Arena::ReferTo(OwnedBlock& block) {
  return Block(shared_from_this(), &block, BytesOf(block));
}

absl::StatusOr<Block> Arena::Allocate(size_t bytes, Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(OwnedBlock* const block, TakeInline(bytes, deadline));
  return Block(shared_from_this(), block, parts_->BytesOf(*block));
}

absl::StatusOr<Block> Arena::TryAllocate(size_t bytes) {
  return Allocate(bytes, Deadline::Passed());
}

absl::StatusOr<ArenaOffer> Arena::Offer(const Block& block) {
  TENON_RETURN_IF_ERROR(parts_->CheckUsable());
  if (block.arena_.get() != this) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Offer(): the block is not of arena '", options().name, "'"));
  }
  int inbox;
  {
    // Processes attach after offers, and descriptors in the inbox that have not
    // been received count against the limit of this user.
    const ThreadLock lock(&parts_->mutex);
    parts_->attachments.Receive();
    inbox = parts_->attachments.socket();
  }
  const OwnedSegment& segment = *block.block_->segment;
  return OfferOf(id(), segment.listed.id(), *segment.memory, parts_->table.fd(),
                 inbox);
}

absl::Status Arena::CheckHolder(const RandomId& column, size_t more_bytes) {
  TENON_RETURN_IF_ERROR(parts_->CheckUsable());
  const ThreadLock lock(&parts_->mutex);
  return parts_->reclaimer.CheckHolder(column, more_bytes);
}

absl::StatusOr<size_t> Arena::Trim() {
  TENON_RETURN_IF_ERROR(parts_->CheckUsable());
  CallReclaimHook();
  const ThreadLock lock(&parts_->mutex);
  parts_->reclaimer.ReclaimAll();
  return RetireIdleSegments(*parts_);
}

absl::StatusOr<std::vector<HolderUse>> Arena::Holders() {
  TENON_RETURN_IF_ERROR(parts_->CheckUsable());
  const ThreadLock lock(&parts_->mutex);
  return parts_->reclaimer.Holders();
}

ArenaUse Arena::Use() const {
  ArenaUse use;
  if (parts_->is_inherited()) return use;
  const ThreadLock lock(&parts_->mutex);
  parts_->reclaimer.Report(use);
  parts_->segments.Report(use);
  use.waits = parts_->table.waits().Read();
  return use;
}

Block::Block(const Block& other)
    : arena_(other.arena_), block_(other.block_), bytes_(other.bytes_) {
  if (block_ != nullptr) {
    block_->references.fetch_add(1, std::memory_order_relaxed);
  }
}

uintptr_t Block::address() const {
  return block_ == nullptr ? 0 : reinterpret_cast<uintptr_t>(block_->data());
}

void Block::Reset() {
  if (block_ == nullptr) return;
  OwnedBlock* block = std::exchange(block_, nullptr);
  // Accesses by other threads happen before the block is used again. The only
  // reference cannot be copied by another thread: that spares an atomic
  // read-modify-write.
  bool last = block->references.load(std::memory_order_acquire) == 1;
  if (last) {
    block->references.store(0, std::memory_order_relaxed);
  } else {
    last = block->references.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  ArenaParts& parts = *arena_->parts_;
  if (last && !parts.is_inherited()) parts.shelves.Release(*block);
  arena_.reset();
  bytes_ = {};
}

bool Block::DescribeTo(BlockDescriptor& block) const {
  if (block_ == nullptr) [[unlikely]]
    return false;
  ArenaParts& parts = *arena_->parts_;
  if (parts.fork_count != ForkCount()) [[unlikely]]
    return false;
  parts.PollInboxNowAndThen(parts.described);
  block_->exposed.store(true, std::memory_order_relaxed);
  block.arena = parts.table.header().arena;
  block.segment = block_->segment->listed.id();
  block.block = block_->number;
  block.generation = StdAtomics::Load(parts.table.generations()[block.block],
                                      std::memory_order_relaxed);
  block.offset = 0;
  block.size = size();
  return true;
}

absl::StatusOr<BlockDescriptor> Block::Describe() const {
  return Describe(0, size());
}

absl::StatusOr<BlockDescriptor> Block::Describe(size_t offset,
                                                size_t size_bytes) const {
  if (block_ == nullptr) {
    return absl::FailedPreconditionError("Describe(): the Block is empty");
  }
  TENON_RETURN_IF_ERROR(arena_->parts_->CheckUsable());
  if (size_bytes > size() || offset > size() - size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("Describe(): ", size_bytes, " bytes at offset ", offset,
                     " exceed the block of ", size(), " bytes"));
  }
  BlockDescriptor block;
  DescribeTo(block);
  block.offset = offset;
  block.size = size_bytes;
  return block;
}

}  // namespace tenon
