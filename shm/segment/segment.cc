// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment_checks.h"
#include "tenon/shm/segment/segment_files.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon {
namespace {

// The size can never change again, and neither can the seals.
constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int RequiredSeals(SegmentKind kind) {
  return kind == SegmentKind::kOwnerWritten ? kFixed | F_SEAL_FUTURE_WRITE
                                            : kFixed;
}

absl::Status CheckSize(size_t size_bytes) {
  if (size_bytes == 0) {
    return absl::InvalidArgumentError(
        "segment size of 0 bytes; want at least 1");
  }
  if (size_bytes > static_cast<size_t>(std::numeric_limits<off_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment size of ", size_bytes,
                     " bytes exceeds the largest file size (2^63-1)"));
  }
  return absl::OkStatus();
}

FilePlan Plan(size_t size_bytes, SegmentKind kind,
              const SegmentOptions& options,
              std::span<const std::byte> contents) {
  return {.size_bytes = size_bytes,
          .contents = contents,
          .huge_pages = options.huge_pages,
          .allow_hugetlb = kind == SegmentKind::kOwnerWritten,
          .numa_node = options.numa_node};
}

}  // namespace

Segment::Segment(UniqueFd fd, size_t size_bytes, SegmentKind kind,
                 SharingStrategy strategy)
    : fd_(std::move(fd)),
      size_bytes_(size_bytes),
      kind_(kind),
      strategy_(strategy),
      fork_count_(ForkCount()) {}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      kind_(other.kind_),
      strategy_(other.strategy_),
      pages_(other.pages_),
      name_(std::exchange(other.name_, std::string())),
      owns_name_(std::exchange(other.owns_name_, false)),
      unlinked_(other.unlinked_),
      id_(other.id_),
      fork_count_(other.fork_count_) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  if (owns_name_) Unlink().IgnoreError();
  fd_ = std::move(other.fd_);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  kind_ = other.kind_;
  strategy_ = other.strategy_;
  pages_ = other.pages_;
  name_ = std::exchange(other.name_, std::string());
  owns_name_ = std::exchange(other.owns_name_, false);
  unlinked_ = other.unlinked_;
  id_ = other.id_;
  fork_count_ = other.fork_count_;
  return *this;
}

Segment::~Segment() {
  if (owns_name_) Unlink().IgnoreError();
}

absl::StatusOr<Segment> Segment::Create(size_t size_bytes, SegmentKind kind,
                                        const SegmentOptions& options,
                                        std::span<const std::byte> contents) {
  TENON_RETURN_IF_ERROR(CheckSize(size_bytes));
  TENON_RETURN_IF_ERROR(CheckShmPrefix(options.name_prefix));
  const FilePlan plan = Plan(size_bytes, kind, options, contents);
  const auto strategy = options.strategy.value_or(GetSharingStrategy());
  if (strategy == SharingStrategy::kFileDescriptor) {
    TENON_ASSIGN_OR_RETURN(SegmentFile file,
                           CreateMemfd(plan, options.name_prefix));
    Segment segment(std::move(file.fd), size_bytes, kind, strategy);
    segment.pages_ = file.pages;
    return segment;
  }
  TENON_ASSIGN_OR_RETURN(std::string name, MakeShmName(options.name_prefix));
  TENON_ASSIGN_OR_RETURN(SegmentFile file, CreateNamedFile(plan, name));
  Segment segment(std::move(file.fd), size_bytes, kind, strategy);
  segment.pages_ = file.pages;
  segment.name_ = std::move(name);
  segment.owns_name_ = true;
  return segment;
}

absl::Status Segment::Seal() {
  if (strategy_ != SharingStrategy::kFileDescriptor) return absl::OkStatus();
  if (fcntl(fd(), F_ADD_SEALS, RequiredSeals(kind_)) == 0) {
    TENON_CRASH_POINT("segment.sealed");
    return absl::OkStatus();
  }
  const int error = errno;
  return PosixError(error, "fcntl(F_ADD_SEALS)", Describe());
}

absl::StatusOr<Segment> Segment::CreateSharedWritable(
    size_t size_bytes, const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Create(size_bytes, SegmentKind::kSharedWritable, options, {}));
  TENON_RETURN_IF_ERROR(segment.Seal());
  return segment;
}

absl::StatusOr<Segment::OwnerWritten> Segment::CreateOwnerWritten(
    size_t size_bytes, const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Create(size_bytes, SegmentKind::kOwnerWritten, options, {}));
  return MapByOwner(std::move(segment), options);
}

absl::StatusOr<Segment::OwnerWritten> Segment::CreateOwnerWritten(
    std::span<const std::byte> contents, const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Create(contents.size(), SegmentKind::kOwnerWritten, options, contents));
  TENON_CRASH_POINT("segment.owner.filled");
  return MapByOwner(std::move(segment), options);
}

absl::StatusOr<Segment::OwnerWritten> Segment::MapByOwner(
    Segment segment, const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(
      WritableMapping mapping,
      WritableMapping::Map(segment.fd(), segment.size_bytes(),
                           segment.Describe(),
                           segment.Aligned({.prefault = options.prefault})));
  TENON_CRASH_POINT("segment.mapped_by_owner");
  // Sealed after the mapping: the seal prevents new writers, and this one
  // remains.
  TENON_RETURN_IF_ERROR(segment.Seal());
  return OwnerWritten{std::move(segment), std::move(mapping)};
}

absl::StatusOr<Segment> Segment::CreateFilled(
    std::span<const std::byte> contents, SegmentKind kind,
    const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Create(contents.size(), kind, options, contents));
  TENON_CRASH_POINT("segment.filled");
  TENON_RETURN_IF_ERROR(segment.Seal());
  return segment;
}

absl::StatusOr<Segment> Segment::Adopt(UniqueFd fd, SegmentKind kind,
                                       CloseOnExec close_on_exec) {
  const std::string what = absl::StrCat("received file descriptor ", fd.get());
  // Before anything else: see segment_checks.h.
  absl::Status sealed = CheckSeals(fd.get(), RequiredSeals(kind), what);
  if (!sealed.ok()) {
    CloseReceived(std::move(fd));
    return sealed;
  }
  TENON_ASSIGN_OR_RETURN(const CheckedMemory memory,
                         CheckMemory(fd.get(), what));
  // Any process with write access may remove such pages; the kernel kills a
  // process that touches them then if the pool is empty.
  if (memory.is_hugetlb && kind != SegmentKind::kOwnerWritten) {
    return absl::InvalidArgumentError(absl::StrCat(
        what,
        " is hugetlbfs, into which peers may punch holes; it must be "
        "owner-written"));
  }
  TENON_CRASH_POINT("segment.adopt.checked");
  if (close_on_exec == CloseOnExec::kSet &&
      fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return PosixError(errno, "fcntl(F_SETFD)", what);
  }
  Segment segment(std::move(fd), memory.size_bytes, kind,
                  SharingStrategy::kFileDescriptor);
  if (memory.is_hugetlb) segment.pages_ = SegmentPages::kHugetlb;
  segment.id_ = {.device = memory.device, .inode = memory.inode};
  return segment;
}

absl::StatusOr<Segment> Segment::Open(absl::string_view name,
                                      SegmentKind kind) {
  TENON_RETURN_IF_ERROR(CheckShmName(name));
  const std::string what = absl::StrCat("segment '", name, "' in /dev/shm");
  const bool writable = kind == SegmentKind::kSharedWritable;
  TENON_ASSIGN_OR_RETURN(UniqueFd fd, OpenNamedFile(name, writable, what));
  TENON_CRASH_POINT("segment.open.opened");
  const absl::StatusOr<CheckedMemory> memory = CheckNamedMemory(fd.get(), what);
  // The name is valid; the file behind it is not.
  if (absl::IsInvalidArgument(memory.status())) {
    return absl::FailedPreconditionError(memory.status().message());
  }
  if (!memory.ok()) return memory.status();
  Segment segment(std::move(fd), memory->size_bytes, kind,
                  SharingStrategy::kFileSystem);
  segment.name_.assign(name.data(), name.size());
  segment.id_ = {.device = memory->device, .inode = memory->inode};
  return segment;
}

absl::StatusOr<ReadOnlyMapping> Segment::MapReadOnly(
    const MapOptions& options) const {
  const std::string what = Describe();
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what));
  if (is_closed()) {
    TENON_ASSIGN_OR_RETURN(const Segment again, Reopen());
    return again.MapReadOnly(options);
  }
  return ReadOnlyMapping::Map(fd(), size_bytes_, what, Aligned(options));
}

absl::StatusOr<WritableMapping> Segment::MapWritable(
    const MapOptions& options) const {
  const std::string what = Describe();
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what));
  if (kind_ == SegmentKind::kOwnerWritten) {
    return absl::FailedPreconditionError(absl::StrCat(
        what,
        " is owner-written: its only writer is the mapping that it "
        "was created with"));
  }
  if (is_closed()) {
    TENON_ASSIGN_OR_RETURN(const Segment again, Reopen());
    return again.MapWritable(options);
  }
  return WritableMapping::Map(fd(), size_bytes_, what, Aligned(options));
}

absl::StatusOr<Segment::Id> Segment::Identify() {
  const std::string what = Describe();
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what));
  if (id_) return *id_;
  struct stat file;
  if (fstat(fd(), &file) != 0) return PosixError(errno, "fstat", what);
  id_ = {.device = file.st_dev, .inode = file.st_ino};
  return *id_;
}

absl::Status Segment::CloseFd() {
  const std::string what = Describe();
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what));
  if (strategy_ != SharingStrategy::kFileSystem) {
    return absl::FailedPreconditionError(absl::StrCat(
        "CloseFd(): ", what,
        " has no name; only segments of the file_system strategy can be mapped "
        "without a descriptor"));
  }
  if (!fd_.valid()) return absl::OkStatus();
  if (unlinked_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "CloseFd(): ", what,
        " has no name any more, and its memory could never be mapped again; "
        "close the descriptor before Unlink(), or destroy the segment"));
  }
  TENON_RETURN_IF_ERROR(Identify().status());  // For Reopen().
  fd_.Reset();
  return absl::OkStatus();
}

absl::StatusOr<Segment> Segment::Reopen() const {
  TENON_ASSIGN_OR_RETURN(Segment again, Open(name_, kind_));
  if (again.id_ != id_ || again.size_bytes() != size_bytes_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "mapping ", Describe(), ": the name now refers to file ",
        again.id_->device, ":", again.id_->inode, " of ", again.size_bytes(),
        " bytes; expected file ", id_->device, ":", id_->inode, " of ",
        size_bytes_,
        " bytes; map it before another process replaces or truncates it"));
  }
  again.pages_ = pages_;
  return again;
}

MapOptions Segment::Aligned(MapOptions options) const {
  if (pages_ == SegmentPages::kTransparentHuge) {
    options.align_to_huge_pages = true;
  }
  return options;
}

absl::Status Segment::Unlink() {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, Describe()));
  if (!owns_name_) return absl::OkStatus();
  TENON_CRASH_POINT("segment.unlink.begun");
  TENON_RETURN_IF_ERROR(RemoveShmName(name_));
  TENON_CRASH_POINT("segment.unlink.removed");
  owns_name_ = false;
  unlinked_ = true;
  return absl::OkStatus();
}

std::string Segment::Describe() const {
  return strategy_ == SharingStrategy::kFileSystem
             ? absl::StrCat("segment '", name_, "' in /dev/shm")
             : "segment in a memfd";
}

}  // namespace tenon
