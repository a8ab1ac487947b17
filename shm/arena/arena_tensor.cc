// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/arena_tensor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/internal/arena_attachment.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/own_storage.h"
#include "tenon/shm/arena/internal/received_blocks.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/locks/timed_mutex.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {
namespace {

constexpr char kWhat[] = "an importer of arena tensors";

const Storage::Lease* LeaseOf(const Tensor& tensor) {
  return tensor.storage() == nullptr ? nullptr : tensor.storage()->lease();
}

// Equivalent to dynamic_cast, but faster: these classes are final and have one
// type_info each, as they are not in a public header.
template <typename T>
const T* LeaseAs(const Storage::Lease* lease) {
  if (lease == nullptr || &typeid(*lease) != &typeid(T)) return nullptr;
  return static_cast<const T*>(lease);
}

absl::Status NotInAnArena(const Tensor& tensor) {
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor ", tensor.spec().ToString(),
      " is not in a block of an arena; create it with CreateTensor()"));
}

// A dense spec, in a storage of its size. The tensors of one thread mostly have
// one shape, for which it is made once. Valid until the next call.
absl::StatusOr<const FittedSpec*> DenseSpec(DLDataType dtype,
                                            absl::Span<const int64_t> shape) {
  constinit thread_local FittedSpec last;
  const TensorSpec& spec = last.spec();
  if (spec.dtype().code == dtype.code && spec.dtype().bits == dtype.bits &&
      spec.dtype().lanes == dtype.lanes && spec.shape() == shape) [[likely]] {
    return &last;
  }
  TENON_ASSIGN_OR_RETURN(const TensorSpec made,
                         TensorSpec::Contiguous(dtype, shape));
  TENON_ASSIGN_OR_RETURN(
      last, FittedSpec::Check(made, static_cast<uint64_t>(made.bytes())));
  return &last;
}

}  // namespace

absl::StatusOr<Tensor> CreateTensor(Arena& arena, DLDataType dtype,
                                    absl::Span<const int64_t> shape,
                                    Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const FittedSpec* const spec, DenseSpec(dtype, shape));
  const auto bytes = static_cast<size_t>(spec->storage_bytes());
  TENON_ASSIGN_OR_RETURN(auto storage,
                         OwnStorages::Create(arena, bytes, deadline));
  return absl::StatusOr<Tensor>(absl::in_place, *spec, std::move(storage));
}

absl::StatusOr<std::vector<Tensor>> CreateTensors(
    Arena& arena, absl::Span<const TensorShape> shapes, Deadline deadline) {
  const uint64_t alignment = arena.store().facts().block_alignment;
  std::vector<TensorSpec> specs;
  uint64_t end = 0;
  for (const TensorShape& wanted : shapes) {
    // Contiguous() ensures that this does not overflow.
    const uint64_t begin = (end + alignment - 1) / alignment * alignment;
    TENON_ASSIGN_OR_RETURN(
        specs.emplace_back(),
        TensorSpec::Contiguous(wanted.dtype, wanted.shape, begin));
    end = begin + static_cast<uint64_t>(specs.back().bytes());
  }
  std::vector<Tensor> tensors;
  if (specs.empty()) return tensors;
  TENON_ASSIGN_OR_RETURN(
      const auto storage,
      OwnStorages::Create(arena, static_cast<size_t>(end), deadline));
  for (const TensorSpec& spec : specs) {
    TENON_ASSIGN_OR_RETURN(tensors.emplace_back(),
                           Tensor::FromSpec(spec, storage));
  }
  return tensors;
}

absl::StatusOr<BlockDescriptor> DescribeBlock(const Tensor& tensor) {
  const Storage::Lease* lease = LeaseOf(tensor);
  if (const auto* own = LeaseAs<OwnLease>(lease)) return own->block.Describe();
  if (const auto* received = LeaseAs<ReceivedLease>(lease)) {
    TENON_RETURN_IF_ERROR(tensor.storage()->CheckUsable());
    return received->block();
  }
  return NotInAnArena(tensor);
}

bool DescribeBlockTo(const Tensor& tensor, BlockDescriptor& block) {
  const Storage::Lease* lease = LeaseOf(tensor);
  if (const auto* own = LeaseAs<OwnLease>(lease)) {
    return own->block.DescribeTo(block);
  }
  const auto* received = LeaseAs<ReceivedLease>(lease);
  if (received == nullptr || !tensor.storage()->IsUsable()) return false;
  block = received->block();
  return true;
}

absl::StatusOr<ArenaTensorHandle> Describe(const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const BlockDescriptor block, DescribeBlock(tensor));
  return ArenaTensorHandle{.block = block, .spec = tensor.spec()};
}

absl::StatusOr<ArenaOffer> Offer(const Tensor& tensor) {
  const Storage::Lease* lease = LeaseOf(tensor);
  if (const auto* own = LeaseAs<OwnLease>(lease)) {
    return own->block.arena()->Offer(own->block);
  }
  if (const auto* received = LeaseAs<ReceivedLease>(lease)) {
    return received->arena().Offer(received->block().segment);
  }
  return NotInAnArena(tensor);
}

namespace {

// An arena that was offered and has not been forgotten.
struct Known {
  Known(const RandomId& arena_id, uint64_t count,
        std::shared_ptr<AttachedArena> arena)
      : id(arena_id),
        number(count),
        blocks(std::make_unique<ReceivedBlocks>(std::move(arena))) {}
  ~Known() { ReceivedBlocks::Abandon(std::move(blocks)); }
  Known(const Known&) = delete;
  Known& operator=(const Known&) = delete;

  AttachedArena& arena() const { return blocks->arena(); }
  // No tensor of it is left. Requires the lock of its Imports, so that none is
  // made meanwhile.
  bool IsIdle() const { return !blocks->IsInUse(); }

  const RandomId id;
  const uint64_t number;  // Counts up.
  std::unique_ptr<ReceivedBlocks> blocks;
};

// Counted until no tensor of it is left in this process, and its owner no
// longer reads its cells in this process's column.
struct Forgotten {
  std::weak_ptr<AttachedArena> arena;
  ArenaRemains remains;
};

}  // namespace

// The arenas of an importer, and their lock. The functions are the importer's;
// none is called in a forked child, in which a thread that does not exist there
// may hold the lock.
class ArenaTensorImporter::Imports {
 public:
  explicit Imports(const ArenaTensorImporterOptions& options)
      : options_(options) {}

  absl::Status Accept(absl::string_view offer, std::vector<UniqueFd> fds) {
    const TimedMutexLock lock(&mutex_);
    return AcceptLocked(offer, std::move(fds));
  }
  absl::StatusOr<std::shared_ptr<Storage>> AcceptAndClaim(
      absl::string_view offer, std::vector<UniqueFd> fds,
      const BlockDescriptor& block);
  absl::StatusOr<std::shared_ptr<Storage>> ClaimBlock(
      const BlockDescriptor& block, KeptBlock* kept) {
    const TimedMutexLock lock(&mutex_);
    return ClaimBlockLocked(block, kept);
  }
  std::shared_ptr<Storage> ClaimAgain(const KeptBlock& kept,
                                      uint64_t generation) {
    const TimedMutexLock lock(&mutex_);
    return ReceivedBlocks::ClaimAgain(kept, generation);
  }
  void Sweep();
  MappedArenas mapped() {
    const TimedMutexLock lock(&mutex_);
    return CountMapped(Count::kAll);
  }
  absl::Status Forget(const RandomId& arena);
  bool ForgetOldestIdle();

 private:
  using Arenas = absl::flat_hash_map<RandomId, std::unique_ptr<Known>>;

  Known* Find(const RandomId& arena) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ArenaOfferFacts> Admit(absl::string_view offer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptLocked(absl::string_view offer, std::vector<UniqueFd> fds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AttachLocked(const RandomId& arena, absl::string_view offer,
                            std::vector<UniqueFd> fds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Storage>> ClaimBlockLocked(
      const BlockDescriptor& block, KeptBlock* kept)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SweepLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetLocked(Arenas::iterator known)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Never returns `except`.
  Arenas::iterator OldestIdle(const RandomId& except)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoomForAnArena() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoomForAnArena() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepWithinLimits(const ArenaOfferFacts& latest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EvictSegment(const ArenaOfferFacts& latest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  enum class Count { kAll, kPinned };
  MappedArenas CountMapped(Count what) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AttachLimits RemainingLimits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ArenaTensorImporterOptions options_;

  TimedMutex mutex_;  // Mostly one thread receives.
  Arenas arenas_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // Found last.
  Known* last_ ABSL_GUARDED_BY(mutex_) ABSL_PT_GUARDED_BY(mutex_) = nullptr;
  std::vector<Forgotten> forgotten_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::shared_ptr<Storage>>
ArenaTensorImporter::Imports::AcceptAndClaim(absl::string_view offer,
                                             std::vector<UniqueFd> fds,
                                             const BlockDescriptor& block) {
  const TimedMutexLock lock(&mutex_);
  TENON_RETURN_IF_ERROR(AcceptLocked(offer, std::move(fds)));
  TENON_CRASH_POINT("arena_tensor.accepted");
  absl::StatusOr<std::shared_ptr<Storage>> storage =
      ClaimBlockLocked(block, nullptr);
  if (!absl::IsUnavailable(storage.status())) return storage;
  return absl::ResourceExhaustedError(storage.status().message());
}

absl::Status ArenaTensorImporter::Imports::AcceptLocked(
    absl::string_view offer, std::vector<UniqueFd> fds) {
  const absl::StatusOr<ArenaOfferFacts> facts = Admit(offer);
  if (!facts.ok()) {
    const ReceivedFds refused(std::move(fds));
    return facts.status();
  }
  TENON_RETURN_IF_ERROR(AttachLocked(facts->arena, offer, std::move(fds)));
  KeepWithinLimits(*facts);
  return absl::OkStatus();
}

// The facts of an offer, once there is room for its arena.
absl::StatusOr<ArenaOfferFacts> ArenaTensorImporter::Imports::Admit(
    absl::string_view offer) {
  TENON_ASSIGN_OR_RETURN(const ArenaOfferFacts facts,
                         ArenaOfferFacts::FromBytes(offer));
  SweepLocked();
  if (Find(facts.arena) == nullptr) TENON_RETURN_IF_ERROR(MakeRoomForAnArena());
  return facts;
}

absl::Status ArenaTensorImporter::Imports::AttachLocked(
    const RandomId& arena, absl::string_view offer, std::vector<UniqueFd> fds) {
  if (const Known* known = Find(arena)) {
    return known->arena().Add(offer, std::move(fds), RemainingLimits());
  }
  TENON_ASSIGN_OR_RETURN(
      auto attached,
      AttachedArena::Attach(offer, std::move(fds), RemainingLimits()));
  arenas_.emplace(arena, std::make_unique<Known>(arena, next_number_++,
                                                 std::move(attached)));
  return absl::OkStatus();
}

Known* ArenaTensorImporter::Imports::Find(const RandomId& arena) {
  if (last_ != nullptr && last_->id == arena) [[likely]]
    return last_;
  const auto known = arenas_.find(arena);
  if (known == arenas_.end()) return nullptr;
  return last_ = known->second.get();
}

absl::StatusOr<std::shared_ptr<Storage>>
ArenaTensorImporter::Imports::ClaimBlockLocked(const BlockDescriptor& block,
                                               KeptBlock* kept) {
  Known* const known = Find(block.arena);
  if (known == nullptr) {
    return absl::NotFoundError(absl::StrCat("Claim(): no offer of arena ",
                                            block.arena.ToString(),
                                            " has been accepted"));
  }
  // Always claimed: this detects a release of the block in between, and a false
  // segment.
  absl::StatusOr<std::shared_ptr<Storage>> storage =
      known->blocks->Claim(block, kept);
  if (absl::IsUnavailable(storage.status())) [[unlikely]] {
    ForgetLocked(arenas_.find(block.arena));
  }
  return storage;
}

void ArenaTensorImporter::Imports::Sweep() {
  const TimedMutexLock lock(&mutex_);
  for (auto& [id, known] : arenas_) known->blocks->DropUnmapped();
  SweepLocked();
}

void ArenaTensorImporter::Imports::SweepLocked() {
  for (auto it = arenas_.begin(); it != arenas_.end();) {
    const auto known = it++;
    AttachedArena& arena = known->second->arena();
    arena.Sweep();
    if (arena.IsRefused() || (options_.forget_idle && known->second->IsIdle() &&
                              arena.OwnerHasEnded())) {
      ForgetLocked(known);
    }
  }
  std::erase_if(forgotten_, [](const Forgotten& forgotten) {
    if (const auto arena = forgotten.arena.lock()) {
      arena->Sweep();
      return false;
    }
    return forgotten.remains.CostNothing();
  });
}

// Erasing from a flat_hash_map leaves other iterators valid.
void ArenaTensorImporter::Imports::ForgetLocked(Arenas::iterator known) {
  if (last_ == known->second.get()) last_ = nullptr;
  AttachedArena& arena = known->second->arena();
  forgotten_.push_back(
      {arena.weak_from_this(), ArenaRemains(arena.attachment())});
  arenas_.erase(known);
}

absl::Status ArenaTensorImporter::Imports::Forget(const RandomId& arena) {
  const TimedMutexLock lock(&mutex_);
  const auto known = arenas_.find(arena);
  if (known == arenas_.end()) {
    return absl::NotFoundError(
        absl::StrCat(kWhat, " is not attached to arena ", arena.ToString()));
  }
  ForgetLocked(known);
  SweepLocked();
  return absl::OkStatus();
}

bool ArenaTensorImporter::Imports::ForgetOldestIdle() {
  const TimedMutexLock lock(&mutex_);
  const auto oldest = OldestIdle(RandomId());
  if (oldest == arenas_.end()) return false;
  ForgetLocked(oldest);
  return true;
}

ArenaTensorImporter::Imports::Arenas::iterator
ArenaTensorImporter::Imports::OldestIdle(const RandomId& except) {
  auto oldest = arenas_.end();
  for (auto it = arenas_.begin(); it != arenas_.end(); ++it) {
    if (it->first == except || !it->second->IsIdle()) continue;
    if (oldest == arenas_.end() ||
        it->second->number < oldest->second->number) {
      oldest = it;
    }
  }
  return oldest;
}

// A forgotten arena makes room once its owner has seen the detachment, which
// may be later: only a few may be pending at a time, so that not all arenas are
// forgotten at once.
absl::Status ArenaTensorImporter::Imports::MakeRoomForAnArena() {
  constexpr size_t kForgottenAtATime = 8;
  absl::Status room = CheckRoomForAnArena();
  if (room.ok() || !options_.forget_idle ||
      forgotten_.size() >= kForgottenAtATime) {
    return room;
  }
  const auto oldest = OldestIdle(RandomId());
  if (oldest == arenas_.end()) return room;
  ForgetLocked(oldest);
  SweepLocked();
  return CheckRoomForAnArena();
}

absl::Status ArenaTensorImporter::Imports::CheckRoomForAnArena() const {
  const size_t counted = arenas_.size() + forgotten_.size();
  if (counted < options_.max_arenas) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(kWhat, " has ", counted, " of at most ", options_.max_arenas,
                   " arenas (max_arenas), of which ", forgotten_.size(),
                   " are forgotten but still held, or read by their owner"));
}

MappedArenas ArenaTensorImporter::Imports::CountMapped(Count what) const {
  MappedArenas all;
  const auto count = [&all](const AttachedArena::Mapped& mapped) {
    ++all.arenas;
    all.segments += mapped.segments;
    all.bytes += mapped.bytes;
  };
  for (const auto& [id, known] : arenas_) {
    const AttachedArena& arena = known->arena();
    count(what == Count::kAll ? arena.mapped() : arena.pinned());
  }
  for (const Forgotten& forgotten : forgotten_) {
    if (const auto arena = forgotten.arena.lock()) count(arena->mapped());
  }
  return all;
}

// With `forget_idle`, the limits left once idle arenas are forgotten and idle
// segments evicted: KeepWithinLimits() does so with as many as necessary.
AttachLimits ArenaTensorImporter::Imports::RemainingLimits() const {
  const MappedArenas used =
      CountMapped(options_.forget_idle ? Count::kPinned : Count::kAll);
  return {.max_blocks = options_.max_blocks,
          .max_segments = options_.max_segments -
                          std::min(options_.max_segments, used.segments),
          .max_bytes =
              options_.max_bytes - std::min(options_.max_bytes, used.bytes)};
}

void ArenaTensorImporter::Imports::KeepWithinLimits(
    const ArenaOfferFacts& latest) {
  if (!options_.forget_idle) return;
  for (;;) {
    const MappedArenas used = CountMapped(Count::kAll);
    if (used.segments <= options_.max_segments &&
        used.bytes <= options_.max_bytes) {
      return;
    }
    const auto oldest = OldestIdle(latest.arena);
    if (oldest != arenas_.end()) {
      ForgetLocked(oldest);
    } else if (!EvictSegment(latest)) {
      return;
    }
  }
}

// Of the oldest arena that has one to evict. Its blocks are kept no longer.
bool ArenaTensorImporter::Imports::EvictSegment(const ArenaOfferFacts& latest) {
  std::vector<Known*> oldest_first;
  for (const auto& [id, known] : arenas_) oldest_first.push_back(known.get());
  std::sort(
      oldest_first.begin(), oldest_first.end(),
      [](const Known* a, const Known* b) { return a->number < b->number; });
  constexpr uint32_t kNone = ~uint32_t{0};
  return std::any_of(oldest_first.begin(), oldest_first.end(),
                     [&](const Known* known) {
                       const uint32_t kept =
                           known->id == latest.arena ? latest.segment : kNone;
                       if (!known->arena().EvictOldest(kept)) return false;
                       known->blocks->DropUnmapped();
                       return true;
                     });
}

// ---- The importer ----

ArenaTensorImporter::ArenaTensorImporter(
    const ArenaTensorImporterOptions& options)
    : fork_count_(ForkCount()), imports_(std::make_unique<Imports>(options)) {}

ArenaTensorImporter::~ArenaTensorImporter() = default;

absl::Status ArenaTensorImporter::Accept(absl::string_view offer,
                                         std::vector<UniqueFd> fds) {
  TENON_RETURN_IF_ERROR(CheckUsable(fds));
  return imports_->Accept(offer, std::move(fds));
}

absl::StatusOr<std::shared_ptr<Storage>> ArenaTensorImporter::AcceptAndClaim(
    absl::string_view offer, std::vector<UniqueFd> fds,
    const BlockDescriptor& block) {
  TENON_RETURN_IF_ERROR(CheckUsable(fds));
  return imports_->AcceptAndClaim(offer, std::move(fds), block);
}

// After an error `fds` are gone.
absl::Status ArenaTensorImporter::CheckUsable(
    std::vector<UniqueFd>& fds) const {
  absl::Status usable = CheckNotForked(fork_count_, kWhat);
  if (usable.ok()) return usable;
  const ReceivedFds refused(std::move(fds));
  return usable;
}

absl::StatusOr<Tensor> ArenaTensorImporter::Claim(
    const ArenaTensorHandle& handle) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         ClaimBlock(handle.block));
  return Tensor::FromSpec(handle.spec, std::move(storage));
}

absl::StatusOr<std::shared_ptr<Storage>> ArenaTensorImporter::ClaimBlock(
    const BlockDescriptor& block, KeptBlock* kept) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  return imports_->ClaimBlock(block, kept);
}

std::shared_ptr<Storage> ArenaTensorImporter::ClaimAgain(const KeptBlock& kept,
                                                         uint64_t generation) {
  if (fork_count_ != ForkCount()) return nullptr;
  return imports_->ClaimAgain(kept, generation);
}

void ArenaTensorImporter::Sweep() {
  if (fork_count_ == ForkCount()) imports_->Sweep();
}

void ArenaTensorImporter::SweepNowAndThen() {
  constexpr uint64_t kEveryMs = 100;
  const uint64_t now = CoarseNowMs();
  if (now - swept_ms_.load(std::memory_order_relaxed) < kEveryMs) return;
  swept_ms_.store(now, std::memory_order_relaxed);
  Sweep();
}

MappedArenas ArenaTensorImporter::mapped() {
  if (fork_count_ != ForkCount()) return {};
  return imports_->mapped();
}

absl::Status ArenaTensorImporter::Forget(const RandomId& arena) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  return imports_->Forget(arena);
}

bool ArenaTensorImporter::ForgetOldestIdle() {
  return fork_count_ == ForkCount() && imports_->ForgetOldestIdle();
}

}  // namespace tenon
