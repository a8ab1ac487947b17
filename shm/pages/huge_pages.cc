// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/huge_pages.h"

#include <errno.h>
#include <sys/mman.h>

#include <cstddef>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/pages/reserve_pages.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1.
#endif

namespace tenon {
namespace {

constexpr int kTries = 10;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

std::string PoolInWords() {
  const std::string pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  return absl::StrCat(
      "; huge pages of 2 MiB: ", FirstLine(pool + "free_hugepages"), " of ",
      FirstLine(pool + "nr_hugepages"),
      " free; get more as root: sysctl -w "
      "vm.nr_hugepages=<more>");
}

// Fails with EAGAIN on pages that the kernel holds for a moment.
int Collapse(void* data, size_t size_bytes) {
  for (int i = 1;; ++i) {
    if (madvise(data, size_bytes, MADV_COLLAPSE) == 0) return 0;
    if ((errno != EAGAIN && errno != EINTR) || i == kTries) return errno;
  }
}

absl::Status CollapseError(int error, absl::string_view what) {
  const absl::Status status = PosixError(error, "madvise(MADV_COLLAPSE)", what);
  switch (error) {
    case ENOMEM:
    case EBUSY:  // The memory cgroup.
      return absl::ResourceExhaustedError(
          absl::StrCat(status.message(),
                       "; no 2 MiB in one piece: as root, echo 1 > "
                       "/proc/sys/vm/compact_memory"));
    case EINVAL:
      return absl::FailedPreconditionError(absl::StrCat(
          status.message(),
          "; that needs Linux 6.1 with transparent huge pages, and "
          "/sys/kernel/mm/transparent_hugepage/shmem_enabled to be other than "
          "deny; it is: ",
          FirstLine("/sys/kernel/mm/transparent_hugepage/shmem_enabled")));
    default:
      return status;
  }
}

absl::Status PoolError(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), PoolInWords()));
}

}  // namespace

absl::Status CollapsePages(int fd, size_t size_bytes, absl::string_view what) {
  const size_t whole = size_bytes - size_bytes % kHugePageBytes;
  if (whole == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is smaller than a huge page of 2 MiB"));
  }
  TENON_ASSIGN_OR_RETURN(
      const ReadOnlyMapping mapping,
      ReadOnlyMapping::Map(fd, whole, what, {.align_to_huge_pages = true}));
  const int error = Collapse(const_cast<std::byte*>(mapping.data()), whole);
  return error == 0 ? absl::OkStatus() : CollapseError(error, what);
}

absl::Status ReserveHugetlbPages(int fd, size_t size_bytes,
                                 absl::string_view what) {
  // A mapping reserves all pages of the file at once and permanently, or none.
  void* range = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (range == MAP_FAILED) return PoolError(PosixError(errno, "mmap", what));
  munmap(range, size_bytes);
  return PoolError(AllocatePages(fd, 0, size_bytes, what));
}

}  // namespace tenon
