// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Segment: a piece of memory that several processes map, as a kernel object.
//
//   // Owner: creates, writes, and sends the descriptor over a channel.
//   TENON_ASSIGN_OR_RETURN(auto owned, Segment::CreateOwnerWritten(1 << 20));
//   owned.mapping.data()[0] = std::byte{42};
//   const int fd = owned.segment.fd();  // Send it: tenon/ipc/channel/channel.h.
//
//   // The peer:
//   TENON_ASSIGN_OR_RETURN(
//       Segment segment,
//       Segment::Adopt(std::move(received), SegmentKind::kOwnerWritten));
//   TENON_ASSIGN_OR_RETURN(ReadOnlyMapping mapping, segment.MapReadOnly());
//
// A segment is not an address range (that is a Mapping, which outlives it) and
// knows nothing of its contents.

#ifndef TENON_SHM_SEGMENT_SEGMENT_H_
#define TENON_SHM_SEGMENT_SEGMENT_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

// The writers of a segment.
enum class SegmentKind {
  // The creator alone, through the mapping made at creation. With
  // kFileDescriptor a seal enforces that (F_SEAL_FUTURE_WRITE): no other
  // process can map it writable, write to it, or punch holes into it.
  kOwnerWritten,
  // Every process that has the segment.
  kSharedWritable,
};

// The close-on-exec flag of a descriptor that Adopt() takes over.
enum class CloseOnExec {
  kSet,    // Adopt() sets it.
  kIsSet,  // The caller knows that it is set: recvmsg() with MSG_CMSG_CLOEXEC,
           // as of all descriptors of a Channel.
};

// Ownership: owns a descriptor (close-on-exec; until CloseFd()) and, when it
//   was created with kFileSystem, the name: destroying it or assigning to it
//   removes the name. A name that a program chose (SegmentOptions::name) is
//   removed with its last holder: destroy mappings before the segment, or the
//   name stays until it is reclaimed or used again. The memory is freed with the last descriptor and mapping
//   of any process.
// Threads: thread-compatible; const calls may run concurrently.
// Processes: inert in a forked child: calls fail with kFailedPrecondition, and
//   the name stays.
// Trust: Adopt() and Open() check descriptor and name before use. A kFileSystem
//   segment cannot be sealed: any process of the same user may truncate it, so
//   it is for groups that trust each other.
// Death: a process holds a name as long as it has the segment open or mapped.
//   A name that dead processes left is removed by ReclaimDeadNames()
//   (named_segments.h), by `tenon shm gc`, and by the creation of a named
//   segment in any process that is short of memory.
// Failure: a failed factory leaves nothing behind (a process killed in it may
//   leave a name that Open() refuses), a failed call leaves the segment
//   unchanged. A moved-from segment may only be destroyed or assigned to.
class Segment {
 public:
  struct OwnerWritten;

  // Which kernel object a segment is: st_dev and st_ino.
  struct Id {
    uint64_t device = 0;
    uint64_t inode = 0;
    friend auto operator<=>(const Id&, const Id&) = default;
  };

  // Creates a zeroed segment with its pages reserved (which blocks), so that
  // running out of memory is an error here and not SIGBUS at some later write.
  // Errors: kInvalidArgument for size 0, a size over 2^63-1 or a bad prefix;
  // kResourceExhausted naming the limit (memory, /dev/shm, file size,
  // descriptors, mappings); under kFileSystem also kNotFound if there is no
  // /dev/shm, kPermissionDenied if it is not writable, and kAborted if other
  // processes reclaimed each of 8 new names before this one held it; those of
  // the options (segment_options.h).
  static absl::StatusOr<Segment> CreateSharedWritable(
      size_t size_bytes, const SegmentOptions& options = {});
  static absl::StatusOr<OwnerWritten> CreateOwnerWritten(
      size_t size_bytes, const SegmentOptions& options = {});

  // Creates a segment with a copy of `contents`, without mapping it: less than
  // half the work of mapping and copying, for data that is written once. If it
  // is of kind kOwnerWritten, no process can ever write it.
  // Errors: as above; kInvalidArgument if `contents` cannot be read
  // (with pages of the hugetlb pool that ends the process instead).
  static absl::StatusOr<Segment> CreateFilled(
      std::span<const std::byte> contents, SegmentKind kind,
      const SegmentOptions& options = {});
  // The same with a mapping through which this process writes later.
  static absl::StatusOr<OwnerWritten> CreateOwnerWritten(
      std::span<const std::byte> contents, const SegmentOptions& options = {});

  // Takes over a memfd received from another process, after checking that it is
  // memory (tmpfs, or for kOwnerWritten hugetlbfs with all its pages), not
  // empty, sealed against changes of its size and of its seals, and for
  // kOwnerWritten against new writers. The descriptor becomes close-on-exec; on
  // errors it is closed. Never blocks, whatever the type of the descriptor.
  // Errors: kInvalidArgument if it does not refer to memory or is empty,
  // kFailedPrecondition naming the seals that are missing.
  static absl::StatusOr<Segment> Adopt(
      UniqueFd fd, SegmentKind kind,
      CloseOnExec close_on_exec = CloseOnExec::kSet);

  // Opens a kFileSystem segment by the name() from its creator. The creator
  // keeps the name: destroying this segment does not remove it. A name that a
  // program chose exists as long as it has holders, and this segment becomes
  // one; waits up to a second for processes that are removing it.
  // Errors: kInvalidArgument for a malformed name; kNotFound, also while it is
  // being reclaimed, and for a chosen name that dead processes left, even where
  // it cannot be removed; kPermissionDenied if another user owns it, or if its
  // mode is not that of a finished segment (01600) or of another program's
  // private file (0600), or if it has a second hard link; kUnavailable if other
  // processes were removing a chosen name for a second, as a stopped one does;
  // kFailedPrecondition if it is not a regular tmpfs file or is empty.
  static absl::StatusOr<Segment> Open(absl::string_view name, SegmentKind kind);

  // The segment of that name in the options, of `size_bytes`: opens it, or
  // creates it zeroed. Exactly one of any number of processes creates it, and
  // `created`, if not null, tells which one did. See also open_or_create.h.
  // Errors: kInvalidArgument without a name; kFailedPrecondition if it exists
  // with another size; those of CreateSharedWritable() and Open().
  static absl::StatusOr<Segment> OpenOrCreateSharedWritable(
      size_t size_bytes, const SegmentOptions& options,
      bool* created = nullptr);

  ~Segment();
  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) noexcept;
  size_t size_bytes() const { return size_bytes_; }
  SegmentKind kind() const { return kind_; }
  SharingStrategy strategy() const { return strategy_; }
  SegmentPages pages() const { return pages_; }

  // To send to a peer: under kFileDescriptor the descriptor, still owned here;
  // under kFileSystem the name in /dev/shm, without a slash (else empty). fd()
  // is -1 after CloseFd().
  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }

  // The kernel's identity of the segment. At most one system call, the first
  // time. Errors: kFailedPrecondition in a forked child; fstat()'s.
  absl::StatusOr<Id> Identify();

  // Maps the whole segment, aligned if pages() are kTransparentHuge.
  // Errors: kResourceExhausted naming the limit; prefaulting's (mapping.h);
  // MapWritable() also: kFailedPrecondition on a kOwnerWritten segment, whose
  // only writer is the mapping it was created with, and kPermissionDenied on
  // one that was adopted as kSharedWritable but is sealed against new writers.
  absl::StatusOr<ReadOnlyMapping> MapReadOnly(
      const MapOptions& options = {}) const;
  absl::StatusOr<WritableMapping> MapWritable(
      const MapOptions& options = {}) const;

  // Closes the descriptor of a segment that has a name. Mappings and the name
  // stay, and the mappings hold the name: without any, it may be reclaimed as
  // if this process had died. MapReadOnly() and MapWritable() open the name for
  // the length of the call, so they also have Open()'s errors then, and
  // kFailedPrecondition if the name now refers to another file. No effect if it
  // is closed already. Errors: kFailedPrecondition under kFileDescriptor and
  // after Unlink(), where the descriptor is the only way to the memory, and in
  // a forked child; fstat()'s.
  absl::Status CloseFd();

  // Gives a segment that this process created with kFileSystem a name of the
  // caller's choice in place of its random one, in one step: for segments that
  // are to be complete before another program finds them. From then on it is as
  // if it had been created with SegmentOptions::name.
  // Errors: kAlreadyExists naming the file that has it; kInvalidArgument for a
  // bad name; kUnavailable if other processes were removing the name for a
  // second, as a stopped one does; kNotFound if the random name is gone;
  // kPermissionDenied; kFailedPrecondition if the segment has no random name of
  // its own, and in a forked child. The segment keeps its name then.
  absl::Status PublishAs(absl::string_view name);

  // From now on the destruction of this segment removes a random name only if
  // no other process holds it: for a name that is in flight, in its sender, and
  // in each process that opens it then, so that the last of them removes it.
  // The same rule holds for it as for a name that a program chose: destroy
  // mappings before the segment. No effect under kFileDescriptor. Thread-safe.
  void LeaveNameToLastHolder();

  // Removes the name now, if this segment owns one, or if a program chose it. A
  // process that has it open keeps it; a name that does not exist any more, or
  // belongs to a new segment, is not an error.
  // Errors: kFailedPrecondition in a forked child, kPermissionDenied;
  // kUnavailable if other processes were removing a chosen name for a second.
  absl::Status Unlink();

 private:
  Segment(UniqueFd fd, size_t size_bytes, SegmentKind kind,
          SharingStrategy strategy);

  static absl::StatusOr<Segment> Create(size_t size_bytes, SegmentKind kind,
                                        const SegmentOptions& options,
                                        std::span<const std::byte> contents);
  static absl::StatusOr<OwnerWritten> MapByOwner(Segment segment,
                                                 const SegmentOptions& options);
  bool is_closed() const { return !fd_.valid() && !name_.empty(); }
  static absl::StatusOr<std::optional<Segment>> TryOpen(absl::string_view name,
                                                        SegmentKind kind);
  absl::Status PublishIfNamed(const SegmentOptions& options);
  void ReleaseName();
  absl::StatusOr<Segment> Reopen() const;
  MapOptions Aligned(MapOptions options) const;
  absl::Status Seal();
  std::string Describe() const;

  UniqueFd fd_;
  size_t size_bytes_ = 0;
  SegmentKind kind_ = SegmentKind::kSharedWritable;
  SharingStrategy strategy_ = SharingStrategy::kFileDescriptor;
  SegmentPages pages_ = SegmentPages::kSmall;
  std::string name_;
  bool owns_name_ = false;  // A random one.
  bool is_chosen_ = false;  // By a program: the last holder removes it.
  bool unlinked_ = false;   // By this object.
  // The last holder removes a random name. Written atomically.
  bool is_left_to_last_ = false;
  std::optional<Id> id_;  // Once known.
  uint64_t fork_count_;
};

// The segment to pass to peers, and the only mapping that will ever write it.
// Their lifetimes are independent.
struct Segment::OwnerWritten {
  Segment segment;
  WritableMapping mapping;
};

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SEGMENT_H_
