// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/available_memory.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_cpu_time.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/name_keeper.h"
#include "tenon/shm/segment/name_token.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/open_or_create.h"
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

struct NamedFile {
  SegmentFile file;
  std::string name;
};

// A process that reclaims may take a new name for a dead one before the creator
// holds it: then it is created under another name.
absl::StatusOr<NamedFile> CreateNamed(const FilePlan& plan,
                                      const std::string& prefix) {
  constexpr int kTries = 8;
  for (int i = 1;; ++i) {
    TENON_ASSIGN_OR_RETURN(std::string name, MakeShmName(prefix));
    absl::StatusOr<SegmentFile> file = CreateNamedFile(plan, name);
    if (file.ok()) return NamedFile{*std::move(file), std::move(name)};
    if (!absl::IsAborted(file.status()) || i == kTries) return file.status();
  }
}

// Removes a name without a holder, which therefore does not exist: kNotFound.
// OK if another process is removing it or has done so.
absl::Status RemoveDeadName(absl::string_view name, absl::string_view what) {
  const absl::StatusOr<bool> removed = ReclaimDeadName(name);
  if (removed.ok() && !*removed) return absl::OkStatus();
  // As in a /dev/shm that is read-only.
  const bool is_forbidden = absl::IsPermissionDenied(removed.status());
  if (!removed.ok() && !is_forbidden) return removed.status();
  return absl::NotFoundError(absl::StrCat(
      what, ": all processes that held it have ended",
      is_forbidden ? "; the name stays: " : "", removed.status().message()));
}

// Makes `fd` a holder of a name that a program chose, which ceases to exist
// with its last holder. False if another process is removing it or has done so:
// then it is worth another look at the name.
absl::StatusOr<bool> HoldChosenName(int fd, absl::string_view name,
                                    absl::string_view what) {
  TENON_ASSIGN_OR_RETURN(const bool is_held, IsNameHeld(fd, what));
  // Not even while another process is removing it: if that is killed before it
  // has done so, this process must not become a holder of a dead name.
  if (!is_held) {
    TENON_RETURN_IF_ERROR(RemoveDeadName(name, what));
    return false;
  }
  TENON_CRASH_POINT("segment.open.seen_held");
  const absl::Status held = HoldName(fd, what);
  if (absl::IsNotFound(held)) return false;
  TENON_RETURN_IF_ERROR(held);
  struct stat file;
  if (fstat(fd, &file) != 0) return PosixError(errno, "fstat", what);
  return file.st_nlink == 1;
}

// Removes the names that dead processes left; whether there were any. A scan
// opens each segment of this user, and an arena whose memory is short asks at
// each of many tries, under its lock. So a scan that found nothing is followed
// by none for 20 times the CPU time that it took, and for at least 100 ms.
bool ReclaimNames() {
  constexpr absl::Duration kPause = absl::Milliseconds(100);
  static std::atomic<int64_t> no_scan_before_ns{0};
  if (MonotonicNs() < no_scan_before_ns.load()) return false;
  const absl::Duration begin = ThreadCpuTime();
  const auto removed = ReclaimDeadNames();
  const bool found = removed.ok() && !removed->empty();
  const absl::Duration pause = std::max(kPause, 20 * (ThreadCpuTime() - begin));
  no_scan_before_ns.store(
      found ? 0 : MonotonicNs() + absl::ToInt64Nanoseconds(pause));
  return found;
}

// If memory for names is short (and not, say, descriptors): ReclaimNames().
bool ReclaimMemory(size_t size_bytes) {
  struct statfs fs;
  if (statfs("/dev/shm", &fs) != 0) return false;
  const auto block = static_cast<uint64_t>(fs.f_bsize);
  const bool is_limited = fs.f_blocks != 0;
  if (is_limited && size_bytes > fs.f_blocks * block) return false;
  const bool is_short = (is_limited && size_bytes > fs.f_bavail * block) ||
                        (fs.f_files != 0 && fs.f_ffree == 0) ||
                        size_bytes > GetAvailableMemory().bytes;
  return is_short && ReclaimNames();
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
      is_chosen_(std::exchange(other.is_chosen_, false)),
      unlinked_(other.unlinked_),
      is_left_to_last_(std::exchange(other.is_left_to_last_, false)),
      id_(other.id_),
      fork_count_(other.fork_count_) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  ReleaseName();
  fd_ = std::move(other.fd_);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  kind_ = other.kind_;
  strategy_ = other.strategy_;
  pages_ = other.pages_;
  name_ = std::exchange(other.name_, std::string());
  owns_name_ = std::exchange(other.owns_name_, false);
  is_chosen_ = std::exchange(other.is_chosen_, false);
  unlinked_ = other.unlinked_;
  is_left_to_last_ = std::exchange(other.is_left_to_last_, false);
  id_ = other.id_;
  fork_count_ = other.fork_count_;
  return *this;
}

Segment::~Segment() { ReleaseName(); }

void Segment::ReleaseName() {
  const bool last_removes = is_chosen_ || is_left_to_last_;
  if (owns_name_ && !last_removes) Unlink().IgnoreError();
  if (!last_removes || unlinked_ || fork_count_ != ForkCount()) return;
  fd_.Reset();
  ReclaimDeadName(name_).IgnoreError();
}

absl::StatusOr<Segment> Segment::Create(size_t size_bytes, SegmentKind kind,
                                        const SegmentOptions& options,
                                        std::span<const std::byte> contents) {
  TENON_RETURN_IF_ERROR(CheckSize(size_bytes));
  TENON_RETURN_IF_ERROR(CheckShmPrefix(options.name_prefix));
  const FilePlan plan = Plan(size_bytes, kind, options, contents);
  TENON_ASSIGN_OR_RETURN(const SharingStrategy strategy, StrategyOf(options));
  if (strategy == SharingStrategy::kFileDescriptor) {
    TENON_ASSIGN_OR_RETURN(SegmentFile file,
                           CreateMemfd(plan, options.name_prefix));
    Segment segment(std::move(file.fd), size_bytes, kind, strategy);
    segment.pages_ = file.pages;
    return segment;
  }
  if (NameKeeper* const keeper = GetNameKeeper()) keeper->Attend();
  absl::StatusOr<NamedFile> named = CreateNamed(plan, options.name_prefix);
  if (absl::IsResourceExhausted(named.status()) && ReclaimMemory(size_bytes)) {
    named = CreateNamed(plan, options.name_prefix);
  }
  if (!named.ok()) return named.status();
  Segment segment(std::move(named->file.fd), size_bytes, kind, strategy);
  segment.pages_ = named->file.pages;
  segment.id_ = {.device = named->file.device, .inode = named->file.inode};
  segment.name_ = std::move(named->name);
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
  TENON_RETURN_IF_ERROR(segment.PublishIfNamed(options));
  return segment;
}

absl::StatusOr<Segment> Segment::OpenOrCreateSharedWritable(
    size_t size_bytes, const SegmentOptions& options, bool* created) {
  TENON_RETURN_IF_ERROR(CheckChosenShmName(options.name));
  const auto open = [&]() -> absl::StatusOr<Segment> {
    TENON_ASSIGN_OR_RETURN(Segment segment,
                           Open(options.name, SegmentKind::kSharedWritable));
    if (segment.size_bytes() == size_bytes) return segment;
    return absl::FailedPreconditionError(
        absl::StrCat(segment.Describe(), " exists with ", segment.size_bytes(),
                     " bytes; want ", size_bytes));
  };
  return OpenOrCreate(
      open, [&] { return CreateSharedWritable(size_bytes, options); }, created);
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
  TENON_RETURN_IF_ERROR(segment.PublishIfNamed(options));
  return OwnerWritten{std::move(segment), std::move(mapping)};
}

absl::StatusOr<Segment> Segment::CreateFilled(
    std::span<const std::byte> contents, SegmentKind kind,
    const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Create(contents.size(), kind, options, contents));
  TENON_CRASH_POINT("segment.filled");
  TENON_RETURN_IF_ERROR(segment.Seal());
  TENON_RETURN_IF_ERROR(segment.PublishIfNamed(options));
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
  if (NameKeeper* const keeper = GetNameKeeper()) keeper->Attend();
  const Deadline deadline = Deadline::After(kNameRemovalTime);
  for (;;) {
    TENON_ASSIGN_OR_RETURN(std::optional<Segment> segment, TryOpen(name, kind));
    if (segment) return *std::move(segment);
    if (deadline.has_passed()) {
      return NameRemovalTimeout(
          absl::StrCat("segment '", name, "' in /dev/shm"));
    }
    absl::SleepFor(absl::Microseconds(100));
  }
}

// Nothing if a process is removing the name, or has removed it from the file
// that was opened.
absl::StatusOr<std::optional<Segment>> Segment::TryOpen(absl::string_view name,
                                                        SegmentKind kind) {
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
  const bool is_chosen = memory->has_name_token && !IsMadeShmName(name);
  if (is_chosen) {
    TENON_ASSIGN_OR_RETURN(const bool held,
                           HoldChosenName(fd.get(), name, what));
    if (!held) return std::nullopt;
  } else if (memory->has_name_token) {
    TENON_RETURN_IF_ERROR(HoldName(fd.get(), what));
  }
  TENON_CRASH_POINT("segment.open.held");
  Segment segment(std::move(fd), memory->size_bytes, kind,
                  SharingStrategy::kFileSystem);
  segment.name_.assign(name.data(), name.size());
  segment.is_chosen_ = is_chosen;
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

absl::Status Segment::PublishIfNamed(const SegmentOptions& options) {
  return options.name.empty() ? absl::OkStatus() : PublishAs(options.name);
}

absl::Status Segment::PublishAs(absl::string_view name) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, Describe()));
  TENON_RETURN_IF_ERROR(CheckChosenShmName(name));
  if (!owns_name_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "PublishAs('", name, "'): ", Describe(),
        " has no random name of its own; create it with the file_system "
        "strategy and without SegmentOptions::name"));
  }
  TENON_CRASH_POINT("segment.publish.begun");
  TENON_RETURN_IF_ERROR(GiveChosenName(name_, name));
  TENON_CRASH_POINT("segment.publish.named");
  name_.assign(name.data(), name.size());
  owns_name_ = false;
  is_chosen_ = true;
  return absl::OkStatus();
}

void Segment::LeaveNameToLastHolder() {
  if (strategy_ != SharingStrategy::kFileSystem) return;
  std::atomic_ref(is_left_to_last_).store(true, std::memory_order_relaxed);
}

absl::Status Segment::Unlink() {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, Describe()));
  if (is_chosen_ && !unlinked_) {
    TENON_RETURN_IF_ERROR(RemoveNameOfFile(name_, id_->device, id_->inode));
    unlinked_ = true;
    return absl::OkStatus();
  }
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
