// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/arena_attachment.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/file_identity.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/arena/internal/segment_offer.h"
#include "tenon/shm/arena/memory_kind.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unix_socket.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/inbox_owner.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/control_memory.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

constexpr char kWhat[] = "an attached arena";

// The time that a process with closed descriptors may take to end.
constexpr absl::Duration kEnding = absl::Seconds(1);

bool OwnerEndsSoon(int inbox) {
  const absl::StatusOr<PidFd> owner = OwnerOfInbox(inbox);
  return owner.ok() ? owner->WaitForEnd(Deadline::After(kEnding)).ok()
                    : IsKnownToHaveEnded(owner);
}

// Whether the other end of the lease is shut; no bytes are sent on it. Unlike
// poll(), it works at an RLIMIT_NOFILE of 0. Where the kernel gives no answer
// (seccomp) the claim has to fail: the owner may not see it.
bool IsShut(int lease) {
  char byte;
  const ssize_t got = RetryOnEintr(
      [&] { return recv(lease, &byte, 1, MSG_PEEK | MSG_DONTWAIT); });
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

// The owner's table identifies its socket. Attachments through another one
// would be lost, and held blocks would be reused.
absl::Status CheckInbox(const ArenaHeader& header, int inbox) {
  TENON_ASSIGN_OR_RETURN(const uint64_t cookie, SocketCookie(inbox));
  if (cookie != header.inbox_cookie) {
    return absl::InvalidArgumentError(
        "arena offer: its socket is not the inbox of the arena's owner");
  }
  // No holder reads from this end: it only sends attachments.
  if (!ShutAndCheckEmpty(inbox)) {
    return absl::InvalidArgumentError(
        "arena offer: its socket contains unread messages; want an empty "
        "inbox");
  }
  return absl::OkStatus();
}

absl::Status CheckSegmentSize(absl::string_view arena, uint64_t size,
                              const AttachLimits& limits) {
  if (limits.max_segments > 0 && size <= limits.max_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("segment of ", SizeText(size), " of arena '", arena,
                   "' exceeds the limits of this importer: ",
                   limits.max_segments == std::numeric_limits<size_t>::max()
                       ? "unlimited"
                       : absl::StrCat(limits.max_segments),
                   " more segments (max_segments), in total ",
                   SizeText(limits.max_bytes), " (max_bytes)"));
}

// By what its header says. Errors: FindMemoryKind()'s.
absl::StatusOr<const MemoryKind*> KindOf(const ArenaTableView& table) {
  static constexpr MappedKind kOfCpu;
  const auto id = static_cast<MemoryKindId>(table.header().kind);
  if (id == MemoryKindId::kCpu) return &kOfCpu;
  return FindMemoryKind(id, table.name());
}

}  // namespace

// The attachments of this process to one arena.
struct ArenaAttachment::Slot {
  ThreadMutex mutex;  // Held by the thread that attaches.
  std::weak_ptr<ArenaAttachment> current ABSL_GUARDED_BY(mutex);
  // Attachments that were sent to the owner and have not hung up.
  std::atomic<size_t> attached{0};

  // model: limit.
  absl::Status CheckLimit() const {
    constexpr size_t kMost = Attachments::kMaxOfOneProcess;
    const size_t now = attached.load(std::memory_order_relaxed);
    if (now < kMost) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "this process has ", now, " attachments to one arena, of at most ",
        kMost, "; retry once the owner has removed ended ones"));
  }
};

struct ArenaAttachment::Registry {
  using Key = std::pair<uint64_t, uint64_t>;

  ThreadMutex mutex;
  std::map<Key, std::shared_ptr<ArenaAttachment::Slot>> slots
      ABSL_GUARDED_BY(mutex);
};

std::shared_ptr<ArenaAttachment::Slot> ArenaAttachment::SlotOfTable(
    const FileIdentity& table) {
  static constinit PerProcess<Registry> of_process;
  Registry& registry = of_process.Get();
  const ThreadLock lock(&registry.mutex);
  // An attachment has its slot, and so has a thread that attaches.
  std::erase_if(registry.slots, [](const auto& entry) {
    return entry.second.use_count() == 1;
  });
  std::shared_ptr<ArenaAttachment::Slot>& slot =
      registry.slots[{table.device, table.inode}];
  if (slot == nullptr) slot = std::make_shared<Slot>();
  return slot;
}

absl::StatusOr<std::shared_ptr<ArenaAttachment>> ArenaAttachment::Get(
    const ArenaOfferFacts& facts, ReceivedFds& fds,
    const AttachLimits& limits) {
  TENON_ASSIGN_OR_RETURN(const FileIdentity table,
                         FileIdentity::Of(fds[ArenaOfferFacts::kTable]));
  const std::shared_ptr<Slot> slot = SlotOfTable(table);
  const ThreadLock lock(&slot->mutex);
  std::shared_ptr<ArenaAttachment> current = slot->current.lock();
  if (current != nullptr && !current->IsRefused()) {
    TENON_RETURN_IF_ERROR(current->Map(facts, fds, limits, User::kNew));
    return current;
  }
  TENON_RETURN_IF_ERROR(slot->CheckLimit());
  TENON_ASSIGN_OR_RETURN(current, Create(facts, fds, limits));
  current->slot_ = slot;
  slot->attached.fetch_add(1, std::memory_order_relaxed);
  TENON_RETURN_IF_ERROR(current->Send());
  slot->current = current;
  return current;
}

// Not known to the owner yet.
absl::StatusOr<std::shared_ptr<ArenaAttachment>> ArenaAttachment::Create(
    const ArenaOfferFacts& facts, ReceivedFds& fds,
    const AttachLimits& limits) {
  TENON_ASSIGN_OR_RETURN(
      ArenaTableView table,
      ArenaTableView::Adopt(fds.Take(ArenaOfferFacts::kTable)));
  if (table.header().arena != facts.arena) {
    return absl::InvalidArgumentError(
        "arena offer: its table belongs to another arena");
  }
  TENON_RETURN_IF_ERROR(
      CheckInbox(table.header(), fds[ArenaOfferFacts::kInbox]));
  TENON_ASSIGN_OR_RETURN(const MemoryKind* const kind, KindOf(table));
  TENON_ASSIGN_OR_RETURN(const DLDevice device,
                         kind->DeviceOf(table.header().device));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Column> column,
                         Column::OfThisProcess());
  std::shared_ptr<ArenaAttachment> arena(new ArenaAttachment(
      std::move(table), kind, device, fds.Take(ArenaOfferFacts::kInbox),
      std::move(column)));
  TENON_ASSIGN_OR_RETURN(
      arena->range_,
      arena->column_->Enter(facts.arena, arena->table_.header().max_blocks));
  TENON_RETURN_IF_ERROR(arena->MapSegment(facts, fds, limits, User::kNew));
  return arena;
}

absl::Status ArenaAttachment::Send() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 ends) != 0) {
    return PosixError(errno, "socketpair", kWhat);
  }
  UniqueFd lease(ends[0]);
  const UniqueFd owners_end(ends[1]);
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  refused_seen_.store(table_.refused(), std::memory_order_relaxed);
  TENON_CRASH_POINT("attached_arena.attaching");
  // model: att = 1. Before the first claim; no other thread can access this
  // yet.
  absl::Status sent = SendAttach(inbox_.get(), {.arena = table_.header().arena,
                                                .first_cell = range_.first_cell,
                                                .cells = range_.count,
                                                .column = column_->fd(),
                                                .process = self.fd(),
                                                .lease = owners_end.get()});
  TENON_CRASH_POINT("attached_arena.attached");
  if (sent.ok()) {
    lease_ = std::move(lease);
    return absl::OkStatus();
  }
  // An owner that does not reclaim any more need not be notified; its forked
  // child may keep its inbox open, which then fills up.
  if (OwnerHasEnded()) return absl::OkStatus();
  if (absl::IsUnavailable(sent) && OwnerEndsSoon(inbox_.get())) {
    return absl::OkStatus();
  }
  return sent;
}

ArenaAttachment::~ArenaAttachment() {
  if (fork_count_ != ForkCount() || range_.cells == nullptr) return;
  column_->Leave(range_, std::move(lease_), std::move(inbox_),
                 std::move(cells_));
  if (slot_ != nullptr) {
    slot_->attached.fetch_sub(1, std::memory_order_relaxed);
  }
}

absl::Status ArenaAttachment::Map(const ArenaOfferFacts& facts,
                                  ReceivedFds& fds, const AttachLimits& limits,
                                  User user) {
  if (facts.arena != table_.header().arena) {
    return absl::InvalidArgumentError(
        "arena offer: it belongs to another arena");
  }
  // An id is untrusted: table and socket must be the same ones.
  TENON_RETURN_IF_ERROR(CheckIsTable(fds[ArenaOfferFacts::kTable]));
  TENON_RETURN_IF_ERROR(
      CheckInbox(table_.header(), fds[ArenaOfferFacts::kInbox]));
  // The socket that inbox_ keeps open: closing a copy of it never blocks.
  fds.Take(ArenaOfferFacts::kInbox).Reset();
  Sweep();
  return MapSegment(facts, fds, limits, user);
}

absl::Status ArenaAttachment::CheckIsTable(int fd) const {
  if (ClosesAtOnce(fd)) {  // Only such descriptors can be queried safely.
    TENON_ASSIGN_OR_RETURN(const FileIdentity file, FileIdentity::Of(fd));
    TENON_ASSIGN_OR_RETURN(const FileIdentity ours,
                           FileIdentity::Of(table_.fd()));
    if (file == ours) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "arena offer: its table is not that of the attached arena");
}

// Not mapped yet.
absl::StatusOr<std::unique_ptr<StoredSegment>> ArenaAttachment::OpenChecked(
    const ArenaOfferFacts& facts, ReceivedFds& fds, const AttachLimits& limits,
    ArenaSegment* listed) const {
  TENON_ASSIGN_OR_RETURN(const ArenaSegment wanted, table_.Peek(facts.segment));
  OfferedSegment offered = {.identity = table_.header().device,
                            .bytes = wanted.block_bytes * wanted.block_count,
                            .writable = table_.header().shared_writable != 0,
                            .name = facts.name};
  if (facts.strategy == SharingStrategy::kFileDescriptor) {
    offered.fd = fds.Take(ArenaOfferFacts::kSegment);
  }
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<StoredSegment> memory,
                         kind_.Open(std::move(offered)));
  TENON_RETURN_IF_ERROR(
      CheckSegmentSize(table_.name(), memory->size_bytes(), limits));
  // Allocates memory for the words of its blocks: not earlier.
  TENON_ASSIGN_OR_RETURN(*listed, table_.Find(facts.segment));
  TENON_ASSIGN_OR_RETURN(const FileIdentity file, memory->Identify());
  if (file != listed->file) {
    return absl::InvalidArgumentError(
        absl::StrCat("arena offer: its memory is not that of segment ",
                     facts.segment, " of arena '", table_.name(), "'"));
  }
  if (memory->size_bytes() / listed->block_bytes < listed->block_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("arena offer: ", listed->block_count, " blocks of ",
                     SizeText(listed->block_bytes), " exceed the segment of ",
                     SizeText(memory->size_bytes())));
  }
  return memory;
}

absl::Status ArenaAttachment::MapSegment(const ArenaOfferFacts& facts,
                                         ReceivedFds& fds,
                                         const AttachLimits& limits,
                                         User user) {
  const ThreadLock lock(&mutex_);
  MappedSegment& slot = segments_[Layout::SlotOf(facts.segment)];
  if (slot.IsOpen(facts.segment)) {
    TENON_RETURN_IF_ERROR(
        CheckSegmentSize(table_.name(), slot.memory().size_bytes(), limits));
    if (user == User::kNew) slot.AddUser();
    return absl::OkStatus();
  }
  if (slot.is_open()) {
    return absl::NotFoundError(absl::StrCat(
        "segment ", facts.segment, " of arena '", table_.name(),
        "' has the slot of a segment whose blocks are still held"));
  }
  ArenaSegment listed;
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<StoredSegment> memory,
                         OpenChecked(facts, fds, limits, &listed));
  TENON_RETURN_IF_ERROR(memory->Map());
  TENON_RETURN_IF_ERROR(
      column_->Reserve(range_, listed.first_block, listed.block_count));
  slot.Open(listed, std::move(memory));
  slot.AddUser();
  return absl::OkStatus();
}

void ArenaAttachment::RemoveUser(uint32_t segment) {
  if (fork_count_ != ForkCount()) return;
  const ThreadLock lock(&mutex_);
  MappedSegment& slot = segments_[Layout::SlotOf(segment)];
  if (slot.IsOpen(segment)) slot.RemoveUser();
}

bool ArenaAttachment::IsPinned(uint32_t segment) const {
  const ThreadLock lock(&mutex_);
  const MappedSegment& slot = segments_[Layout::SlotOf(segment)];
  return slot.IsOpen(segment) && (slot.users() > 1 || HasClaims(slot.listed()));
}

bool ArenaAttachment::Evict(uint32_t segment) {
  const ThreadLock lock(&mutex_);
  MappedSegment& slot = segments_[Layout::SlotOf(segment)];
  if (!slot.IsOpen(segment)) return true;
  return slot.users() <= 1 &&
         slot.Close([&] { return HasClaims(slot.listed()); });
}

uint64_t ArenaAttachment::BytesOf(uint32_t segment) const {
  const ThreadLock lock(&mutex_);
  const MappedSegment& slot = segments_[Layout::SlotOf(segment)];
  return slot.IsOpen(segment) ? slot.memory().size_bytes() : 0;
}

absl::StatusOr<ArenaOffer> ArenaAttachment::Offer(uint32_t segment_id) const {
  const ThreadLock lock(&mutex_);
  const MappedSegment& slot = segments_[Layout::SlotOf(segment_id)];
  if (!slot.IsOpen(segment_id)) {
    return absl::NotFoundError(absl::StrCat("segment ", segment_id,
                                            " of arena '", table_.name(),
                                            "' is not mapped"));
  }
  return OfferOf(table_.header().arena, segment_id, slot.memory(), table_.fd(),
                 inbox_.get());
}

bool ArenaAttachment::HasClaims(const ArenaSegment& segment) const {
  for (uint64_t i = 0; i < segment.block_count; ++i) {
    const uint64_t cell = StdAtomics::Load(
        range_.cells[segment.first_block + i], std::memory_order_seq_cst);
    if (LeaseCell::Held(cell) != 0) return true;
  }
  return false;
}

void ArenaAttachment::Sweep() {
  if (fork_count_ != ForkCount()) return;
  const ThreadLock lock(&mutex_);
  for (MappedSegment& segment : segments_) {
    if (!segment.is_open() || table_.IsLive(segment.id())) continue;
    // An owner that misbehaves retires segments of which blocks are claimed.
    segment.Close([&] { return HasClaims(segment.listed()); });
  }
}

bool ArenaAttachment::IsRefused() {
  if (refused_.load(std::memory_order_relaxed)) return true;
  const uint64_t now = table_.refused();
  if (!MayBeRefused() || !lease_.valid()) return false;
  if (IsShut(lease_.get()) && !OwnerHasEnded()) {
    refused_.store(true, std::memory_order_relaxed);
    return true;
  }
  refused_seen_.store(now, std::memory_order_relaxed);
  return false;
}

bool ArenaAttachment::OwnerHasEnded() const {
  return table_.IsClosed() || IsKnownToHaveEnded(OwnerOfInbox(inbox_.get()));
}

bool ArenaRemains::CostNothing() const {
  if (attachment_.lock() != nullptr) return true;
  column_->FreeDropped();
  return cells_.expired();
}

}  // namespace tenon
