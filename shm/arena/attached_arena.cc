// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/attached_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/size_class.h"
#include "tenon/shm/crash_point.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/control_memory.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/received_fd.h"
#include "tenon/shm/segment.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unix_socket.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

constexpr char kWhat[] = "an attached arena";

// How long a process whose descriptors are closed already may take to end.
constexpr absl::Duration kEnding = absl::Seconds(1);

// Of a pair of sockets the peer is its maker: the owner. What is not certain
// counts as alive.
bool OwnerHasDied(int inbox) {
  absl::StatusOr<PidFd> owner = PidFd::OfPeer(inbox);
  if (absl::IsUnimplemented(owner.status())) {
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (getsockopt(inbox, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.pid <= 0) {
      return false;
    }
    owner = PidFd::Open(peer.pid);
  }
  return owner.ok() ? owner->WaitForEnd(Deadline::After(kEnding)).ok()
                    : absl::IsNotFound(owner.status());
}

absl::Status CheckFds(const ArenaOfferFacts& facts, const ReceivedFds& fds) {
  if (fds.size() != facts.fd_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the offer of an arena came with ", fds.size(),
                     " descriptors instead of ", facts.fd_count()));
  }
  return CheckIsUnixSocket(fds[ArenaOfferFacts::kInbox], SOCK_SEQPACKET,
                           "the inbox that came with the offer of an arena");
}

// The owner says which socket is its own. In another one attachments would be
// lost, and blocks reused that are held.
absl::Status CheckInbox(const ArenaHeader& header, int inbox) {
  TENON_ASSIGN_OR_RETURN(const uint64_t cookie, SocketCookie(inbox));
  if (cookie != header.inbox_cookie) {
    return absl::InvalidArgumentError(
        "the offer of an arena came with a socket that is not its owner's");
  }
  // Of all holders of this end none reads: it is there to send attachments.
  if (!ShutAndCheckEmpty(inbox)) {
    return absl::InvalidArgumentError(
        "the offer of an arena came with a socket in which something lies");
  }
  return absl::OkStatus();
}

// By its size, which is sealed, and which the table has to agree with.
absl::Status CheckTableSize(int fd, const AttachLimits& limits) {
  const uint64_t max_blocks = std::min(limits.max_blocks, Layout::kMaxBlocks);
  TENON_ASSIGN_OR_RETURN(
      const size_t size,
      CheckIsControlMemory(fd, "a received table of an arena"));
  if (size <= Layout::Bytes(max_blocks)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a received table of an arena has ", size, " bytes, and one of ",
      max_blocks, " blocks, the most that are taken (max_blocks), has ",
      Layout::Bytes(max_blocks)));
}

absl::Status CheckSegmentSize(absl::string_view arena, uint64_t size,
                              const AttachLimits& limits) {
  if (limits.max_segments > 0 && size <= limits.max_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "a segment of ", size, " bytes of arena '", arena, "': at most ",
      limits.max_segments, " more (max_segments) of together ",
      limits.max_bytes, " bytes (max_bytes) are mapped"));
}

absl::StatusOr<Segment> OpenSegment(const ArenaOfferFacts& facts,
                                    SegmentKind kind, UniqueFd fd) {
  if (facts.strategy == SharingStrategy::kFileSystem) {
    return Segment::Open(facts.name, kind);
  }
  return Segment::Adopt(std::move(fd), kind);
}

absl::Status BlockWasTakenBack(absl::string_view arena,
                               const BlockDescriptor& descriptor) {
  return absl::DataLossError(absl::StrCat(
      "block ", descriptor.block, " of arena '", arena,
      "' was taken back before it could be claimed: who sent it had let go of "
      "it, or was killed"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<AttachedArena>> AttachedArena::Attach(
    absl::string_view offer, std::vector<UniqueFd> fds,
    const AttachLimits& limits) {
  ReceivedFds received(std::move(fds));
  TENON_ASSIGN_OR_RETURN(const ArenaOfferFacts facts,
                         ArenaOfferFacts::FromBytes(offer));
  TENON_RETURN_IF_ERROR(CheckFds(facts, received));
  TENON_RETURN_IF_ERROR(
      CheckTableSize(received[ArenaOfferFacts::kTable], limits));
  TENON_ASSIGN_OR_RETURN(
      ArenaTableView table,
      ArenaTableView::Adopt(received.Take(ArenaOfferFacts::kTable)));
  if (table.header().arena != facts.arena) {
    return absl::InvalidArgumentError(
        "the offer of an arena came with the table of another one");
  }
  TENON_RETURN_IF_ERROR(
      CheckInbox(table.header(), received[ArenaOfferFacts::kInbox]));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Column> column,
                         Column::OfThisProcess());
  std::shared_ptr<AttachedArena> arena(new AttachedArena(
      std::move(table), received.Take(ArenaOfferFacts::kInbox),
      std::move(column)));
  TENON_ASSIGN_OR_RETURN(
      arena->range_,
      arena->column_->Enter(facts.arena, arena->table_.header().max_blocks));
  TENON_RETURN_IF_ERROR(arena->MapSegment(facts, received, limits));
  TENON_RETURN_IF_ERROR(arena->Enter());
  return arena;
}

absl::Status AttachedArena::Enter() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 ends) != 0) {
    return PosixError(errno, "socketpair", kWhat);
  }
  UniqueFd lease(ends[0]);
  const UniqueFd owners_end(ends[1]);
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  TENON_CRASH_POINT("attached_arena.attaching");
  // model: att = 1. Before the first claim; nobody has this arena yet.
  const absl::Status sent =
      SendAttach(inbox_.get(), {.arena = id(),
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
  // Who takes nothing back any more need not know.
  if (table_.IsClosed()) return absl::OkStatus();
  if (absl::IsUnavailable(sent) && OwnerHasDied(inbox_.get())) {
    return absl::OkStatus();
  }
  return sent;
}

AttachedArena::~AttachedArena() {
  if (fork_count_ != ForkCount() || range_.cells == nullptr) return;
  column_->Leave(range_, std::move(lease_));
}

absl::Status AttachedArena::Add(absl::string_view offer,
                                std::vector<UniqueFd> fds,
                                const AttachLimits& limits) {
  ReceivedFds received(std::move(fds));
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  TENON_ASSIGN_OR_RETURN(const ArenaOfferFacts facts,
                         ArenaOfferFacts::FromBytes(offer));
  TENON_RETURN_IF_ERROR(CheckFds(facts, received));
  if (facts.arena != id()) {
    return absl::InvalidArgumentError("the offer is one of another arena");
  }
  // An id is anybody's word: it must be the same table and the same socket.
  TENON_RETURN_IF_ERROR(CheckIsTable(received[ArenaOfferFacts::kTable]));
  TENON_RETURN_IF_ERROR(
      CheckInbox(table_.header(), received[ArenaOfferFacts::kInbox]));
  // The socket that inbox_ keeps open: closing a copy of it waits for nothing.
  received.Take(ArenaOfferFacts::kInbox).Reset();
  Sweep();
  return MapSegment(facts, received, limits);
}

absl::Status AttachedArena::CheckIsTable(int fd) const {
  if (ClosesAtOnce(fd)) {  // Only of such can anything be asked.
    TENON_ASSIGN_OR_RETURN(const FileIdentity file, FileIdentity::Of(fd));
    TENON_ASSIGN_OR_RETURN(const FileIdentity ours,
                           FileIdentity::Of(table_.fd()));
    if (file == ours) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "the offer came with a table that is not that of the arena attached to");
}

absl::Status AttachedArena::MapSegment(const ArenaOfferFacts& facts,
                                       ReceivedFds& fds,
                                       const AttachLimits& limits) {
  std::lock_guard lock(mutex_);
  MappedSegment& slot = segments_[Layout::SlotOf(facts.segment)];
  if (slot.IsOpen(facts.segment)) return absl::OkStatus();
  if (slot.is_open()) {
    return absl::NotFoundError(
        absl::StrCat("segment ", facts.segment, " of arena '", name(),
                     "' has the place of one of which blocks are still held"));
  }
  const bool shared_writable = table_.header().shared_writable != 0;
  const SegmentKind kind = shared_writable ? SegmentKind::kSharedWritable
                                           : SegmentKind::kOwnerWritten;
  UniqueFd segment_fd;
  if (fds.size() > ArenaOfferFacts::kSegment) {
    segment_fd = fds.Take(ArenaOfferFacts::kSegment);
  }
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         OpenSegment(facts, kind, std::move(segment_fd)));
  TENON_RETURN_IF_ERROR(CheckSegmentSize(name(), segment.size_bytes(), limits));
  // Takes memory for the words of its blocks: not before.
  TENON_ASSIGN_OR_RETURN(const ArenaSegment listed, table_.Find(facts.segment));
  TENON_ASSIGN_OR_RETURN(const FileIdentity file,
                         FileIdentity::Of(segment.fd()));
  if (file != listed.file) {
    return absl::InvalidArgumentError(
        absl::StrCat("what was offered as segment ", facts.segment,
                     " of arena '", name(), "' is not its memory"));
  }
  if (segment.size_bytes() / listed.block_bytes < listed.block_count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a segment of ", segment.size_bytes(), " bytes cannot have ",
        listed.block_count, " blocks of ", listed.block_bytes, " bytes"));
  }
  ReadOnlyMapping readable;
  WritableMapping writable;
  if (shared_writable) {
    TENON_ASSIGN_OR_RETURN(writable, segment.MapWritable());
  } else {
    TENON_ASSIGN_OR_RETURN(readable, segment.MapReadOnly());
  }
  TENON_RETURN_IF_ERROR(
      column_->Reserve(range_, listed.first_block, listed.block_count));
  slot.Open(listed, std::move(segment), std::move(readable),
            std::move(writable));
  return absl::OkStatus();
}

absl::StatusOr<Hold> AttachedArena::Claim(const BlockDescriptor& descriptor) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  MappedSegment& segment = segments_[Layout::SlotOf(descriptor.segment)];
  if (descriptor.arena != id() || !segment.Enter(descriptor.segment)) {
    return absl::NotFoundError(
        absl::StrCat("segment ", descriptor.segment, " of arena ",
                     descriptor.arena.ToString(),
                     " has not been offered to this process, or is gone"));
  }
  const ArenaSegment& listed = segment.listed();
  const uint64_t index = uint64_t{descriptor.block} - listed.first_block;
  if (index >= listed.block_count || descriptor.size > listed.block_bytes ||
      descriptor.offset > listed.block_bytes - descriptor.size) {
    segment.Leave();
    return absl::InvalidArgumentError(absl::StrCat(
        "segment ", descriptor.segment, " of arena '", name(), "' has ",
        listed.block_count, " blocks of ", listed.block_bytes, " bytes from ",
        listed.first_block, " on, and not ", descriptor.size, " bytes at ",
        descriptor.offset, " of block ", descriptor.block));
  }
  const SharedWord<uint64_t>& generation =
      table_.generations()[descriptor.block];
  // The claim is a barrier, which would have the one line fetched only after
  // the other.
  __builtin_prefetch(&generation);
  if (!Lease<>::Claim(range_.cells[descriptor.block], generation,
                      descriptor.generation)) {
    segment.Leave();
    return BlockWasTakenBack(name(), descriptor);
  }
  TENON_CRASH_POINT("attached_arena.claimed");
  return Hold(shared_from_this(),
              segment.data() + index * listed.block_bytes + descriptor.offset,
              descriptor);
}

void AttachedArena::Release(const Hold& hold) {
  if (fork_count_ != ForkCount()) return;
  // First: as long as the block is claimed the segment is not retired, and so
  // nobody waits for its slot. Its memory is not touched any more.
  segments_[Layout::SlotOf(hold.descriptor_.segment)].Leave();
  // A hold was claimed, and is released once: it cannot fail.
  Lease<>::Release(range_.cells[hold.descriptor_.block]);
  TENON_CRASH_POINT("attached_arena.released");
}

absl::StatusOr<ArenaOffer> AttachedArena::Offer(uint32_t segment_id) const {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  std::lock_guard lock(mutex_);
  const MappedSegment& slot = segments_[Layout::SlotOf(segment_id)];
  if (!slot.IsOpen(segment_id)) {
    return absl::NotFoundError(absl::StrCat(
        "segment ", segment_id, " of arena '", name(), "' is not mapped"));
  }
  const Segment& segment = slot.segment();
  ArenaOffer offer;
  offer.bytes =
      ArenaOfferFacts{id(), segment_id, segment.strategy(), segment.name()}
          .ToBytes();
  offer.fds = {table_.fd(), inbox_.get()};
  if (segment.strategy() == SharingStrategy::kFileDescriptor) {
    offer.fds.push_back(segment.fd());
  }
  return offer;
}

void AttachedArena::Sweep() {
  if (fork_count_ != ForkCount()) return;
  std::lock_guard lock(mutex_);
  for (MappedSegment& segment : segments_) {
    if (segment.is_open() && !table_.IsLive(segment.id())) segment.Close();
  }
}

AttachedArena::Mapped AttachedArena::mapped() const {
  std::lock_guard lock(mutex_);
  Mapped mapped;
  for (const MappedSegment& segment : segments_) {
    if (!segment.is_open()) continue;
    ++mapped.segments;
    mapped.bytes += segment.segment().size_bytes();
  }
  return mapped;
}

absl::StatusOr<UniqueFd> AttachedArena::DuplicateLease() const {
  if (!lease_.valid()) return UniqueFd();
  UniqueFd lease(fcntl(lease_.get(), F_DUPFD_CLOEXEC, 0));
  if (!lease.valid()) return PosixError(errno, "fcntl(F_DUPFD)", kWhat);
  return lease;
}

Hold& Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  arena_ = std::move(other.arena_);
  data_ = std::exchange(other.data_, nullptr);
  descriptor_ = std::exchange(other.descriptor_, BlockDescriptor());
  return *this;
}

void Hold::Reset() {
  if (arena_ == nullptr) return;
  arena_->Release(*this);
  arena_.reset();
  data_ = nullptr;
  descriptor_ = BlockDescriptor();
}

absl::StatusOr<std::byte*> Hold::mutable_data() const {
  if (arena_ == nullptr || arena_->table_.header().shared_writable == 0) {
    return absl::FailedPreconditionError(
        "a block of an owner-written arena can only be read");
  }
  return const_cast<std::byte*>(data_);
}

}  // namespace tenon
