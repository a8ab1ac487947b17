// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/control_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/memfd.h"
#include "tenon/shm/pages/reserve_pages.h"
#include "tenon/shm/segment/segment_checks.h"

namespace tenon {
namespace {

using internal_control_memory::PrivateRange;

constexpr int kSeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

}  // namespace

namespace internal_control_memory {

absl::StatusOr<PrivateRange> PrivateRange::Map(int fd, ByteRange range,
                                               int protection,
                                               absl::string_view what) {
  void* data = mmap(nullptr, range.size, protection, MAP_SHARED | MAP_NORESERVE,
                    fd, static_cast<off_t>(range.offset));
  if (data == MAP_FAILED) {
    const int error = errno;
    return PosixError(error, "mmap",
                      absl::StrCat(what, ", ", range.size, " bytes"));
  }
  PrivateRange mapped;
  mapped.data_ = static_cast<std::byte*>(data);
  mapped.size_ = range.size;
  // A child that wrote its parent's words would make claims for its parent.
  if (madvise(data, range.size, MADV_DONTFORK) != 0) {
    return PosixError(errno, "madvise(MADV_DONTFORK)", what);
  }
  // A dump of sparse memory would not be sparse. Best effort.
  madvise(data, range.size, MADV_DONTDUMP);
  return mapped;
}

PrivateRange& PrivateRange::operator=(PrivateRange&& other) noexcept {
  if (this == &other) return *this;
  Unmap();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  fork_count_ = other.fork_count_;
  return *this;
}

void PrivateRange::Unmap() {
  // In a forked child another mapping may be at this address by now.
  if (data_ != nullptr && fork_count_ == ForkCount()) munmap(data_, size_);
}

}  // namespace internal_control_memory

absl::StatusOr<ControlMemory> ControlMemory::Create(size_t size_bytes,
                                                    const std::string& label) {
  std::string what = absl::StrCat("control memory '", label, "'");
  TENON_ASSIGN_OR_RETURN(UniqueFd fd, OpenMemfd(label, 0, what));
  TENON_RETURN_IF_ERROR(SetFileSize(fd.get(), size_bytes, what));
  TENON_ASSIGN_OR_RETURN(PrivateRange range,
                         PrivateRange::Map(fd.get(), {0, size_bytes},
                                           PROT_READ | PROT_WRITE, what));
  TENON_CRASH_POINT("control_memory.mapped");
  // After the mapping: the seal prevents new writers, and this one remains.
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return PosixError(errno, "fcntl(F_ADD_SEALS)", what);
  }
  TENON_CRASH_POINT("control_memory.sealed");
  return ControlMemory(std::move(fd), std::move(range), std::move(what));
}

absl::Status ControlMemory::Reserve(ByteRange range) const {
  return ReserveControlMemory(fd_.get(), range, what_);
}

absl::StatusOr<ControlView> ControlView::Adopt(int fd, ByteRange range,
                                               absl::string_view what) {
  TENON_ASSIGN_OR_RETURN(const size_t size, CheckIsControlMemory(fd, what));
  if (range.offset > size || range.size > size - range.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": range of ", range.size, " bytes at offset ",
                     range.offset, " exceeds its size of ", size, " bytes"));
  }
  TENON_ASSIGN_OR_RETURN(PrivateRange mapped,
                         PrivateRange::Map(fd, range, PROT_READ, what));
  return ControlView(std::move(mapped));
}

absl::StatusOr<size_t> CheckIsControlMemory(int fd, absl::string_view what) {
  // Seals first: only memory has them, and the query never blocks.
  TENON_RETURN_IF_ERROR(CheckSeals(fd, kSeals, what));
  TENON_ASSIGN_OR_RETURN(const CheckedMemory memory, CheckMemory(fd, what));
  // The pool may be empty when such a page is touched.
  if (memory.is_hugetlb) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " has huge pages; want small pages for control memory"));
  }
  return memory.size_bytes;
}

absl::Status ReserveControlMemory(int fd, ByteRange range,
                                  absl::string_view what) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return PosixError(errno, "fcntl(F_GETFL)", what);
  if ((flags & O_ACCMODE) != O_RDWR) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, ": its pages cannot be reserved through a read-only descriptor"));
  }
  return ReservePages(fd, range.offset, range.size, what);
}

}  // namespace tenon
