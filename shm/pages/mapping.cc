// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14.
#define MADV_POPULATE_WRITE 23
#endif

namespace tenon {
namespace {

using internal_mapping::Range;

std::string InWords(absl::string_view what, size_t size_bytes, int protection) {
  return absl::StrCat(what, ", ", SizeText(size_bytes), " ",
                      protection & PROT_WRITE ? "writable" : "read-only");
}

size_t RoundUp(size_t number, size_t unit) {
  return (number + unit - 1) / unit * unit;
}

// MAP_FAILED on errors. Reserves addresses for one huge page more than needed,
// maps the file at the aligned address, and unmaps the rest.
void* MapAligned(int fd, size_t size_bytes, int protection) {
  const size_t spare_bytes = size_bytes + kHugePageBytes;
  if (spare_bytes < size_bytes) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* spare = mmap(nullptr, spare_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (spare == MAP_FAILED) return MAP_FAILED;
  auto* const begin = static_cast<std::byte*>(spare);
  const auto address = reinterpret_cast<uintptr_t>(spare);
  std::byte* const at = begin + (RoundUp(address, kHugePageBytes) - address);
  if (mmap(at, size_bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED) {
    const int error = errno;
    munmap(spare, spare_bytes);
    errno = error;
    return MAP_FAILED;
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const end = begin + RoundUp(spare_bytes, page);
  std::byte* const after = at + RoundUp(size_bytes, page);
  if (at != begin) munmap(begin, static_cast<size_t>(at - begin));
  if (after != end) munmap(after, static_cast<size_t>(end - after));
  return at;
}

absl::Status Prefault(const Range& range, int fd, int protection,
                      absl::string_view what) {
  const int advice =
      protection & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (RetryOnEintr(
          [&] { return madvise(range.data(), range.size(), advice); }) == 0) {
    return absl::OkStatus();
  }
  if (errno != EINVAL) {
    const int error = errno;
    return PosixError(error, "madvise(MADV_POPULATE)",
                      InWords(what, range.size(), protection));
  }
  // Older kernels prefault only in mmap(), and do not report failure.
  if (mmap(range.data(), range.size(), protection,
           MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) != MAP_FAILED) {
    return absl::OkStatus();
  }
  const int error = errno;
  return PosixError(error, "mmap", InWords(what, range.size(), protection));
}

absl::StatusOr<Range> MapRange(int fd, size_t size_bytes, int protection,
                               absl::string_view what,
                               const MapOptions& options) {
  void* data = options.align_to_huge_pages && size_bytes >= kHugePageBytes
                   ? MapAligned(fd, size_bytes, protection)
                   : mmap(nullptr, size_bytes, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    return PosixError(error, "mmap", InWords(what, size_bytes, protection));
  }
  Range range(data, size_bytes);
  if (options.prefault) {
    TENON_RETURN_IF_ERROR(Prefault(range, fd, protection, what));
  }
  return range;
}

}  // namespace

namespace internal_mapping {

Range& Range::operator=(Range&& other) noexcept {
  if (this == &other) return *this;
  Unmap();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void Range::Unmap() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace internal_mapping

absl::StatusOr<ReadOnlyMapping> ReadOnlyMapping::Map(
    int fd, size_t size_bytes, absl::string_view what,
    const MapOptions& options) {
  auto range = MapRange(fd, size_bytes, PROT_READ, what, options);
  if (!range.ok()) return range.status();
  return ReadOnlyMapping(*std::move(range));
}

absl::StatusOr<WritableMapping> WritableMapping::Map(
    int fd, size_t size_bytes, absl::string_view what,
    const MapOptions& options) {
  auto range = MapRange(fd, size_bytes, PROT_READ | PROT_WRITE, what, options);
  if (!range.ok()) return range.status();
  return WritableMapping(*std::move(range));
}

}  // namespace tenon
