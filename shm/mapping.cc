// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/mapping.h"

#include <errno.h>
#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/posix_error.h"

namespace tenon {
namespace {

absl::StatusOr<internal_mapping::Range> MapRange(int fd, size_t size_bytes,
                                                 int protection,
                                                 absl::string_view what) {
  void* data = mmap(nullptr, size_bytes, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    return PosixError(
        error, "mmap",
        absl::StrCat(what, ", ", size_bytes, " bytes ",
                     protection & PROT_WRITE ? "writable" : "read-only"));
  }
  return internal_mapping::Range(data, size_bytes);
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

absl::StatusOr<ReadOnlyMapping> ReadOnlyMapping::Map(int fd, size_t size_bytes,
                                                     absl::string_view what) {
  auto range = MapRange(fd, size_bytes, PROT_READ, what);
  if (!range.ok()) return range.status();
  return ReadOnlyMapping(*std::move(range));
}

absl::StatusOr<WritableMapping> WritableMapping::Map(int fd, size_t size_bytes,
                                                     absl::string_view what) {
  auto range = MapRange(fd, size_bytes, PROT_READ | PROT_WRITE, what);
  if (!range.ok()) return range.status();
  return WritableMapping(*std::move(range));
}

}  // namespace tenon
