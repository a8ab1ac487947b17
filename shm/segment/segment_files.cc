// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/segment_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/huge_pages.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/pages/memfd.h"
#include "tenon/shm/pages/numa_node.h"
#include "tenon/shm/pages/reserve_pages.h"
#include "tenon/shm/segment/name_token.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/shm_name.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif

namespace tenon {
namespace {

// Names the object in errors; PosixError() determines from it which limit was
// hit.
std::string What(absl::string_view place, absl::string_view name,
                 size_t size_bytes) {
  return absl::StrCat("segment '", name, "' in ", place, ", ",
                      SizeText(size_bytes));
}

// Sets the NUMA node before any page is allocated.
absl::Status Bind(int fd, const FilePlan& plan, absl::string_view what) {
  if (!plan.numa_node.has_value()) return absl::OkStatus();
  return BindToNode(fd, plan.size_bytes, *plan.numa_node, what);
}

// The call that allocates the pages sets the size as well.
absl::Status AllocateSmall(int fd, const FilePlan& plan,
                           absl::string_view what) {
  const bool filled = !plan.contents.empty();
  TENON_RETURN_IF_ERROR(CheckFileSizeLimit(
      plan.size_bytes, filled ? "pwrite" : "fallocate", what));
  TENON_RETURN_IF_ERROR(Bind(fd, plan, what));
  return filled ? WritePages(fd, plan.contents, what)
                : ReservePages(fd, 0, plan.size_bytes, what);
}

absl::StatusOr<SegmentPages> Allocate(int fd, const FilePlan& plan,
                                      absl::string_view what) {
  TENON_RETURN_IF_ERROR(AllocateSmall(fd, plan, what));
  if (plan.huge_pages == HugePages::kNo) return SegmentPages::kSmall;
  TENON_CRASH_POINT("segment.reserved_small");
  const absl::Status joined = CollapsePages(fd, plan.size_bytes, what);
  if (joined.ok()) return SegmentPages::kTransparentHuge;
  if (plan.huge_pages == HugePages::kRequire) return joined;
  return SegmentPages::kSmall;
}

// hugetlbfs has no write(), so contents are copied.
absl::Status FillHugetlb(int fd, const FilePlan& plan, absl::string_view what) {
  if (plan.contents.empty()) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(const WritableMapping mapping,
                         WritableMapping::Map(fd, plan.size_bytes, what));
  std::memcpy(mapping.data(), plan.contents.data(), plan.size_bytes);
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> CreateHugetlbMemfd(const FilePlan& plan,
                                            const std::string& label) {
  const std::string what =
      What("a memfd of huge pages", label, plan.size_bytes);
  TENON_ASSIGN_OR_RETURN(UniqueFd fd,
                         OpenMemfd(label, MFD_HUGETLB | MFD_HUGE_2MB, what));
  TENON_RETURN_IF_ERROR(SetFileSize(fd.get(), plan.size_bytes, what));
  TENON_RETURN_IF_ERROR(Bind(fd.get(), plan, what));
  TENON_RETURN_IF_ERROR(ReserveHugetlbPages(fd.get(), plan.size_bytes, what));
  TENON_RETURN_IF_ERROR(FillHugetlb(fd.get(), plan, what));
  return fd;
}

bool WantsHugetlb(const FilePlan& plan) {
  return plan.huge_pages != HugePages::kNo && plan.allow_hugetlb &&
         plan.size_bytes % kHugePageBytes == 0;
}

absl::StatusOr<SegmentFile> CreatePlainMemfd(const FilePlan& plan,
                                             const std::string& label) {
  const std::string what = What("a memfd", label, plan.size_bytes);
  TENON_ASSIGN_OR_RETURN(UniqueFd fd, OpenMemfd(label, 0, what));
  TENON_CRASH_POINT("segment.memfd.created");
  TENON_ASSIGN_OR_RETURN(const SegmentPages pages,
                         Allocate(fd.get(), plan, what));
  return SegmentFile{std::move(fd), pages};
}

// Makes the creator a holder. Until then the name looks like one that a dead
// creator left, and a process that reclaims may remove it: kAborted.
absl::StatusOr<struct stat> HoldNewName(int fd, absl::string_view what) {
  const absl::Status held = HoldName(fd, what);
  struct stat file;
  if (held.ok() && fstat(fd, &file) != 0) {
    return PosixError(errno, "fstat", what);
  }
  if (absl::IsNotFound(held) || (held.ok() && file.st_nlink != 1)) {
    return absl::AbortedError(absl::StrCat(
        what, " was reclaimed by another process while it was being created"));
  }
  if (!held.ok()) return held;
  // A umask may have taken the owner's right to write away, and processes that
  // reclaim need it.
  if ((file.st_mode & 07777) != kUnfinishedNameMode &&
      fchmod(fd, kUnfinishedNameMode) != 0) {
    return PosixError(errno, "fchmod", what);
  }
  return file;
}

// From here on Open() accepts it.
absl::Status Publish(int fd, absl::string_view what) {
  // fchmod(), unlike the mode of open(), ignores the umask.
  if (fchmod(fd, kFinishedNameMode) != 0)
    return PosixError(errno, "fchmod", what);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SegmentFile> CreateMemfd(const FilePlan& plan,
                                        const std::string& label) {
  if (!WantsHugetlb(plan)) return CreatePlainMemfd(plan, label);
  absl::StatusOr<UniqueFd> fd = CreateHugetlbMemfd(plan, label);
  if (fd.ok()) return SegmentFile{*std::move(fd), SegmentPages::kHugetlb};
  absl::StatusOr<SegmentFile> plain = CreatePlainMemfd(plan, label);
  if (plain.ok()) return plain;
  return absl::Status(plain.status().code(),
                      absl::StrCat(plain.status().message(),
                                   "; first error: ", fd.status().message()));
}

absl::StatusOr<SegmentFile> CreateNamedFile(const FilePlan& plan,
                                            const std::string& name) {
  const std::string what = What("/dev/shm", name, plan.size_bytes);
  const std::string path = absl::StrCat("/", name);
  // shm_open() adds O_NOFOLLOW and O_CLOEXEC.
  UniqueFd fd(
      shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, kUnfinishedNameMode));
  if (!fd.valid()) return PosixError(errno, "shm_open", what);
  TENON_CRASH_POINT("segment.named.created");
  const absl::StatusOr<struct stat> held = HoldNewName(fd.get(), what);
  TENON_CRASH_POINT("segment.named.held");
  const absl::StatusOr<SegmentPages> pages =
      held.ok() ? Allocate(fd.get(), plan, what) : held.status();
  TENON_CRASH_POINT("segment.named.reserved");
  absl::Status made = pages.status();
  if (made.ok()) made = Publish(fd.get(), what);
  TENON_CRASH_POINT("segment.named.published");
  if (made.ok()) {
    return SegmentFile{.fd = std::move(fd),
                       .pages = *pages,
                       .device = held->st_dev,
                       .inode = held->st_ino};
  }
  RemoveShmName(name).IgnoreError();
  return made;
}

absl::StatusOr<UniqueFd> OpenNamedFile(absl::string_view name, bool writable,
                                       absl::string_view what) {
  const std::string path = absl::StrCat("/", name);
  // shm_open() adds O_NOFOLLOW and O_CLOEXEC. O_NONBLOCK keeps a planted FIFO
  // from blocking the open, O_NOCTTY a planted terminal from becoming the
  // controlling one.
  const int flags = (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(shm_open(path.c_str(), flags, 0));
  if (fd.valid()) return fd;
  const int error = errno;
  absl::Status status = PosixError(error, "shm_open", what);
  switch (error) {
    case EINVAL:  // A directory.
    case ELOOP:   // A symbolic link.
    case ENXIO:   // A socket.
      return absl::FailedPreconditionError(status.message());
    default:
      return status;
  }
}

}  // namespace tenon
